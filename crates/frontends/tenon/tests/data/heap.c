/* A backend that computes one operator of f32 (-DOP, -DRESULT) in tensor memory of its own (-DHEAP):
 * what it imports and exports (-DIMPORTS, -DEXPORTS) are bits of TENON_MEMORY_*. It counts the tensors
 * that are copied and those that are made of memory of others. */
#include <tenon/backend.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_ullong copies, imports;

static const tenon_failure refused = {
    .size = sizeof(tenon_failure), .status = TENON_STATUS_UNSUPPORTED, .text = TENON_TEXT("only " OP)};
static const tenon_failure wrong = {
    .size = sizeof(tenon_failure), .status = TENON_STATUS_INVALID, .text = TENON_TEXT("wrong bytes")};

static const tenon_failure *supports(const tenon_backend *backend, const tenon_node *node)
{
    (void)backend;
    int known = node->op.length == strlen(OP) && memcmp(node->op.start, OP, node->op.length) == 0;
    return known && node->input_count == 1 && node->inputs[0] &&
                   node->inputs[0]->dtype == TENON_TYPE_F32
               ? NULL
               : &refused;
}

static const tenon_failure *execute(const tenon_workload *workload, const tenon_operands *operands)
{
    (void)workload;
    const float *from = operands->inputs[0].start;
    float *to = operands->outputs[0].start;
    for (size_t i = 0; i < operands->outputs[0].length / sizeof *to; i++) {
        float x = from[i];
        to[i] = RESULT;
    }
    return NULL;
}

static const tenon_workload the_workload = {.size = sizeof(tenon_workload), .execute = execute};

static const tenon_failure *workload(const tenon_backend *backend, const tenon_node *node,
                                     const tenon_memory_manager *memory, const tenon_workload **made)
{
    (void)memory;
    const tenon_failure *refusal = supports(backend, node);
    if (!refusal)
        *made = &the_workload;
    return refusal;
}

/* A tensor: of memory of its own, or of somebody else's. */
typedef struct tensor {
    tenon_tensor_handle table;
    void *start;
    size_t length;
    int own;
} tensor;

static const tenon_failure *copy_in(const tenon_tensor_handle *handle, const void *bytes, size_t length)
{
    const tensor *own = (const tensor *)handle;
    if (length != own->length)
        return &wrong;
    memcpy(own->start, bytes, length);
    copies++;
    return NULL;
}

static const tenon_failure *copy_out(const tenon_tensor_handle *handle, void *bytes, size_t length)
{
    const tensor *own = (const tensor *)handle;
    if (length != own->length)
        return &wrong;
    memcpy(bytes, own->start, length);
    copies++;
    return NULL;
}

static void *start_of(const tenon_tensor_handle *handle)
{
    return ((const tensor *)handle)->start;
}

static void release(const tenon_tensor_handle *handle)
{
    tensor *own = (tensor *)handle;
    if (own->own)
        free(own->start);
    free(own);
}

static const tenon_failure *make(void *start, size_t length, const tenon_tensor_handle **made)
{
    tensor *own = malloc(sizeof *own);
    if (!own)
        return &wrong;
    *own = (tensor){
        .table = {.size = sizeof own->table,
                  .copy_in = copy_in,
                  .copy_out = copy_out,
                  .start = start_of,
                  .release = release},
        .start = start ? start : aligned_alloc(64, (length + 63) / 64 * 64),
        .length = length,
        .own = !start,
    };
    *made = &own->table;
    return NULL;
}

static const tenon_failure *tensor_handle(const tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, const tenon_tensor_handle **made)
{
    (void)backend, (void)factory;
    size_t length = sizeof(float);
    for (uint32_t axis = 0; axis < type->rank; axis++)
        length *= type->extents[axis];
    return make(NULL, length, made);
}

static const tenon_failure *import_tensor(const tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, void *start, size_t length,
                                          int32_t source, const tenon_tensor_handle **made)
{
    (void)backend, (void)factory, (void)type;
    if (!(source & (IMPORTS)))
        return &wrong;
    imports++;
    return make(start, length, made);
}

#ifdef DARK_FIRST
/* Preferred, but out of the reach of everybody else. */
static const tenon_handle_factory dark = {.size = sizeof dark, .name = TENON_TEXT("Dark")};
#endif
static const tenon_handle_factory heap = {
    .size = sizeof heap,
    .name = TENON_TEXT(HEAP),
    .import_sources = IMPORTS,
    .export_sources = EXPORTS,
    .map = 1,
};
static const tenon_handle_factory *const heaps[] = {
#ifdef DARK_FIRST
    &dark,
#endif
    &heap};

#define COUNTER(NAME) {.size = sizeof(tenon_counter), .name = TENON_TEXT(NAME)}
static const tenon_counter counters[] = {COUNTER("copies"), COUNTER("imports")};
static const tenon_counter *const counter_list[] = {&counters[0], &counters[1]};

static const tenon_failure *sample(const tenon_profiling *profiling, uint64_t *values)
{
    (void)profiling;
    values[0] = copies;
    values[1] = imports;
    return NULL;
}

static const tenon_profiling the_profiling = {
    .size = sizeof(tenon_profiling), .counter_count = 2, .counters = counter_list, .sample = sample};

static const tenon_failure *profiling(const tenon_backend *backend, const tenon_profiling **made)
{
    (void)backend;
    *made = &the_profiling;
    return NULL;
}

static const tenon_backend the_backend = {
    .size = sizeof(tenon_backend),
    .description = TENON_TEXT(OP " in memory of its own"),
    .handle_factory_count = sizeof heaps / sizeof *heaps,
    .handle_factories = heaps,
    .supports = supports,
    .workload = workload,
    .profiling = profiling,
    .tensor_handle = tensor_handle,
    .import_tensor = import_tensor,
};

const char *GetBackendId(void)
{
    return "Own" OP;
}

void GetVersion(uint32_t *major, uint32_t *minor)
{
    *major = TENON_BACKEND_MAJOR;
    *minor = TENON_BACKEND_MINOR;
}

void *BackendFactory(void)
{
    return (void *)&the_backend;
}
