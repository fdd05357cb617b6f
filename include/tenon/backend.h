/*
 * tenon/backend.h: write a backend for Tenon as a shared library.
 *
 * A backend executes parts of a model. When a model is compiled, Tenon queries which nodes the
 * backend supports and calls it to plan workloads and prepare constants; when the model is loaded,
 * the backend creates the workloads; an execution is one function call per workload.
 * docs/backends.md ("Write a backend in an hour") describes a small backend; examples/backend-c is
 * one in C, examples/backend-rust one in Rust.
 *
 * The library is called VENDOR_NAME_backend.so, with letters and digits for VENDOR and NAME and an
 * optional version suffix: Acme_Npu_backend.so.1.2. It exports three functions:
 *
 *     const char *GetBackendId(void);                        the backend's id, such as "AcmeNpu"
 *     void GetVersion(uint32_t *major, uint32_t *minor);     the version of this header
 *     void *BackendFactory(void);                            a tenon_backend, described below
 *
 * General rules:
 *
 *  - Versions. A library is loaded if its major version equals Tenon's and its minor version is not
 *    greater. Incompatible changes increment the major version, additions the minor version.
 *  - Structs begin with their size in bytes, sizeof as compiled by the side that creates them. New
 *    members are added at the end only. A reader uses the members that the size covers, treats the
 *    others as zero or NULL, and ignores members that it does not know. Structs marked "frozen"
 *    have no size and never change.
 *  - A function pointer marked "optional" may be NULL; the default is documented with it.
 *  - Failures. A function that can fail returns NULL for success, else a tenon_failure, which is
 *    owned by the side that created it: the other side copies its data and calls its release once.
 *    Out-parameters are set only on success.
 *  - No exception, longjmp or panic may unwind out of a function, in either direction.
 *  - Texts are UTF-8, with a length and without a terminating NUL, at most 1 MiB.
 *  - Arguments are valid until the call returns, unless documented otherwise. Objects that a
 *    backend returns, and the memory they point to, are valid until Tenon releases them.
 *  - Threads. Every function may be called from any thread, and concurrently, except release, which
 *    is called once, after all other calls.
 *  - Tenon checks counts, ids, sizes and types in results. An invalid result is refused with a
 *    message, and the nodes are placed on other backends or the model is refused.
 */
#ifndef TENON_BACKEND_H
#define TENON_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_BACKEND_MAJOR 1
#define TENON_BACKEND_MINOR 3

/* ------------------------------------------------------------------ texts and memory (frozen)
 * -- */

typedef struct tenon_text {
    const char *start;
    size_t length;
} tenon_text;

/* A text from a literal: TENON_TEXT("Relu"). */
#ifdef __cplusplus
#define TENON_TEXT(literal) (tenon_text{(literal), sizeof(literal) - 1})
#else
#define TENON_TEXT(literal) ((tenon_text){(literal), sizeof(literal) - 1})
#endif

/* Bytes to read. `owner` identifies the owner of the memory for tenon_host.retain. */
typedef struct tenon_bytes {
    const void *start;
    size_t length;
    const void *owner;
} tenon_bytes;

/* An operand of an execution; start is NULL if it is absent. */
typedef struct tenon_operand {
    void *start;
    size_t length;
} tenon_operand;

/* An output that may be computed in place of an input of the same size. */
typedef struct tenon_in_place {
    uint32_t input;
    uint32_t output;
} tenon_in_place;

/* The sizes that a dimension may have, both bounds included (since 1.2). */
typedef struct tenon_extent_range {
    uint64_t min;
    uint64_t max; /* UINT64_MAX if it is not known */
} tenon_extent_range;

/* A list of indices of nodes or values in a tenon_graph. */
typedef struct tenon_ids {
    const uint32_t *start;
    size_t length;
} tenon_ids;

/* ------------------------------------------------------------------------------------ failures
 * -- */

enum {
    TENON_STATUS_FAILED = 1,        /* any other failure */
    TENON_STATUS_UNSUPPORTED = 2,   /* valid, but not supported by this backend */
    TENON_STATUS_INVALID = 3,       /* an argument is invalid */
    TENON_STATUS_OUT_OF_MEMORY = 4,
    TENON_STATUS_UNAVAILABLE = 5,   /* the device is unavailable on this machine */
    TENON_STATUS_STOPPED = 6,       /* is_stopped returned 1 (since 1.1) */
    TENON_STATUS_DEVICE_LOST = 7    /* the device failed and computes nothing more (since 1.3) */
};

/* The reason of a refusal, with TENON_STATUS_UNSUPPORTED. */
enum {
    TENON_REASON_OTHER = 0,           /* described by `text` */
    TENON_REASON_UNKNOWN_OPERATOR = 1,
    TENON_REASON_INPUT_TYPE = 2,      /* `index` is the input, `found` its TENON_TYPE */
    TENON_REASON_INPUT_RANK = 3,      /* `index` is the input, `found` its rank */
    TENON_REASON_ATTRIBUTE_VALUE = 4, /* `name` is the attribute, `text` its value */
    TENON_REASON_NOT_CONSTANT = 5     /* `index` is the input */
};

typedef struct tenon_failure {
    size_t size;
    int32_t status;
    int32_t reason;
    int64_t index;
    int64_t found;
    tenon_text name;
    tenon_text text; /* a sentence in lower case without the final period */
    void (*release)(const struct tenon_failure *failure); /* optional: no release */
} tenon_failure;

/* ---------------------------------------------------------------------------- tensors and nodes
 * -- */

enum { /* element types; elements of 2 and 4 bits are packed, the first in the lowest bits of a byte */
    TENON_TYPE_F32 = 1,
    TENON_TYPE_F64 = 2,
    TENON_TYPE_F16 = 3,
    TENON_TYPE_BF16 = 4,
    TENON_TYPE_F32R = 5,
    TENON_TYPE_TF32 = 6,
    TENON_TYPE_F8E3M4 = 7,
    TENON_TYPE_F8E4M3 = 8,
    TENON_TYPE_F8E4M3FN = 9,
    TENON_TYPE_F8E4M3FNUZ = 10,
    TENON_TYPE_F8E5M2 = 11,
    TENON_TYPE_F8E5M2FNUZ = 12,
    TENON_TYPE_I4 = 13,
    TENON_TYPE_U4 = 14,
    TENON_TYPE_I8 = 15,
    TENON_TYPE_I16 = 16,
    TENON_TYPE_I32 = 17,
    TENON_TYPE_I64 = 18,
    TENON_TYPE_U8 = 19,
    TENON_TYPE_U16 = 20,
    TENON_TYPE_U32 = 21,
    TENON_TYPE_U64 = 22,
    TENON_TYPE_BOOL = 23, /* a byte, 0 or 1 */
    TENON_TYPE_C64 = 24,
    TENON_TYPE_C128 = 25,
    TENON_TYPE_STRING = 26,
    TENON_TYPE_F4E2M1FN = 27,
    TENON_TYPE_F8E8M0FNU = 28,
    TENON_TYPE_I2 = 29,
    TENON_TYPE_U2 = 30
};

/* A tensor: a type, and the elements of a constant, contiguous in row-major order. */
typedef struct tenon_tensor {
    size_t size;
    int32_t dtype;
    uint32_t rank;
    const uint64_t *extents;
    tenon_bytes data;     /* the elements of a constant; start is NULL otherwise */
    tenon_text layout;    /* the layout of the prepared form */
    tenon_bytes prepared; /* the prepared form from plan; start is NULL if there is none */
    /* Since 1.2, in nodes that supports and plan get for any sizes in ranges, which only backends with the
     * capability "DynamicShapes" do. Readers check that `size` covers them. */
    const tenon_extent_range *ranges; /* one for each dimension, whose extent is an example; NULL if
                                       * the tensor is the same in all executions */
    int32_t elements_vary;            /* 1 if `data` is an example: sizes of an execution */
} tenon_tensor;

enum {
    TENON_KIND_INT = 1,     /* integers[0] */
    TENON_KIND_FLOAT = 2,   /* floats[0] */
    TENON_KIND_STRING = 3,  /* texts[0] */
    TENON_KIND_INTS = 4,
    TENON_KIND_FLOATS = 5,
    TENON_KIND_STRINGS = 6,
    TENON_KIND_TENSOR = 7
};

/* An attribute of a node (docs/operators.md). */
typedef struct tenon_attribute {
    size_t size;
    tenon_text name;
    int32_t kind;
    size_t count; /* of integers, floats or texts */
    const int64_t *integers;
    const float *floats;
    const tenon_text *texts;
    const tenon_tensor *tensor;
} tenon_attribute;

/* The index of an absent operand. */
#define TENON_NO_VALUE UINT32_MAX

/* An operator (docs/operators.md) applied to tensors. */
typedef struct tenon_node {
    size_t size;
    tenon_text op;   /* "Conv", "tenon.MatMul", "tenon.Precompiled" */
    tenon_text name; /* may be empty */
    size_t input_count;
    const tenon_tensor *const *inputs; /* NULL for an absent one */
    size_t output_count;
    const tenon_tensor *const *outputs; /* types only; NULL for one not requested */
    size_t attribute_count;
    const tenon_attribute *const *attributes;
    /* In a tenon_graph: indices of the operands in its values; NULL otherwise. In a node that a
     * backend creates, `inputs` and `outputs` may be NULL. */
    const uint32_t *input_values;
    const uint32_t *output_values;
} tenon_node;

/* A graph, with its nodes in topological order. */
typedef struct tenon_graph {
    size_t size;
    size_t value_count;
    const tenon_tensor *const *values; /* those with data are constants */
    size_t node_count;
    const tenon_node *const *nodes;
    tenon_ids inputs;
    tenon_ids outputs;
} tenon_graph;

/* ------------------------------------------------------------------------------- named values
 * -- */

enum {
    TENON_VALUE_BOOL = 1,     /* integer, 0 or 1 */
    TENON_VALUE_INT = 2,      /* integer */
    TENON_VALUE_UNSIGNED = 3, /* integer, as uint64_t */
    TENON_VALUE_FLOAT = 4,    /* number */
    TENON_VALUE_STRING = 5    /* text */
};

/* A capability, or the value of an option. */
typedef struct tenon_named_value {
    size_t size;
    tenon_text name;
    int32_t kind;
    float number;
    int64_t integer;
    tenon_text text;
} tenon_named_value;

enum { TENON_SCOPE_MODEL = 1, TENON_SCOPE_CREATION = 2 };

/* An option of a backend. Its kind is that of its default. */
typedef struct tenon_option {
    size_t size;
    const tenon_named_value *value; /* name, kind and default */
    int32_t scope;
    tenon_text doc;
} tenon_option;

/* ------------------------------------------------------------------- plans -- */

/* The prepared form of a constant input, for the workload. */
typedef struct tenon_prepared {
    size_t size;
    uint32_t input;
    tenon_text layout; /* names the layout with the CPU features it requires: "panels16:f32" */
    tenon_bytes data;
} tenon_prepared;

/* The plan of a workload. */
typedef struct tenon_plan {
    size_t size;
    size_t scratch_bytes; /* scratch memory of one execution; not shared by concurrent ones */
    size_t in_place_count;
    const tenon_in_place *in_place;
    size_t prepared_count;
    const tenon_prepared *const *prepared;
    void (*release)(const struct tenon_plan *plan); /* optional */
    /* Since 1.3: bytes of memory of the backend that the workload has for itself as long as it exists:
     * scratch memory, constants. Operands do not count. 0 if the backend has no handle factories. */
    uint64_t device_bytes;
} tenon_plan;

/* --------------------------------------------------------------------------------- workloads -- */

/* Queries whether an execution is cancelled or past its deadline (since 1.1). */
typedef struct tenon_control {
    size_t size;
    /* 1 if the execution should end, else 0; once 1, always 1. May be called from any thread until
     * execute returns. A call takes about 50 ns with a deadline: a long-running workload calls it
     * about once per millisecond and, on 1, returns a failure of status TENON_STATUS_STOPPED. The
     * contents of its outputs are ignored then. */
    int32_t (*is_stopped)(const struct tenon_control *control);
} tenon_control;

/* A point in the commands of a stream (since 1.3), for another stream to wait for. */
typedef struct tenon_event {
    size_t size;
    void *object; /* as the kind of events defines it */
    void (*release)(const struct tenon_event *event); /* optional */
} tenon_event;

/* The commands of one execution on a backend that works asynchronously (since 1.3): the workloads
 * and copies that get the stream enqueue their work and return. Commands take effect in the order in
 * which they are enqueued. A call of execute, enqueue_in, enqueue_out, record or wait with the
 * stream is one command. A stream is used by one thread at a time, for one execution after the
 * other.
 *
 * Memory of a command (operands, the other side of a copy, events) stays valid until finish returns
 * or the stream is released; plain memory that a command reads is not written before that, and plain
 * memory that it writes is not accessed. */
typedef struct tenon_stream {
    size_t size;
    /* Waits until all commands have ended. A failure is that of the first command that failed, and
     * its index the command's number, counted from 0 since the last finish, or -1; commands after it
     * may have been discarded. When is_stopped of the control, which may be NULL, returns 1: discards
     * the commands that have not begun, waits for the others, and returns a failure of status
     * TENON_STATUS_STOPPED. However it returns, no command accesses its memory any more. */
    const tenon_failure *(*finish)(const struct tenon_stream *stream, const tenon_control *control);
    /* The kind of its events; streams of the same kind, also of several backends, can wait for each
     * other's. Empty: it has no events, and the other stream is finished instead. */
    tenon_text event_kind;
    /* Enqueues an event. Required if there is a kind, as is wait. */
    const tenon_failure *(*record)(const struct tenon_stream *stream, const tenon_event **event);
    /* Commands enqueued from now on begin after this event of another stream. */
    const tenon_failure *(*wait)(const struct tenon_stream *stream, const tenon_event *event);
    void (*release)(const struct tenon_stream *stream); /* optional */
} tenon_stream;

/* The operands of one execution. Inputs may overlap; an output overlaps only an input that the plan
 * allows it to be computed in place of. All operands are aligned to 64 bytes. If the backend has
 * handle factories, inputs and outputs are in the memory of the first one; scratch is plain memory.
 * */
typedef struct tenon_operands {
    size_t size;
    size_t input_count;
    const tenon_operand *inputs;
    size_t output_count;
    const tenon_operand *outputs;
    tenon_operand scratch;
    /* Since 1.1: NULL if the execution cannot be stopped. Readers check that `size` covers it. */
    const tenon_control *control;
    /* Since 1.3: the stream in which execute enqueues its work, or NULL: execute returns when the
     * work is done. With a stream, inputs have no bytes yet, scratch is absent, and the memory of
     * operands, but not this struct and its lists, stays valid until the stream is finished. Readers
     * check that `size` covers it. */
    const tenon_stream *stream;
    /* Since 1.3: 1 if part_times will be called for this execution, so that its parts are timed.
     * Readers check that `size` covers it. */
    int32_t timed;
} tenon_operands;

/* A part of what a workload executes, such as a kernel of a device (since 1.3). */
typedef struct tenon_part {
    size_t size;
    tenon_text name;
    size_t node_count; /* nodes of the model that it computes, as far as they are known */
    const tenon_text *nodes;
} tenon_part;

/* An operator that is ready to execute; executions may be concurrent. */
typedef struct tenon_workload {
    size_t size;
    /* Reads the inputs and writes every byte of the outputs. */
    const tenon_failure *(*execute)(const struct tenon_workload *workload,
                                    const tenon_operands *operands);
    /* Whether execute reads this input: 0 if the prepared form replaces it. Optional: reads all. */
    int32_t (*reads)(const struct tenon_workload *workload, uint32_t input);
    void (*release)(const struct tenon_workload *workload); /* optional */
    /* Since 1.3: its parts, for profiles and traces, in the order of their execution; at most 4096,
     * with texts of at most 1 MiB together. Constant. */
    size_t part_count;
    const tenon_part *const *parts;
    /* Writes part_count values: the nanoseconds of each part in the last execution with `timed`, on
     * this stream, which has been finished since, or, if the backend has no streams, on the calling
     * thread. Their sum is at most the time of the execution. Required if there are parts. */
    const tenon_failure *(*part_times)(const struct tenon_workload *workload,
                                       const tenon_stream *stream, uint64_t *nanoseconds);
} tenon_workload;

/* Memory shared by the workloads of one model. */
typedef struct tenon_memory_manager {
    size_t size;
    /* Called before the first execution. */
    const tenon_failure *(*acquire)(const struct tenon_memory_manager *memory);
    /* Frees the memory; called when the model is unloaded. */
    void (*give_back)(const struct tenon_memory_manager *memory); // words: allow
    void (*release)(const struct tenon_memory_manager *memory); /* optional */
} tenon_memory_manager;

/* ------------------------------------------------------------------------- optimised subgraphs
 * -- */

/* Nodes of the subgraph and their replacement, whose inputs and outputs correspond in order to the
 * values `inputs` and `outputs` of the subgraph. */
typedef struct tenon_substitution {
    size_t size;
    tenon_ids nodes;
    tenon_ids inputs;
    tenon_ids outputs;
    const tenon_graph *replacement;
} tenon_substitution;

/* Nodes that the backend refuses after all. */
typedef struct tenon_failed_part {
    size_t size;
    tenon_ids nodes;
    tenon_text reason;
} tenon_failed_part;

/* Every node of the subgraph is in exactly one list. */
typedef struct tenon_views {
    size_t size;
    size_t substitution_count;
    const tenon_substitution *const *substitutions;
    size_t failed_count;
    const tenon_failed_part *const *failed;
    tenon_ids untouched;
    tenon_ids deleted; /* uses of their output are replaced by their first input */
    void (*release)(const struct tenon_views *views); /* optional */
} tenon_views;

/* ------------------------------------------------------------------ memory of a backend -- */

enum { /* sources of memory; also bits of a set */
    TENON_MEMORY_MALLOC = 1,
    TENON_MEMORY_DMA_BUF = 2,
    TENON_MEMORY_DMA_BUF_PROTECTED = 4,
    TENON_MEMORY_GRALLOC = 8,
    TENON_MEMORY_DEVICE = 16 /* memory of the device of the factory, by its address there (since 1.3) */
};

typedef struct tenon_allocator {
    size_t size;
    int32_t source;
    /* Allocates `length` bytes, more than 0, aligned to a power of two; NULL on failure. */
    void *(*allocate)(const struct tenon_allocator *allocator, size_t length, size_t alignment);
    void (*free)(const struct tenon_allocator *allocator, void *start);
    void (*release)(const struct tenon_allocator *allocator); /* optional */
} tenon_allocator;

/* A kind of tensor memory. Factories of the same name in several backends are of the same kind. */
typedef struct tenon_handle_factory {
    size_t size;
    tenon_text name;
    uint32_t import_sources; /* sources of memory that its tensors can be imported from */
    uint32_t export_sources; /* sources that its tensors can be exported as; with TENON_MEMORY_MALLOC
                              * the CPU accesses them in place */
    int32_t map;             /* whether the CPU can read and write its tensors, if only by copies */
    int32_t padding;         /* whether there is padding between elements */
    /* Since 1.3: the device whose memory it is, as DLPack names it (DLDeviceType, and the position
     * among devices of that type); type 0: none. Tensors pass between factories with
     * TENON_MEMORY_DEVICE, and to and from applications, by address if the device is the same. */
    int32_t device_type;
    int32_t device_id;
} tenon_handle_factory;

enum { /* flags of imported memory */
    TENON_IMPORT_LONG_LIVED = 1, /* the tensor is used in many executions: registering the memory is
                                  * worth its time */
    TENON_IMPORT_READ_ONLY = 2   /* the tensor is not written */
};

/* Memory to import as a tensor (since 1.3). */
typedef struct tenon_imported_memory {
    size_t size;
    void *start; /* an address of the device for TENON_MEMORY_DEVICE */
    size_t length;
    int32_t source;
    uint32_t flags; /* a set of TENON_IMPORT_LONG_LIVED and TENON_IMPORT_READ_ONLY */
} tenon_imported_memory;

/* A tensor in such memory. Lengths are exactly those of the tensor's type. Tensors between
 * workloads of the same backend stay in its memory; copy_in and copy_out are called for
 * transfers from and to other memory. */
typedef struct tenon_tensor_handle {
    size_t size;
    const tenon_failure *(*copy_in)(const struct tenon_tensor_handle *handle, const void *bytes,
                                    size_t length);
    const tenon_failure *(*copy_out)(const struct tenon_tensor_handle *handle, void *bytes,
                                     size_t length);
    /* The address of the tensor, aligned to 64 bytes, as in the operands of the backend's
     * workloads. Only these and the functions here access it, unless it is imported or its
     * factory exports it. */
    void *(*start)(const struct tenon_tensor_handle *handle);
    void (*release)(const struct tenon_tensor_handle *handle); /* optional */
    /* Since 1.3: the same copies as commands of a stream of the backend. Required of backends with
     * streams. */
    const tenon_failure *(*enqueue_in)(const struct tenon_tensor_handle *handle,
                                       const tenon_stream *stream, const void *bytes,
                                       size_t length);
    const tenon_failure *(*enqueue_out)(const struct tenon_tensor_handle *handle,
                                        const tenon_stream *stream, void *bytes, size_t length);
} tenon_tensor_handle;

/* ------------------------------------------------------------------------------------ accuracy
 * -- */

/* The accuracy of outputs of one element type (since 1.3): an element differs from the exact result by at
 * most `absolute`, or by at most `relative` times the largest magnitude of the output. */
typedef struct tenon_tolerance {
    size_t size;
    int32_t dtype;   /* a float, complex numbers, or integers of 16 bits or fewer */
    double relative; /* in 0..1; 0 for integers */
    double absolute; /* finite and not negative; a whole number for integers */
} tenon_tolerance;

/* ------------------------------------------------------------------------ contexts and counters
 * -- */

/* Callbacks of a runtime, valid for its lifetime. Each function is optional. A failure of the first
 * two aborts the load of the model, one of after_enqueue the execution; unloading ignores failures.
 * */
typedef struct tenon_context {
    size_t size;
    const tenon_failure *(*before_load)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_load)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*before_unload)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_unload)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_enqueue)(const struct tenon_context *context, uint64_t network);
    void (*release)(const struct tenon_context *context); /* optional */
} tenon_context;

typedef struct tenon_counter {
    size_t size;
    tenon_text name;
    tenon_text doc;
    tenon_text unit; /* empty for a plain count */
} tenon_counter;

typedef struct tenon_profiling {
    size_t size;
    size_t counter_count; /* constant */
    const tenon_counter *const *counters;
    const tenon_failure *(*enable)(const struct tenon_profiling *profiling, int32_t on);
    /* Writes counter_count values. */
    const tenon_failure *(*sample)(const struct tenon_profiling *profiling, uint64_t *values);
    void (*release)(const struct tenon_profiling *profiling); /* optional */
} tenon_profiling;

/* --------------------------------------------------------------------------------- the host -- */

/* Functions of Tenon for backends. Outlives the backend. */
typedef struct tenon_host {
    size_t size;
    uint32_t major;
    uint32_t minor;
    /* Extends the lifetime of the bytes with this `owner` beyond the call, without a copy;
     * returns a token for forget. Available for data and prepared forms of tensors that Tenon
     * passes. */
    void *(*retain)(const void *owner);
    void (*forget)(void *token);
    /* Since 1.3: the backend's entries in the cache of the user, which last beyond the process: for
     * what is made at load and is not part of a package, such as programs compiled for the driver.
     * The key is a text of at most 4096 bytes that contains all that the entry depends on. An entry
     * may be deleted at any time. Readers check that `size` covers them.
     *
     * Returns 1 and sets *bytes if there is an entry, else 0. The bytes are valid until their owner
     * is passed to forget, which is required once. */
    int32_t (*cache_get)(const struct tenon_host *host, tenon_text key, tenon_bytes *bytes);
    /* Adds or replaces an entry, if the user has a cache and it can be written. */
    void (*cache_put)(const struct tenon_host *host, tenon_text key, const void *bytes,
                      size_t length);
} tenon_host;

/* -------------------------------------------------------------------------------- the backend
 * -- */

enum { /* CPU levels that prepared constants may require */
    TENON_CPU_BASELINE = 0,
    TENON_CPU_AVX2 = 1,
    TENON_CPU_AVX512 = 2
};

/* The return value of BackendFactory. It has no state of models; its objects may outlive it. */
typedef struct tenon_backend {
    size_t size;
    tenon_text description; /* one line */
    size_t capability_count;
    const tenon_named_value *const *capabilities;
    size_t option_count;
    const tenon_option *const *options;
    size_t handle_factory_count; /* 0: plain memory of the caller */
    const tenon_handle_factory *const *handle_factories;

    /* Called once, before all other functions. Optional. */
    const tenon_failure *(*attach)(const struct tenon_backend *backend, const tenon_host *host);

    /* Whether the node is supported; otherwise a failure of status UNSUPPORTED with the reason. A
     * node with ranges is supported for sizes in them. For the sizes of an instance it is queried
     * again, without ranges; if it is refused then, the reference implementation computes it. */
    const tenon_failure *(*supports)(const struct tenon_backend *backend, const tenon_node *node);

    /* The plan of a workload. Deterministic: the same node gives the same bytes. Optional, and
     * *plan may stay NULL: an empty plan. Of a node with ranges, only the prepared constants of the
     * plan are used: each instance is planned for its sizes. Of a backend with handle factories nodes
     * are planned again at load, for device_bytes: the plan then needs no prepared constants. */
    const tenon_failure *(*plan)(const struct tenon_backend *backend, const tenon_node *node,
                                 int32_t cpu, const tenon_plan **plan);

    /* Creates the workload. Data and prepared forms of the node are valid until it is released.
     * `memory` is the memory manager of the model, or NULL. */
    const tenon_failure *(*workload)(const struct tenon_backend *backend, const tenon_node *node,
                                     const tenon_memory_manager *memory,
                                     const tenon_workload **workload);

    /* Optimises a subgraph whose nodes are all placed on this backend. Optional: unchanged. */
    const tenon_failure *(*optimise)(const struct tenon_backend *backend, const tenon_graph *graph,
                                     const tenon_views **views);

    /* The same backend with these model options. Required if options of that scope are listed. */
    const tenon_failure *(*configured)(const struct tenon_backend *backend, size_t count,
                                       const tenon_named_value *const *options,
                                       const struct tenon_backend **configured);

    /* Called once per model, before its workloads are created. Optional; *memory may stay NULL. */
    const tenon_failure *(*memory_manager)(const struct tenon_backend *backend,
                                           const tenon_memory_manager **memory);

    /* Optional; *context may stay NULL. A failure of status UNAVAILABLE removes the backend from
     * the runtime. */
    const tenon_failure *(*context)(const struct tenon_backend *backend, size_t count,
                                    const tenon_named_value *const *options,
                                    int32_t protected_content, const tenon_context **context);

    /* Optional; *profiling may stay NULL. */
    const tenon_failure *(*profiling)(const struct tenon_backend *backend,
                                      const tenon_profiling **profiling);

    /* Its default allocator, if other backends may use it. Optional. */
    const tenon_failure *(*allocator)(const struct tenon_backend *backend,
                                      const tenon_allocator **allocator);

    /* The same backend with `allocator`, which outlives the backend and its objects. Optional: not
     * supported. */
    const tenon_failure *(*with_allocator)(const struct tenon_backend *backend,
                                           const tenon_allocator *allocator,
                                           const struct tenon_backend **other);

    /* Creates a tensor in the memory of a handle factory. Required if factories are listed. */
    const tenon_failure *(*tensor_handle)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type,
                                          const tenon_tensor_handle **handle);

    /* Imports `length` bytes at `start`, memory of `source` that outlives the handle, as a tensor.
     * Required if a handle factory has import_sources and there is no import_memory. */
    const tenon_failure *(*import_tensor)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, void *start, size_t length,
                                          int32_t source, const tenon_tensor_handle **handle);

    void (*release)(const struct tenon_backend *backend); /* optional */

    /* Since 1.3: creates a stream for executions of one model, whose memory manager is `memory` or
     * NULL. Requires handle factories. Optional, and *stream may stay NULL: workloads are done when
     * execute returns. */
    const tenon_failure *(*stream)(const struct tenon_backend *backend,
                                   const tenon_memory_manager *memory, const tenon_stream **stream);

    /* Since 1.3: the accuracy of results where it differs from the usual one, each type at most once.
     * The conformance checks and `tenon compare` use it. Options may change it. */
    size_t tolerance_count;
    const tenon_tolerance *const *tolerances;

    /* Since 1.3: the device that prepared constants and substitutions are made for, such as "sm_90", at
     * most 256 bytes. A package records it, and loads only where it is the same. Empty if they work on
     * every device. Options may change it, to compile for another device. */
    tenon_text target;

    /* Since 1.3: imports memory that outlives the handle as a tensor, and is called in place of
     * import_tensor. Optional. */
    const tenon_failure *(*import_memory)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type,
                                          const tenon_imported_memory *memory,
                                          const tenon_tensor_handle **handle);
} tenon_backend;

/* ------------------------------------------------------------------------ exports of a library
 * -- */

#if defined(__GNUC__)
#define TENON_EXPORT __attribute__((visibility("default")))
#else
#define TENON_EXPORT
#endif

TENON_EXPORT const char *GetBackendId(void);
TENON_EXPORT void GetVersion(uint32_t *major, uint32_t *minor);
TENON_EXPORT void *BackendFactory(void);

#ifdef __cplusplus
}
#endif

#endif
