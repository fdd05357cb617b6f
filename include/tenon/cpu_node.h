/*
 * The call signature of CPU nodes: functions of a library in a package, called on the thread that
 * executes the model (docs/package.md, "Several nodes").
 *
 * A library needs this header only:
 *
 *     #include <tenon/cpu_node.h>
 *
 *     int32_t twice(const tenon_cpu_node_call *call)
 *     {
 *         const float *x = call->inputs[0].data;
 *         float *y = call->outputs[0].data;
 *         for (uint64_t i = 0; i < call->outputs[0].bytes / sizeof *y; i++)
 *             y[i] = 2 * x[i];
 *         return 0;
 *     }
 *
 *     cc -shared -fPIC -O2 -o libtwice.so twice.c
 *     tenon compile model.onnx --cpu-node Twice_0=libtwice.so:twice
 *     TENON_ALLOW_NATIVE_NODES=1 tenon run model.neff
 *
 * A function may be called concurrently from several threads. The memory that a call points to is
 * valid until the function returns.
 */
#ifndef TENON_CPU_NODE_H
#define TENON_CPU_NODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this signature; new members are added at the end of the structs only. */
#define TENON_CPU_NODE_VERSION 1

/* A tensor: row-major, little-endian, aligned to 64 bytes. */
typedef struct tenon_cpu_node_tensor {
    /* Name of the value in the model. */
    const char *name;
    /* Name of the data type, such as "f32", "bf16", "i64", "bool". */
    const char *dtype;
    /* Extents, outermost first; `rank` of them. */
    const uint64_t *shape;
    uint64_t rank;
    /* Elements; those of inputs are read-only. */
    void *data;
    /* Size of `data`. */
    uint64_t bytes;
} tenon_cpu_node_tensor;

/* An attribute of the node's operator in the model. */
typedef struct tenon_cpu_node_attribute {
    const char *name;
    /* "float", "int" or "string"; for a list "floats", "ints" or "strings". */
    const char *kind;
    /* An array of `count` values: float, int64_t or const char *. One value unless it is a list. */
    const void *values;
    uint64_t count;
} tenon_cpu_node_attribute;

/* One call. */
typedef struct tenon_cpu_node_call {
    /* sizeof(tenon_cpu_node_call) as compiled by the caller: members beyond it are absent. */
    size_t size;
    /* Name of the node in the model. */
    const char *node;
    /* The inputs, in the order of the node's inputs. */
    const tenon_cpu_node_tensor *inputs;
    uint64_t input_count;
    /* The outputs; every byte must be written. Contents are unspecified before. */
    const tenon_cpu_node_tensor *outputs;
    uint64_t output_count;
    /* Buffer for the error message of a failed call, ended by NUL. */
    char *message;
    uint64_t message_size;
    /* Attributes, sorted by name (bytes). */
    const tenon_cpu_node_attribute *attributes;
    uint64_t attribute_count;
} tenon_cpu_node_call;

/* The function of a node: returns 0 for success, any other value for failure. */
typedef int32_t (*tenon_cpu_node_function)(const tenon_cpu_node_call *call);

#ifdef __cplusplus
}
#endif

#endif
