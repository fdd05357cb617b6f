/*
 * tenon/backend.h: write a backend for Tenon as a shared library.
 *
 * A backend computes parts of a model. Tenon asks it what it supports, lets it plan and prepare
 * when a model is compiled, and gets workloads from it when the model is loaded; a workload is one
 * function call an execution. docs/backends.md ("Write a backend in an hour") walks through a
 * small one; examples/backend-c is one in C, examples/backend-rust one in Rust.
 *
 * The library is called VENDOR_NAME_backend.so, with letters and digits for VENDOR and NAME and
 * perhaps a version behind: Acme_Npu_backend.so.1.2. It exports three functions:
 *
 *     const char *GetBackendId(void);                        the backend's id, such as "AcmeNpu"
 *     void GetVersion(uint32_t *major, uint32_t *minor);     the version of this header
 *     void *BackendFactory(void);                            a tenon_backend, described below
 *
 * Rules that hold everywhere:
 *
 *  - Versions. A library is loaded when its major is Tenon's and its minor is not greater. The
 *    major changes when something here breaks, the minor when something is added.
 *  - Structs begin with their size in bytes, as the maker's compiler knew it. Members are only ever
 *    added at the end. A reader takes what the size covers; members behind are as if zero or NULL,
 *    and a tail it does not know is ignored. Structs marked "frozen" have no size and never change.
 *  - A function pointer may be NULL where it says "optional": Tenon then does what is said there.
 *  - Failing. A function that can fail answers NULL when all went well, else a tenon_failure, which
 *    its maker owns: the reader copies what it needs and calls its release once. Outputs that are
 *    pointers are set only when all went well.
 *  - No exception, longjmp or panic crosses in either direction.
 *  - Texts are UTF-8, with a length and without a final zero. Tenon reads at most 1 MiB of one.
 *  - What Tenon passes in is valid until the call returns, unless it says otherwise; so is what
 *    Tenon reads through a pointer that a backend returned, until Tenon releases it.
 *  - Threads. Every function may be called from any thread, several at a time, except release,
 *    which comes last and once.
 *  - Tenon checks what it gets: counts, ids, sizes, types. An answer that does not add up is
 *    refused, with a sentence, and the model goes to other backends or is refused.
 */
#ifndef TENON_BACKEND_H
#define TENON_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_BACKEND_MAJOR 1
#define TENON_BACKEND_MINOR 1

/* ------------------------------------------------------------------ texts and memory (frozen) -- */

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

/* Bytes to read. `owner` says who keeps them: see tenon_host.retain. */
typedef struct tenon_bytes {
    const void *start;
    size_t length;
    const void *owner;
} tenon_bytes;

/* An operand of an execution; start is NULL where it is left out. */
typedef struct tenon_operand {
    void *start;
    size_t length;
} tenon_operand;

/* An output that may take the place of an input of the same size which ends there. */
typedef struct tenon_in_place {
    uint32_t input;
    uint32_t output;
} tenon_in_place;

/* A list of positions: of nodes, or of values, in a tenon_graph. */
typedef struct tenon_ids {
    const uint32_t *start;
    size_t length;
} tenon_ids;

/* ------------------------------------------------------------------------------------ failing -- */

enum {
    TENON_STATUS_FAILED = 1,        /* anything else */
    TENON_STATUS_UNSUPPORTED = 2,   /* well-formed, but not something this backend does */
    TENON_STATUS_INVALID = 3,       /* an argument is wrong */
    TENON_STATUS_OUT_OF_MEMORY = 4,
    TENON_STATUS_UNAVAILABLE = 5,   /* what it needs is not on this machine */
    TENON_STATUS_STOPPED = 6        /* is_stopped answered 1 (since 1.1) */
};

/* Why a node is refused, as data; for TENON_STATUS_UNSUPPORTED. */
enum {
    TENON_REASON_OTHER = 0,           /* `text` says it */
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
    tenon_text text; /* a sentence without the final stop, lower case */
    void (*release)(const struct tenon_failure *failure); /* optional: nothing to release */
} tenon_failure;

/* ---------------------------------------------------------------------------- tensors and nodes -- */

enum { /* types of elements; 4-bit ones are packed two a byte, the first in the low half */
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
    TENON_TYPE_STRING = 26
};

/* A tensor: a type, and elements where they are known. Contiguous, the last dimension innermost. */
typedef struct tenon_tensor {
    size_t size;
    int32_t dtype;
    uint32_t rank;
    const uint64_t *extents;
    tenon_bytes data;     /* the elements of a constant; start is NULL when they are not known */
    tenon_text layout;    /* of the prepared form below */
    tenon_bytes prepared; /* the constant in the form that plan prepared; start NULL without one */
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

/* A parameter of a node, as docs/operators.md lists them. */
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

/* The position of an operand that is left out. */
#define TENON_NO_VALUE UINT32_MAX

/* An operator (docs/operators.md) applied to tensors. */
typedef struct tenon_node {
    size_t size;
    tenon_text op;   /* "Conv", "tenon.MatMul", "tenon.Precompiled" */
    tenon_text name; /* empty when the model gives none */
    size_t input_count;
    const tenon_tensor *const *inputs; /* NULL where one is left out */
    size_t output_count;
    const tenon_tensor *const *outputs; /* types only; NULL where one is not wanted */
    size_t attribute_count;
    const tenon_attribute *const *attributes;
    /* Inside a tenon_graph: positions of the operands among its values. Elsewhere NULL. A node
     * that a backend makes has these and may leave `inputs` and `outputs` NULL. */
    const uint32_t *input_values;
    const uint32_t *output_values;
} tenon_node;

/* Nodes, each behind those whose outputs it uses. */
typedef struct tenon_graph {
    size_t size;
    size_t value_count;
    const tenon_tensor *const *values; /* those with data are constants */
    size_t node_count;
    const tenon_node *const *nodes;
    tenon_ids inputs;
    tenon_ids outputs;
} tenon_graph;

/* ------------------------------------------------------------------------------- named values -- */

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

/* An option that a backend knows. Its kind is its default's. */
typedef struct tenon_option {
    size_t size;
    const tenon_named_value *value; /* name, kind and default */
    int32_t scope;
    tenon_text doc;
} tenon_option;

/* ------------------------------------------------------------------- what a backend makes: plans -- */

/* A constant input in the form that the workload reads. */
typedef struct tenon_prepared {
    size_t size;
    uint32_t input;
    tenon_text layout; /* names the form and what CPU it relies on: "panels16:f32" */
    tenon_bytes data;
} tenon_prepared;

/* What a workload needs. */
typedef struct tenon_plan {
    size_t size;
    size_t scratch_bytes; /* of working memory an execution; each one in flight has its own */
    size_t in_place_count;
    const tenon_in_place *in_place;
    size_t prepared_count;
    const tenon_prepared *const *prepared;
    void (*release)(const struct tenon_plan *plan); /* optional */
} tenon_plan;

/* --------------------------------------------------------------------------------- workloads -- */

/* Says when an execution is cancelled or past its time limit (since 1.1). */
typedef struct tenon_control {
    size_t size;
    /* 1 when the execution should end now, else 0; once it is 1 it stays 1. May be called from any
     * thread until execute returns. It costs about 50 ns where there is a time limit: a workload
     * that runs long calls it about once a millisecond and, on 1, returns a failure of status
     * TENON_STATUS_STOPPED. What its outputs hold does not matter then. */
    int32_t (*is_stopped)(const struct tenon_control *control);
} tenon_control;

/* The memory of one execution. Inputs may share bytes; an output shares them only with an input
 * that the plan lets it take the place of. Everything is aligned to 64 bytes. Inputs and outputs of a
 * backend that has handle factories are tensors of the first one; scratch is plain memory. */
typedef struct tenon_operands {
    size_t size;
    size_t input_count;
    const tenon_operand *inputs;
    size_t output_count;
    const tenon_operand *outputs;
    tenon_operand scratch;
    /* Since 1.1: NULL where nothing stops the execution. A reader checks that `size` covers it. */
    const tenon_control *control;
} tenon_operands;

/* One operator, ready to execute; several executions may be in flight. */
typedef struct tenon_workload {
    size_t size;
    /* Reads the inputs and writes every byte of the outputs. */
    const tenon_failure *(*execute)(const struct tenon_workload *workload,
                                    const tenon_operands *operands);
    /* Whether execute reads this input: not when it took the prepared form. Optional: it reads all. */
    int32_t (*reads)(const struct tenon_workload *workload, uint32_t input);
    void (*release)(const struct tenon_workload *workload); /* optional */
} tenon_workload;

/* Memory that the workloads of one model share. */
typedef struct tenon_memory_manager {
    size_t size;
    /* Called before the first execution. */
    const tenon_failure *(*acquire)(const struct tenon_memory_manager *memory);
    /* Called when the model is unloaded. */
    void (*give_back)(const struct tenon_memory_manager *memory);
    void (*release)(const struct tenon_memory_manager *memory); /* optional */
} tenon_memory_manager;

/* ------------------------------------------------------------------------- optimised subgraphs -- */

/* Nodes of the subgraph and what takes their place. The replacement's inputs and outputs are, in
 * their order, the values `inputs` and `outputs` of the subgraph. */
typedef struct tenon_substitution {
    size_t size;
    tenon_ids nodes;
    tenon_ids inputs;
    tenon_ids outputs;
    const tenon_graph *replacement;
} tenon_substitution;

/* Nodes that the backend does not take after all. */
typedef struct tenon_failed_part {
    size_t size;
    tenon_ids nodes;
    tenon_text reason;
} tenon_failed_part;

/* Every node of the subgraph stands in exactly one list. */
typedef struct tenon_views {
    size_t size;
    size_t substitution_count;
    const tenon_substitution *const *substitutions;
    size_t failed_count;
    const tenon_failed_part *const *failed;
    tenon_ids untouched;
    tenon_ids deleted; /* whoever uses their output uses their first input instead */
    void (*release)(const struct tenon_views *views); /* optional */
} tenon_views;

/* ------------------------------------------------------------------ memory of a backend's own -- */

enum { /* where memory comes from; also bits of a set */
    TENON_MEMORY_MALLOC = 1,
    TENON_MEMORY_DMA_BUF = 2,
    TENON_MEMORY_DMA_BUF_PROTECTED = 4,
    TENON_MEMORY_GRALLOC = 8
};

typedef struct tenon_allocator {
    size_t size;
    int32_t source;
    /* `length` bytes, more than 0, aligned to a power of two; NULL when there are none. */
    void *(*allocate)(const struct tenon_allocator *allocator, size_t length, size_t alignment);
    void (*free)(const struct tenon_allocator *allocator, void *start);
    void (*release)(const struct tenon_allocator *allocator); /* optional */
} tenon_allocator;

/* A kind of tensor memory. Factories of several backends with one name make the same memory. */
typedef struct tenon_handle_factory {
    size_t size;
    tenon_text name;
    uint32_t import_sources; /* memory of others that its tensors can be made of */
    uint32_t export_sources; /* memory that others can take its tensors for; with TENON_MEMORY_MALLOC
                              * the CPU reads them where they start */
    int32_t map;             /* whether the CPU can read and write its tensors */
    int32_t padding;         /* whether there is padding between elements */
} tenon_handle_factory;

/* A tensor in such memory. Lengths are exactly those of the tensor's type. Tensors that pass from
 * one of the backend's workloads to the next stay there; copy_in and copy_out are called where one
 * comes from or goes to other memory that it was not made of. */
typedef struct tenon_tensor_handle {
    size_t size;
    const tenon_failure *(*copy_in)(const struct tenon_tensor_handle *handle, const void *bytes,
                                    size_t length);
    const tenon_failure *(*copy_out)(const struct tenon_tensor_handle *handle, void *bytes,
                                     size_t length);
    /* Where the tensor starts, aligned to 64 bytes: what the backend's workloads find in their
     * operands. Nobody but them and the functions here touches it, unless it was imported or its
     * factory exports it. */
    void *(*start)(const struct tenon_tensor_handle *handle);
    void (*release)(const struct tenon_tensor_handle *handle); /* optional */
} tenon_tensor_handle;

/* ------------------------------------------------------------------------ contexts and counters -- */

/* Lives as long as a runtime. Each function is optional. A failure of the first two aborts the load
 * of the model, one of after_enqueue the execution; a model is unloaded whatever is answered. */
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
    tenon_text unit; /* empty for plain numbers */
} tenon_counter;

typedef struct tenon_profiling {
    size_t size;
    size_t counter_count; /* does not change */
    const tenon_counter *const *counters;
    const tenon_failure *(*enable)(const struct tenon_profiling *profiling, int32_t on);
    /* Writes counter_count values. */
    const tenon_failure *(*sample)(const struct tenon_profiling *profiling, uint64_t *values);
    void (*release)(const struct tenon_profiling *profiling); /* optional */
} tenon_profiling;

/* --------------------------------------------------------------------------------- the host -- */

/* What Tenon offers. It outlives the backend. */
typedef struct tenon_host {
    size_t size;
    uint32_t major;
    uint32_t minor;
    /* Keeps the bytes whose `owner` this is alive beyond the call; answers a token for forget. The
     * data and prepared forms of tensors that Tenon passes in can be kept so, without a copy. */
    void *(*retain)(const void *owner);
    void (*forget)(void *token);
} tenon_host;

/* -------------------------------------------------------------------------------- the backend -- */

enum { /* what prepared constants may rely on */
    TENON_CPU_BASELINE = 0,
    TENON_CPU_AVX2 = 1,
    TENON_CPU_AVX512 = 2
};

/* What BackendFactory answers. It holds no state of models; what it makes may outlive it. */
typedef struct tenon_backend {
    size_t size;
    tenon_text description; /* a line */
    size_t capability_count;
    const tenon_named_value *const *capabilities;
    size_t option_count;
    const tenon_option *const *options;
    size_t handle_factory_count; /* 0: plain memory of the caller */
    const tenon_handle_factory *const *handle_factories;

    /* Called first and once. Optional. */
    const tenon_failure *(*attach)(const struct tenon_backend *backend, const tenon_host *host);

    /* Whether there is a workload for the node; a failure of status UNSUPPORTED says why not. */
    const tenon_failure *(*supports)(const struct tenon_backend *backend, const tenon_node *node);

    /* What the workload will need. Deterministic: the same node gives the same bytes. Optional: it
     * needs nothing; so does one for which *plan stays NULL. */
    const tenon_failure *(*plan)(const struct tenon_backend *backend, const tenon_node *node,
                                 int32_t cpu, const tenon_plan **plan);

    /* The workload. Data and prepared forms of the node stay valid until it is released. `memory`
     * is what memory_manager made for the model, or NULL. */
    const tenon_failure *(*workload)(const struct tenon_backend *backend, const tenon_node *node,
                                     const tenon_memory_manager *memory,
                                     const tenon_workload **workload);

    /* What it makes of nodes that were all placed on it. Optional: all stays as it is. */
    const tenon_failure *(*optimise)(const struct tenon_backend *backend, const tenon_graph *graph,
                                     const tenon_views **views);

    /* The same backend with these model options. Needed where options of that scope are listed. */
    const tenon_failure *(*configured)(const struct tenon_backend *backend, size_t count,
                                       const tenon_named_value *const *options,
                                       const struct tenon_backend **configured);

    /* Optional, as *memory may stay NULL. Called once a model, before its workloads. */
    const tenon_failure *(*memory_manager)(const struct tenon_backend *backend,
                                           const tenon_memory_manager **memory);

    /* Optional, as *context may stay NULL. A failure of status UNAVAILABLE takes the backend out of
     * the runtime. */
    const tenon_failure *(*context)(const struct tenon_backend *backend, size_t count,
                                    const tenon_named_value *const *options,
                                    int32_t protected_content, const tenon_context **context);

    /* Optional, as *profiling may stay NULL. */
    const tenon_failure *(*profiling)(const struct tenon_backend *backend,
                                      const tenon_profiling **profiling);

    /* The allocator it takes memory from, when others may use it too. Optional. */
    const tenon_failure *(*allocator)(const struct tenon_backend *backend,
                                      const tenon_allocator **allocator);

    /* The same backend, taking its memory from `allocator`, which outlives what it makes. Optional:
     * it takes none. */
    const tenon_failure *(*with_allocator)(const struct tenon_backend *backend,
                                           const tenon_allocator *allocator,
                                           const struct tenon_backend **other);

    /* A tensor in memory of one of its handle factories. Needed where some are listed. */
    const tenon_failure *(*tensor_handle)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type,
                                          const tenon_tensor_handle **handle);

    /* The same, made of `length` bytes at `start`, of memory from `source`, which outlive it. Needed
     * where a handle factory has import_sources. */
    const tenon_failure *(*import_tensor)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, void *start, size_t length,
                                          int32_t source, const tenon_tensor_handle **handle);

    void (*release)(const struct tenon_backend *backend); /* optional */
} tenon_backend;

/* ------------------------------------------------------------------------ what a library exports -- */

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
