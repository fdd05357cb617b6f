/*
 * Kernels of host programs in a shared library: `tenon exec --shared_libs libmine.so program.mlir`.
 *
 * A library is made with nothing but this header:
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
 * Several threads may call one function at the same time. What the call points to is valid until the
 * function returns. A library stays in the process until that ends.
 */
#ifndef TENON_KERNELS_H
#define TENON_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; fields are only ever added at the end of the structs. */
#define TENON_KERNELS_VERSION 1

/*
 * A value, by its type:
 *   i1 i8 i16 i32 i64        i, with its sign; i1 is 0 or 1
 *   ui8 ui16 ui32 ui64       u
 *   f32                      f32
 *   f64                      f64
 *   !tfrt.chain              nothing: it only orders
 */
typedef union tenon_kernel_value {
    int64_t i;
    uint64_t u;
    float f32;
    double f64;
} tenon_kernel_value;

/* An attribute: a number, or a string of bytes that need not end with a zero byte. */
typedef struct tenon_kernel_attribute {
    tenon_kernel_value value;
    const char *text;
    uint64_t length;
} tenon_kernel_attribute;

/* One call. */
typedef struct tenon_kernel_call {
    /* sizeof(tenon_kernel_call) of who calls: fields past it are not there. */
    size_t size;
    /* Name of the kernel. */
    const char *kernel;
    const tenon_kernel_value *operands;
    uint64_t operand_count;
    /* In the order of their names. */
    const tenon_kernel_attribute *attributes;
    uint64_t attribute_count;
    /* To be set; zero before. */
    tenon_kernel_value *results;
    uint64_t result_count;
    /* Room for what to say when the call fails: text that ends with a zero byte. */
    char *message;
    uint64_t message_size;
} tenon_kernel_call;

/* What a kernel does: answers 0, or any other number when it failed. */
typedef int32_t (*tenon_kernel_function)(const tenon_kernel_call *call);

/* A kernel. All texts end with a zero byte and stay where they are. */
typedef struct tenon_kernel {
    /* Its name in programs, "dialect.name". */
    const char *name;
    /* The types above, with commas between; empty or null for none. */
    const char *operands;
    const char *results;
    /* The same in the order of the attributes' names; of the types above but the chain, and "string". */
    const char *attributes;
    tenon_kernel_function function;
    /* What it does, in a sentence; may be null. */
    const char *documentation;
} tenon_kernel;

/* All kernels of a library. */
typedef struct tenon_kernel_library {
    /* TENON_KERNELS_VERSION. */
    uint64_t version;
    /* sizeof(tenon_kernel): the distance from one to the next. */
    uint64_t kernel_size;
    const tenon_kernel *kernels;
    uint64_t kernel_count;
} tenon_kernel_library;

/* What a library exports, under this name. */
const tenon_kernel_library *tenon_kernels(void);

#ifdef __cplusplus
}
#endif

#endif
