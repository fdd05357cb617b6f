/*
 * The call signature of CPU nodes: functions of a library that a package carries and that run in the
 * thread that executes the model (docs/package.md, "Several nodes").
 *
 * A library is made with nothing but this header:
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
 * Several threads may call one function at the same time. What the call points to is valid until the
 * function returns.
 */
#ifndef TENON_CPU_NODE_H
#define TENON_CPU_NODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this signature; fields are only ever added at the end of the structs. */
#define TENON_CPU_NODE_VERSION 1

/* A tensor: row-major, little-endian, its first byte at a multiple of 64. */
typedef struct tenon_cpu_node_tensor {
    /* Name of the value in the model. */
    const char *name;
    /* Name of the data type, such as "f32", "bf16", "i64", "bool". */
    const char *dtype;
    /* Extents, outermost first; `rank` of them. */
    const uint64_t *shape;
    uint64_t rank;
    /* Elements; those of inputs are only read. */
    void *data;
    /* Size of `data`. */
    uint64_t bytes;
} tenon_cpu_node_tensor;

/* An attribute that the model gives the node's operator. */
typedef struct tenon_cpu_node_attribute {
    const char *name;
    /* "float", "int" or "string"; of a list "floats", "ints" or "strings". */
    const char *kind;
    /* `count` values one after the other: float, int64_t or const char *. One unless it is a list. */
    const void *values;
    uint64_t count;
} tenon_cpu_node_attribute;

/* One call. */
typedef struct tenon_cpu_node_call {
    /* sizeof(tenon_cpu_node_call) of who calls: fields past it are not there. */
    size_t size;
    /* Name of the node in the model. */
    const char *node;
    /* What is read, in the order of the node's inputs. */
    const tenon_cpu_node_tensor *inputs;
    uint64_t input_count;
    /* What is to be written, wholly; holds anything before. */
    const tenon_cpu_node_tensor *outputs;
    uint64_t output_count;
    /* Room for what to say when the call fails: text that ends with a zero byte. */
    char *message;
    uint64_t message_size;
    /* Attributes, in the order of their names' bytes. */
    const tenon_cpu_node_attribute *attributes;
    uint64_t attribute_count;
} tenon_cpu_node_call;

/* The function of a node: answers 0, or any other number when it failed. */
typedef int32_t (*tenon_cpu_node_function)(const tenon_cpu_node_call *call);

#ifdef __cplusplus
}
#endif

#endif
