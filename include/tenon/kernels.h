/*
 * Kernels of host programs in a shared library: `tenon exec --shared_libs libmine.so program.mlir`.
 *
 * A library needs this header only:
 *
 *     #include <tenon/kernels.h>
 *
 *     static int32_t scale(const tenon_kernel_call *call)
 *     {
 *         call->results[0].i = call->operands[0].i * call->attributes[0].value.i;
 *         return 0;
 *     }
 *
 *     static const tenon_kernel kernels[] = {
 *         {"my.scale.i32", "i32", "i32", "i32", scale, "Its operand times the attribute."},
 *     };
 *
 *     const tenon_kernel_library *tenon_kernels(void)
 *     {
 *         static const tenon_kernel_library library = {
 *             TENON_KERNELS_VERSION, sizeof(tenon_kernel), kernels, 1,
 *         };
 *         return &library;
 *     }
 *
 *     cc -shared -fPIC -O2 -o libmine.so mine.c
 *
 *     func.func @main() -> i32 {
 *       %x = tfrt.constant.i32 6
 *       %y = "my.scale.i32"(%x) {factor = 7 : i32} : (i32) -> i32
 *       tfrt.return %y : i32
 *     }
 *
 * A function may be called concurrently from several threads. The memory that a call points to is
 * valid until the function returns. A library stays loaded until the process ends.
 */
#ifndef TENON_KERNELS_H
#define TENON_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; new members are added at the end of the structs only. */
#define TENON_KERNELS_VERSION 1

/*
 * A value, by its type:
 *   i1 i8 i16 i32 i64        i, with its sign; i1 is 0 or 1
 *   ui8 ui16 ui32 ui64       u
 *   f32                      f32
 *   f64                      f64
 *   !tfrt.chain              no value: an ordering dependency
 */
typedef union tenon_kernel_value {
    int64_t i;
    uint64_t u;
    float f32;
    double f64;
} tenon_kernel_value;

/* An attribute: a number, or a string of `length` bytes, which need not end with NUL. */
typedef struct tenon_kernel_attribute {
    tenon_kernel_value value;
    const char *text;
    uint64_t length;
} tenon_kernel_attribute;

/* One call. */
typedef struct tenon_kernel_call {
    /* sizeof(tenon_kernel_call) as compiled by the caller: members beyond it are absent. */
    size_t size;
    /* Name of the kernel. */
    const char *kernel;
    const tenon_kernel_value *operands;
    uint64_t operand_count;
    /* In the order of their names. */
    const tenon_kernel_attribute *attributes;
    uint64_t attribute_count;
    /* Set by the function; zero before. */
    tenon_kernel_value *results;
    uint64_t result_count;
    /* Buffer for the error message of a failed call, ended by NUL. */
    char *message;
    uint64_t message_size;
} tenon_kernel_call;

/* The function of a kernel: returns 0 for success, any other value for failure. */
typedef int32_t (*tenon_kernel_function)(const tenon_kernel_call *call);

/* A kernel. All strings end with NUL and are static. */
typedef struct tenon_kernel {
    /* Its name in programs, "dialect.name". */
    const char *name;
    /* The types above, separated by commas; empty or null for none. */
    const char *operands;
    const char *results;
    /* Types in the order of the attributes' names: those above except the chain, and "string". */
    const char *attributes;
    tenon_kernel_function function;
    /* Description, one sentence; may be null. */
    const char *documentation;
} tenon_kernel;

/* All kernels of a library. */
typedef struct tenon_kernel_library {
    /* TENON_KERNELS_VERSION. */
    uint64_t version;
    /* sizeof(tenon_kernel): the stride of `kernels`. */
    uint64_t kernel_size;
    const tenon_kernel *kernels;
    uint64_t kernel_count;
} tenon_kernel_library;

/* The function that a library exports. */
const tenon_kernel_library *tenon_kernels(void);

#ifdef __cplusplus
}
#endif

#endif
