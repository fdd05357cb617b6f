/* The declarations of tenon/backend.h, version 1.1, as published: never changed. */
#ifndef TENON_BACKEND_H
#define TENON_BACKEND_H 
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define TENON_BACKEND_MAJOR 1
#define TENON_BACKEND_MINOR 1
typedef struct tenon_text {
    const char *start;
    size_t length;
} tenon_text;
#ifdef __cplusplus
#define TENON_TEXT(literal) (tenon_text{(literal), sizeof(literal) - 1})
#else
#define TENON_TEXT(literal) ((tenon_text){(literal), sizeof(literal) - 1})
#endif
typedef struct tenon_bytes {
    const void *start;
    size_t length;
    const void *owner;
} tenon_bytes;
typedef struct tenon_operand {
    void *start;
    size_t length;
} tenon_operand;
typedef struct tenon_in_place {
    uint32_t input;
    uint32_t output;
} tenon_in_place;
typedef struct tenon_ids {
    const uint32_t *start;
    size_t length;
} tenon_ids;
enum {
    TENON_STATUS_FAILED = 1,
    TENON_STATUS_UNSUPPORTED = 2,
    TENON_STATUS_INVALID = 3,
    TENON_STATUS_OUT_OF_MEMORY = 4,
    TENON_STATUS_UNAVAILABLE = 5,
    TENON_STATUS_STOPPED = 6
};
enum {
    TENON_REASON_OTHER = 0,
    TENON_REASON_UNKNOWN_OPERATOR = 1,
    TENON_REASON_INPUT_TYPE = 2,
    TENON_REASON_INPUT_RANK = 3,
    TENON_REASON_ATTRIBUTE_VALUE = 4,
    TENON_REASON_NOT_CONSTANT = 5
};
typedef struct tenon_failure {
    size_t size;
    int32_t status;
    int32_t reason;
    int64_t index;
    int64_t found;
    tenon_text name;
    tenon_text text;
    void (*release)(const struct tenon_failure *failure);
} tenon_failure;
enum {
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
    TENON_TYPE_BOOL = 23,
    TENON_TYPE_C64 = 24,
    TENON_TYPE_C128 = 25,
    TENON_TYPE_STRING = 26,
    TENON_TYPE_F4E2M1FN = 27,
    TENON_TYPE_F8E8M0FNU = 28,
    TENON_TYPE_I2 = 29,
    TENON_TYPE_U2 = 30
};
typedef struct tenon_tensor {
    size_t size;
    int32_t dtype;
    uint32_t rank;
    const uint64_t *extents;
    tenon_bytes data;
    tenon_text layout;
    tenon_bytes prepared;
} tenon_tensor;
enum {
    TENON_KIND_INT = 1,
    TENON_KIND_FLOAT = 2,
    TENON_KIND_STRING = 3,
    TENON_KIND_INTS = 4,
    TENON_KIND_FLOATS = 5,
    TENON_KIND_STRINGS = 6,
    TENON_KIND_TENSOR = 7
};
typedef struct tenon_attribute {
    size_t size;
    tenon_text name;
    int32_t kind;
    size_t count;
    const int64_t *integers;
    const float *floats;
    const tenon_text *texts;
    const tenon_tensor *tensor;
} tenon_attribute;
#define TENON_NO_VALUE UINT32_MAX
typedef struct tenon_node {
    size_t size;
    tenon_text op;
    tenon_text name;
    size_t input_count;
    const tenon_tensor *const *inputs;
    size_t output_count;
    const tenon_tensor *const *outputs;
    size_t attribute_count;
    const tenon_attribute *const *attributes;
    const uint32_t *input_values;
    const uint32_t *output_values;
} tenon_node;
typedef struct tenon_graph {
    size_t size;
    size_t value_count;
    const tenon_tensor *const *values;
    size_t node_count;
    const tenon_node *const *nodes;
    tenon_ids inputs;
    tenon_ids outputs;
} tenon_graph;
enum {
    TENON_VALUE_BOOL = 1,
    TENON_VALUE_INT = 2,
    TENON_VALUE_UNSIGNED = 3,
    TENON_VALUE_FLOAT = 4,
    TENON_VALUE_STRING = 5
};
typedef struct tenon_named_value {
    size_t size;
    tenon_text name;
    int32_t kind;
    float number;
    int64_t integer;
    tenon_text text;
} tenon_named_value;
enum { TENON_SCOPE_MODEL = 1, TENON_SCOPE_CREATION = 2 };
typedef struct tenon_option {
    size_t size;
    const tenon_named_value *value;
    int32_t scope;
    tenon_text doc;
} tenon_option;
typedef struct tenon_prepared {
    size_t size;
    uint32_t input;
    tenon_text layout;
    tenon_bytes data;
} tenon_prepared;
typedef struct tenon_plan {
    size_t size;
    size_t scratch_bytes;
    size_t in_place_count;
    const tenon_in_place *in_place;
    size_t prepared_count;
    const tenon_prepared *const *prepared;
    void (*release)(const struct tenon_plan *plan);
} tenon_plan;
typedef struct tenon_control {
    size_t size;
    int32_t (*is_stopped)(const struct tenon_control *control);
} tenon_control;
typedef struct tenon_operands {
    size_t size;
    size_t input_count;
    const tenon_operand *inputs;
    size_t output_count;
    const tenon_operand *outputs;
    tenon_operand scratch;
    const tenon_control *control;
} tenon_operands;
typedef struct tenon_workload {
    size_t size;
    const tenon_failure *(*execute)(const struct tenon_workload *workload,
                                    const tenon_operands *operands);
    int32_t (*reads)(const struct tenon_workload *workload, uint32_t input);
    void (*release)(const struct tenon_workload *workload);
} tenon_workload;
typedef struct tenon_memory_manager {
    size_t size;
    const tenon_failure *(*acquire)(const struct tenon_memory_manager *memory);
    void (*give_back)(const struct tenon_memory_manager *memory); // words: allow
    void (*release)(const struct tenon_memory_manager *memory);
} tenon_memory_manager;
typedef struct tenon_substitution {
    size_t size;
    tenon_ids nodes;
    tenon_ids inputs;
    tenon_ids outputs;
    const tenon_graph *replacement;
} tenon_substitution;
typedef struct tenon_failed_part {
    size_t size;
    tenon_ids nodes;
    tenon_text reason;
} tenon_failed_part;
typedef struct tenon_views {
    size_t size;
    size_t substitution_count;
    const tenon_substitution *const *substitutions;
    size_t failed_count;
    const tenon_failed_part *const *failed;
    tenon_ids untouched;
    tenon_ids deleted;
    void (*release)(const struct tenon_views *views);
} tenon_views;
enum {
    TENON_MEMORY_MALLOC = 1,
    TENON_MEMORY_DMA_BUF = 2,
    TENON_MEMORY_DMA_BUF_PROTECTED = 4,
    TENON_MEMORY_GRALLOC = 8
};
typedef struct tenon_allocator {
    size_t size;
    int32_t source;
    void *(*allocate)(const struct tenon_allocator *allocator, size_t length, size_t alignment);
    void (*free)(const struct tenon_allocator *allocator, void *start);
    void (*release)(const struct tenon_allocator *allocator);
} tenon_allocator;
typedef struct tenon_handle_factory {
    size_t size;
    tenon_text name;
    uint32_t import_sources;
    uint32_t export_sources;
    int32_t map;
    int32_t padding;
} tenon_handle_factory;
typedef struct tenon_tensor_handle {
    size_t size;
    const tenon_failure *(*copy_in)(const struct tenon_tensor_handle *handle, const void *bytes,
                                    size_t length);
    const tenon_failure *(*copy_out)(const struct tenon_tensor_handle *handle, void *bytes,
                                     size_t length);
    void *(*start)(const struct tenon_tensor_handle *handle);
    void (*release)(const struct tenon_tensor_handle *handle);
} tenon_tensor_handle;
typedef struct tenon_context {
    size_t size;
    const tenon_failure *(*before_load)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_load)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*before_unload)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_unload)(const struct tenon_context *context, uint64_t network);
    const tenon_failure *(*after_enqueue)(const struct tenon_context *context, uint64_t network);
    void (*release)(const struct tenon_context *context);
} tenon_context;
typedef struct tenon_counter {
    size_t size;
    tenon_text name;
    tenon_text doc;
    tenon_text unit;
} tenon_counter;
typedef struct tenon_profiling {
    size_t size;
    size_t counter_count;
    const tenon_counter *const *counters;
    const tenon_failure *(*enable)(const struct tenon_profiling *profiling, int32_t on);
    const tenon_failure *(*sample)(const struct tenon_profiling *profiling, uint64_t *values);
    void (*release)(const struct tenon_profiling *profiling);
} tenon_profiling;
typedef struct tenon_host {
    size_t size;
    uint32_t major;
    uint32_t minor;
    void *(*retain)(const void *owner);
    void (*forget)(void *token);
} tenon_host;
enum {
    TENON_CPU_BASELINE = 0,
    TENON_CPU_AVX2 = 1,
    TENON_CPU_AVX512 = 2
};
typedef struct tenon_backend {
    size_t size;
    tenon_text description;
    size_t capability_count;
    const tenon_named_value *const *capabilities;
    size_t option_count;
    const tenon_option *const *options;
    size_t handle_factory_count;
    const tenon_handle_factory *const *handle_factories;
    const tenon_failure *(*attach)(const struct tenon_backend *backend, const tenon_host *host);
    const tenon_failure *(*supports)(const struct tenon_backend *backend, const tenon_node *node);
    const tenon_failure *(*plan)(const struct tenon_backend *backend, const tenon_node *node,
                                 int32_t cpu, const tenon_plan **plan);
    const tenon_failure *(*workload)(const struct tenon_backend *backend, const tenon_node *node,
                                     const tenon_memory_manager *memory,
                                     const tenon_workload **workload);
    const tenon_failure *(*optimise)(const struct tenon_backend *backend, const tenon_graph *graph,
                                     const tenon_views **views);
    const tenon_failure *(*configured)(const struct tenon_backend *backend, size_t count,
                                       const tenon_named_value *const *options,
                                       const struct tenon_backend **configured);
    const tenon_failure *(*memory_manager)(const struct tenon_backend *backend,
                                           const tenon_memory_manager **memory);
    const tenon_failure *(*context)(const struct tenon_backend *backend, size_t count,
                                    const tenon_named_value *const *options,
                                    int32_t protected_content, const tenon_context **context);
    const tenon_failure *(*profiling)(const struct tenon_backend *backend,
                                      const tenon_profiling **profiling);
    const tenon_failure *(*allocator)(const struct tenon_backend *backend,
                                      const tenon_allocator **allocator);
    const tenon_failure *(*with_allocator)(const struct tenon_backend *backend,
                                           const tenon_allocator *allocator,
                                           const struct tenon_backend **other);
    const tenon_failure *(*tensor_handle)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type,
                                          const tenon_tensor_handle **handle);
    const tenon_failure *(*import_tensor)(const struct tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, void *start, size_t length,
                                          int32_t source, const tenon_tensor_handle **handle);
    void (*release)(const struct tenon_backend *backend);
} tenon_backend;
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
