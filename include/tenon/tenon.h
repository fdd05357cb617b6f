/*
 * tenon/tenon.h: compile and run models from C.
 *
 *     #include <tenon/tenon.h>
 *
 *     const tenon_functions *tenon = tenon_api(TENON_API_MAJOR, TENON_API_MINOR);
 *     tenon_model model;
 *     tenon_status status = tenon->model_load_file("model.neff", NULL, &model);
 *     if (status != NULL) {
 *         fprintf(stderr, "%s\n", tenon->status_text(status));
 *         tenon->status_free(status);
 *     }
 *
 * Link with -ltenon, or look up tenon_api with dlsym. examples/c has complete programs;
 * tenon/tenon.hpp has classes for C++17; docs/c.md describes every function.
 *
 * General rules:
 *
 *  - Versions. tenon_api returns the table of functions of a major version, or NULL if the library has another one or
 *    a smaller minor version. Within a major version functions are added at the end of the table, members at the end
 *    of structs with a size, and values to enumerations; nothing else changes.
 *  - Structs that begin with `size` are set to zero by the caller, with size = sizeof. A zero member means the default.
 *    TENON_INIT(type) initialises one. Structs marked "frozen" have no size and never change.
 *  - Statuses. Functions return NULL for success, else a status, which the caller frees. Results are set only on
 *    success.
 *  - Handles (tenon_model and so on) are not addresses. A handle that is NULL, of another kind or freed before gives
 *    a status of TENON_INVALID_HANDLE. Freeing NULL does nothing. An object that a call uses on another thread while its
 *    handle is freed lives until the call ends.
 *  - Threads. Every function may be called from any thread, and concurrently, with the same handles too. Bindings and
 *    sessions execute on one thread at a time; a second one gets a status.
 *  - Texts are UTF-8 and end with NUL. Texts, arrays and memory that a function returns belong to the handle they came
 *    from and are valid until it is freed, unless documented otherwise.
 *  - Memory that the caller passes is read during the call only, unless documented otherwise.
 *  - Forks. The child of a fork can use all objects, and the library starts its threads again, if no other thread of the
 *    parent was in a call at the time.
 *  - Functions of the caller must not unwind (exceptions, longjmp) into the library. None unwinds out of it.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_API_MAJOR 1
#define TENON_API_MINOR 1

/* A struct with a size, all else zero: tenon_load_options options = TENON_INIT(tenon_load_options); */
#ifdef __cplusplus
#define TENON_INIT(type) (tenon_sized<type>())
extern "C++" {
template <typename Struct> inline Struct tenon_sized() {
    Struct value{};
    value.size = sizeof(Struct);
    return value;
}
}
#else
#define TENON_INIT(type) ((type){.size = sizeof(type)})
#endif

/* ---------------------------------------------------------------------------------------------- handles */

typedef struct tenon_status_object *tenon_status;     /* a failed call */
typedef struct tenon_task_object *tenon_task;   /* progress, cancellation and deadline */
typedef struct tenon_package_object *tenon_package;   /* a compiled model */
typedef struct tenon_model_object *tenon_model;       /* a loaded package */
typedef struct tenon_outputs_object *tenon_outputs;   /* the outputs of an execution */
typedef struct tenon_bindings_object *tenon_bindings; /* memory of inputs and outputs that executions use in place */
typedef struct tenon_session_object *tenon_session;   /* a model whose states are kept between executions */
typedef struct tenon_run_object *tenon_run;           /* an asynchronous execution */
typedef struct tenon_blob_object *tenon_blob;         /* bytes or a text that the library made */

/* --------------------------------------------------------------------------------------------- statuses */

typedef enum tenon_code {
    TENON_OK = 0,                   /* of NULL */
    TENON_USAGE = 1,                /* a call that the state of its object does not allow */
    TENON_INVALID_ARGUMENT = 2,     /* an argument has a wrong type, shape, range or name */
    TENON_INVALID_MODEL = 3,        /* an ONNX model is malformed */
    TENON_INVALID_PACKAGE = 4,      /* a package is malformed */
    TENON_INVALID_PROGRAM = 5,      /* the host program of a package is malformed */
    TENON_UNSUPPORTED_VERSION = 6,  /* of a version that this library does not support */
    TENON_UNSUPPORTED = 7,          /* valid, but not supported */
    TENON_NOT_FOUND = 8,            /* a file, tensor or backend of this name does not exist */
    TENON_OUT_OF_BOUNDS = 9,        /* an index in the data of a model is outside of its tensor */
    TENON_IO = 10,                  /* reading or writing failed */
    TENON_OUT_OF_MEMORY = 11,
    TENON_INVALID_HANDLE = 12,      /* NULL, of another kind, or freed before */
    TENON_QUEUE_FULL = 13,          /* too many asynchronous executions wait */
    TENON_CLOSED = 14,              /* the object was closed */
    TENON_BAD_INPUT = 15,           /* the inputs of an execution are unsuitable */
    TENON_NOT_A_NUMBER = 16,        /* a NaN check found a NaN */
    TENON_CANCELLED = 17,
    TENON_DEADLINE_EXCEEDED = 18,
    TENON_EXECUTION_FAILED = 19,    /* a kernel failed */
    TENON_DEVICE_LOST = 20,         /* the device of a backend failed */
    TENON_INTERNAL = 21             /* a defect of Tenon */
} tenon_code;

/* The parts of a status of which status_part returns the text. */
typedef enum tenon_status_part {
    TENON_PART_PLACE = 1,    /* file, member, field, byte or node */
    TENON_PART_MESSAGE = 2,  /* what is wrong, without the other parts */
    TENON_PART_EXPECTED = 3,
    TENON_PART_FOUND = 4,
    TENON_PART_HELP = 5      /* what to do */
} tenon_status_part;

/* ---------------------------------------------------------------------------------------------- tensors */

/* Element types. Elements of 2 and 4 bits are packed, the first in the lowest bits of a byte. */
typedef enum tenon_type {
    TENON_F32 = 1,
    TENON_F64 = 2,
    TENON_F16 = 3,
    TENON_BF16 = 4,
    TENON_F8E3M4 = 7,
    TENON_F8E4M3 = 8,
    TENON_F8E4M3FN = 9,
    TENON_F8E4M3FNUZ = 10,
    TENON_F8E5M2 = 11,
    TENON_F8E5M2FNUZ = 12,
    TENON_I4 = 13,
    TENON_U4 = 14,
    TENON_I8 = 15,
    TENON_I16 = 16,
    TENON_I32 = 17,
    TENON_I64 = 18,
    TENON_U8 = 19,
    TENON_U16 = 20,
    TENON_U32 = 21,
    TENON_U64 = 22,
    TENON_BOOL = 23, /* a byte, 0 or 1 */
    TENON_C64 = 24,
    TENON_C128 = 25,
    TENON_STRING = 26, /* in ports; their elements are not exchanged */
    TENON_F4E2M1FN = 27,
    TENON_F8E8M0FNU = 28,
    TENON_I2 = 29,
    TENON_U2 = 30
} tenon_type;

/* A tensor in memory (frozen): contiguous, in row-major order, little-endian. */
typedef struct tenon_array {
    const char *name;       /* of the port; NULL in the arrays of a call: by position */
    int32_t type;           /* a tenon_type */
    uint32_t rank;
    const int64_t *extents; /* `rank` extents */
    void *data;
    size_t bytes;           /* of `data`: exactly those of type and extents */
} tenon_array;

/* What a port accepts or returns. */
typedef enum tenon_kind {
    TENON_TENSOR = 1,
    TENON_OTHER_KIND = 2 /* a sequence or an optional value, which this interface does not exchange */
} tenon_kind;

/* An input or output of a model, filled by model_input and model_output. */
typedef struct tenon_port {
    size_t size;
    const char *name;
    int32_t kind; /* a tenon_kind */
    int32_t type; /* a tenon_type */
    uint32_t rank;
    const int64_t *extents;     /* -1: known when the model runs */
    const char *const *symbols; /* for each dimension the name or expression of a size that is not fixed, or NULL */
    uint64_t bytes;             /* of the tensor; 0 if its size is not fixed */
} tenon_port;

/* A tensor of DLPack 1 (dlpack.h: DLManagedTensorVersioned), for model_run_dlpack. */
struct DLManagedTensorVersioned;

/* ---------------------------------------------------------------------------------------------- options */

/* Progress, cancellation and deadline. */
typedef struct tenon_task_options {
    size_t size;
    double timeout_seconds; /* from the creation of the task; 0: no deadline */
    /* Called with the name of a step, the units done and all units (0: unknown); from several threads, perhaps at the
     * same time. It may cancel the task, but not free it. */
    void (*progress)(void *context, const char *step, uint64_t done, uint64_t total);
    void *context;
} tenon_task_options;

/* A symbolic dimension: a size, a range, or buckets. */
typedef struct tenon_dimension {
    size_t size;
    const char *name;
    uint64_t min;
    uint64_t max;             /* equal to min: a fixed size */
    const uint64_t *buckets;  /* ascending; then min and max may be 0 */
    size_t bucket_count;
} tenon_dimension;

/* The value that an input is padded with up to the next bucket (frozen): "0", "-1.5". */
typedef struct tenon_padding {
    const char *input;
    const char *value;
} tenon_padding;

/* Nodes that are offered to one backend first (frozen). */
typedef struct tenon_hint {
    const char *pattern; /* of node names: "*" and "?" */
    const char *backend;
} tenon_hint;

/* An output that is an input of the next execution (frozen). */
typedef struct tenon_state {
    const char *output;
    const char *input;
} tenon_state;

typedef enum tenon_states {
    TENON_STATES_NONE = 0,
    TENON_STATES_AUTOMATIC = 1, /* pairs such as past.X and present.X, by name, type and shape */
    TENON_STATES_LISTED = 2
} tenon_states;

typedef struct tenon_compile_options {
    size_t size;
    tenon_task task; /* optional */
    const tenon_dimension *dimensions; /* an array: all elements have the size of the first */
    size_t dimension_count;
    const tenon_padding *paddings;
    size_t padding_count;
    const tenon_array *constants; /* inputs that become constants of the package; with names */
    size_t constant_count;
    const tenon_array *known_inputs; /* values that inputs will have; they fix sizes; with names */
    size_t known_input_count;
    const char *const *backends; /* in order of preference; none: the default ones */
    size_t backend_count;
    const tenon_hint *hints;
    size_t hint_count;
    const char *const *linked_folders; /* into which links to external data may lead, besides the model's own */
    size_t linked_folder_count;
    const char *cpu_level; /* "native" for this machine, or a level of docs/package.md; NULL: any machine */
    int32_t fixed_sizes;   /* 1: a dimension without a size is an error */
    int32_t states;        /* a tenon_states */
    const tenon_state *state_pairs;
    size_t state_pair_count;
    const char *backend_folder; /* of backends in shared libraries; NULL: those of TENON_BACKEND_PATH */
    const char *const *backend_options; /* "Backend.Option=value" */
    size_t backend_option_count;
    const char *const *precisions; /* "bf16" (docs/precision.md), or "PATTERN=bf16" for nodes of these names */
    size_t precision_count;
    const char *signature;      /* of a LiteRT model; NULL: its first one */
    const char *const *weights; /* files with values of initialisers and inputs: .safetensors, .npz, .json (an index) */
    size_t weight_count;        /* of files */
} tenon_compile_options;

typedef struct tenon_load_options {
    size_t size;
    tenon_task task;            /* optional */
    uint32_t threads;           /* of one execution at most; 0: one for each CPU */
    uint32_t max_in_flight;     /* concurrent executions, further ones wait; 0: one for each CPU */
    int32_t nan_check;          /* 1: executions check the outputs of nodes for NaN */
    int32_t check_digests;      /* 1: compare the package with its digests */
    int32_t native_nodes;       /* 1: libraries in the package may run in this process */
    int32_t reserved;
    const char *backend_folder; /* of backends in shared libraries; NULL: those of TENON_BACKEND_PATH */
    const char *const *backend_options; /* "Backend.Option=value" */
    size_t backend_option_count;
} tenon_load_options;

/* The order among waiting asynchronous executions. */
typedef enum tenon_priority {
    TENON_PRIORITY_NORMAL = 0,
    TENON_PRIORITY_HIGH = 1,
    TENON_PRIORITY_LOW = 2
} tenon_priority;

typedef struct tenon_submit_options {
    size_t size;
    tenon_task task; /* optional */
    int32_t priority;      /* a tenon_priority */
    int32_t reserved;
    /* Optional: called once when the execution has ended, on a thread of the library, or by model_submit itself if it
     * ended at once. It must not block. */
    void (*ended)(void *context);
    void *context;
} tenon_submit_options;

/* A size of a symbolic dimension, for model_bind (frozen). */
typedef struct tenon_extent {
    const char *symbol;
    uint64_t extent;
} tenon_extent;

/* How the ranges of activations follow from calibration data. */
typedef enum tenon_calibration {
    TENON_CALIBRATION_MINMAX = 0,     /* from the least to the greatest element */
    TENON_CALIBRATION_PERCENTILE = 1, /* without the rarest elements */
    TENON_CALIBRATION_ENTROPY = 2     /* the least Kullback-Leibler divergence of the quantised distribution */
} tenon_calibration;

/* Since version 1.1. */
typedef struct tenon_quantize_options {
    size_t size;
    const tenon_compile_options *compiling; /* of the models that are executed for calibration; optional */
    /* Calibration data: an array for each input, with names. An array may have several samples along its first
     * dimension. 4 and 16 bits need none. */
    const tenon_array *samples;
    size_t sample_count;          /* of arrays */
    int32_t bits;                 /* 8: weights and activations; 4: weights of matrix products; 16: f16; 0: 8 */
    int32_t calibration;          /* a tenon_calibration */
    double percentile;            /* elements in the range, in percent; 0: 99.99 */
    double max_node_error;        /* nodes above it stay in f32; 0: 0.1 */
    uint64_t block_size;          /* weights of 4 bits with one scale; 0: 32 */
    const char *const *excluded;  /* patterns of names of nodes that stay in f32 */
    size_t excluded_count;
    const int64_t *labels;        /* the right class of each row of the first output, for the accuracy; optional */
    size_t label_count;
} tenon_quantize_options;

/* -------------------------------------------------------------------------------------------- functions */

typedef struct tenon_functions {
    size_t size;
    uint32_t major;
    uint32_t minor;

    /* The version of the library: "0.1.0". */
    const char *(*version)(void);

    /* ---- statuses */

    /* TENON_OK for NULL. */
    int32_t (*status_code)(tenon_status status);
    /* All problems with place, expected, found and help, as the command `tenon` prints them. */
    const char *(*status_text)(tenon_status status);
    /* A part of a problem, a tenon_status_part; NULL if the problem does not have it. Problems are counted from 0. */
    const char *(*status_part)(tenon_status status, size_t problem, int32_t part);
    size_t (*status_problem_count)(tenon_status status);
    void (*status_free)(tenon_status status);

    /* ---- bytes */

    /* The bytes, and their number without the NUL that ends a text. */
    tenon_status (*blob_get)(tenon_blob blob, const void **start, size_t *length);
    tenon_status (*blob_free)(tenon_blob blob);

    /* ---- tasks */

    tenon_status (*task_create)(const tenon_task_options *options, tenon_task *task);
    /* Calls with the task end at their next check, with TENON_CANCELLED; so do all later ones. */
    tenon_status (*task_cancel)(tenon_task task);
    /* Calls with the task go on, with its deadline. `progress` may be called until they have ended. */
    tenon_status (*task_free)(tenon_task task);

    /* ---- compiling; options may be NULL */

    tenon_status (*compile_file)(const char *onnx, const tenon_compile_options *options, tenon_package *package);
    tenon_status (*compile_bytes)(const void *onnx, size_t length, const tenon_compile_options *options,
                                  tenon_package *package);
    /* Replaces the file as a whole or not at all. */
    tenon_status (*package_write)(tenon_package package, const char *path, tenon_task task);
    /* The bytes that package_write writes. */
    tenon_status (*package_bytes)(tenon_package package, tenon_task task, tenon_blob *bytes);
    /* The backend of each node and the reasons of the others, as JSON (docs/placement.md). */
    tenon_status (*package_placement)(tenon_package package, tenon_blob *json);
    tenon_status (*package_load)(tenon_package package, const tenon_load_options *options, tenon_model *model);
    tenon_status (*package_free)(tenon_package package);

    /* ---- models; options may be NULL */

    tenon_status (*model_load_file)(const char *path, const tenon_load_options *options, tenon_model *model);
    /* Copies the bytes of a package. */
    tenon_status (*model_load_bytes)(const void *package, size_t length, const tenon_load_options *options,
                                     tenon_model *model);
    tenon_status (*model_name)(tenon_model model, const char **name);
    tenon_status (*model_input_count)(tenon_model model, size_t *count);
    tenon_status (*model_output_count)(tenon_model model, size_t *count);
    /* Fill the port; its texts and arrays are valid until the model is freed. */
    tenon_status (*model_input)(tenon_model model, size_t index, tenon_port *port);
    tenon_status (*model_output)(tenon_model model, size_t index, tenon_port *port);
    tenon_status (*model_find_input)(tenon_model model, const char *name, size_t *index);
    tenon_status (*model_find_output)(tenon_model model, const char *name, size_t *index);
    /* An object of texts, as JSON: labels of classes, scaling of pictures (docs/package.md). */
    tenon_status (*model_metadata)(tenon_model model, tenon_blob *json);
    tenon_status (*model_placement)(tenon_model model, tenon_blob *json);
    tenon_status (*model_free)(tenon_model model);

    /* ---- executions; task may be NULL */

    /* Executes on copies of the arrays, which are in the order of the inputs or have names. */
    tenon_status (*model_run)(tenon_model model, const tenon_array *inputs, size_t input_count, tenon_task task,
                              tenon_outputs *outputs);
    /* Executes on the memory of the arrays itself: all inputs and all outputs in order, of exactly the types of the
     * ports, symbolic dimensions by the extents of the inputs. Memory aligned to 64 bytes is used in place, other memory is
     * copied.
     * After a failure the contents of the outputs are unspecified. Inputs and outputs must not overlap. */
    tenon_status (*model_execute)(tenon_model model, const tenon_array *inputs, size_t input_count,
                                  tenon_array *outputs, size_t output_count, tenon_task task);
    /* Executes on tensors of DLPack 1 in memory of the host, in the order of the inputs. The inputs are taken over in
     * any case: the library calls their deleters, on any thread. The caller calls the deleters of the outputs. */
    tenon_status (*model_run_dlpack)(tenon_model model, struct DLManagedTensorVersioned *const *inputs,
                                     size_t input_count, tenon_task task,
                                     struct DLManagedTensorVersioned **outputs, size_t output_count);
    /* Mean times of the kernels over some executions (at least one), as the JSON of `tenon profile --json`. With
     * `measure_peaks` the peaks of the machine are measured first, which takes some tenths of a second. */
    tenon_status (*model_profile)(tenon_model model, const tenon_array *inputs, size_t input_count, size_t runs,
                                  int32_t measure_peaks, tenon_task task, tenon_blob *json);

    tenon_status (*outputs_count)(tenon_outputs outputs, size_t *count);
    /* Name, type, extents and memory of an output, which is not to be written. */
    tenon_status (*outputs_get)(tenon_outputs outputs, size_t index, tenon_array *array);
    tenon_status (*outputs_find)(tenon_outputs outputs, const char *name, size_t *index);
    tenon_status (*outputs_free)(tenon_outputs outputs);

    /* ---- bindings: memory of the library, aligned to 64 bytes, used in place by each execution */

    /* `extents` has the sizes of all symbolic dimensions; of none for a model of fixed sizes. */
    tenon_status (*model_bind)(tenon_model model, const tenon_extent *extents, size_t extent_count,
                               tenon_bindings *bindings);
    /* The memory of an input, to be written between executions, and of an output, to be read. */
    tenon_status (*bindings_input)(tenon_bindings bindings, size_t index, tenon_array *array);
    tenon_status (*bindings_output)(tenon_bindings bindings, size_t index, tenon_array *array);
    tenon_status (*bindings_run)(tenon_bindings bindings, tenon_task task);
    tenon_status (*bindings_free)(tenon_bindings bindings);

    /* ---- sessions */

    /* Without pairs: the states of the package, or those found by name. */
    tenon_status (*model_session)(tenon_model model, const tenon_state *pairs, size_t pair_count,
                                  tenon_session *session);
    /* Executes on arrays with names: all inputs that are not states; an array for the input of a state replaces its
     * value. Returns the outputs that are not states. After a failure the session is as before. */
    tenon_status (*session_run)(tenon_session session, const tenon_array *inputs, size_t input_count,
                                tenon_task task, tenon_outputs *outputs);
    tenon_status (*session_state_count)(tenon_session session, size_t *count);
    tenon_status (*session_state)(tenon_session session, size_t index, tenon_state *state);
    /* The value of a state by the name of its output or input, as the only one of `value`; none before the first
     * execution. */
    tenon_status (*session_value)(tenon_session session, const char *state, tenon_outputs *value);
    tenon_status (*session_set_value)(tenon_session session, const char *state, const tenon_array *value);
    /* The steps in states that grow; -1 if none grows. */
    tenon_status (*session_steps)(tenon_session session, int64_t *steps);
    /* Goes back to the first steps. */
    tenon_status (*session_truncate)(tenon_session session, uint64_t steps);
    tenon_status (*session_reset)(tenon_session session);
    /* A session that continues from here by itself. */
    tenon_status (*session_fork)(tenon_session session, tenon_session *fork);
    tenon_status (*session_free)(tenon_session session);

    /* ---- asynchronous executions; options may be NULL */

    /* Executes on copies of the arrays, on a thread of the library. */
    tenon_status (*model_submit)(tenon_model model, const tenon_array *inputs, size_t input_count,
                                 const tenon_submit_options *options, tenon_run *run);
    /* A file descriptor that becomes readable when the execution has ended (eventfd); of the run, not to be closed. */
    tenon_status (*run_descriptor)(tenon_run run, int *descriptor);
    /* Waits for the end, at most this time in seconds (negative: no limit; 0: returns at once), and sets `ended` to 1
     * or 0. */
    tenon_status (*run_wait)(tenon_run run, double seconds, int32_t *ended);
    /* Waits, and returns the outputs or the failure of the execution; a second call gets TENON_USAGE. */
    tenon_status (*run_outputs)(tenon_run run, tenon_outputs *outputs);
    tenon_status (*run_cancel)(tenon_run run);
    /* Cancels an execution that has not ended; `ended` is still called. */
    tenon_status (*run_free)(tenon_run run);

    /* ---- quantisation, since version 1.1 */

    /* Makes an ONNX model of integers of an f32 model (docs/precision.md), and a report as JSON. The options
     * have samples, or other bits than 8. `report` may be NULL. */
    tenon_status (*quantize_file)(const char *onnx, const tenon_quantize_options *options, tenon_blob *model,
                                  tenon_blob *report);
    tenon_status (*quantize_bytes)(const void *onnx, size_t length, const tenon_quantize_options *options,
                                   tenon_blob *model, tenon_blob *report);
} tenon_functions;

/* The functions of a version; NULL if the library does not have them. */
const tenon_functions *tenon_api(uint32_t major, uint32_t minor);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H */
