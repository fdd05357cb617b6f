/*
 * A backend in C: elementwise operators on f32.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I include examples/backend-c/example_backend.c \
 *        -o Example_Elementwise_backend.so
 *
 * It computes Add, Mul and Relu of tensors of equal shapes, and fuses the chain Relu(Add(Mul(a, b),
 * c)). Constants of Add and Mul are prepared at compile time. Its one option scales the result of
 * the chain. Its memory comes from its own allocator, which other backends may use, or from one of
 * the host.
 */
#include <tenon/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "ExampleC"

/* ------------------------------------------------------------------------------- allocators -- */

static void *own_allocate(const tenon_allocator *allocator, size_t length, size_t alignment)
{
    (void)allocator;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    /* aligned_alloc requires a size that is a multiple of the alignment. */
    return aligned_alloc(alignment, (length + alignment - 1) / alignment * alignment);
}

static void own_free(const tenon_allocator *allocator, void *start)
{
    (void)allocator;
    free(start);
}

static const tenon_allocator own_allocator = {
    .size = sizeof(tenon_allocator),
    .source = TENON_MEMORY_MALLOC,
    .allocate = own_allocate,
    .free = own_free,
};

/* ---------------------------------------------------------------------------------- failures -- */

/* Failures without memory to release can be constants. */
static const tenon_failure out_of_memory = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_OUT_OF_MEMORY,
    .text = {"out of memory", 13},
};

static const tenon_failure unknown_operator = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_UNSUPPORTED,
    .reason = TENON_REASON_UNKNOWN_OPERATOR,
};

static const tenon_failure unequal_shapes = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_UNSUPPORTED,
    .text = {"no kernel for unequal shapes", 28},
};

static const tenon_failure wrong_operands = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_INVALID,
    .text = {"operands of the wrong number or size", 36},
};

static const tenon_failure unknown_option = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_INVALID,
    .text = {"the only option is Scale, a float", 33},
};

static void release_failure(const tenon_failure *failure)
{
    free((void *)failure);
}

/* No kernel for the type of an input. */
static const tenon_failure *refuse_type(size_t input, int32_t found)
{
    tenon_failure *failure = calloc(1, sizeof *failure);
    if (!failure)
        return &out_of_memory;
    failure->size = sizeof *failure;
    failure->status = TENON_STATUS_UNSUPPORTED;
    failure->reason = TENON_REASON_INPUT_TYPE;
    failure->index = (int64_t)input;
    failure->found = found;
    failure->release = release_failure;
    return failure;
}

/* ------------------------------------------------------------------------------- the backend -- */

/* The backend, whose first member is the table. */
typedef struct example_backend {
    tenon_backend table;
    float scale;
    const tenon_allocator *allocator;
} example_backend;

typedef enum { ADD, MUL, RELU, CHAIN, UNKNOWN } kernel;

static const example_backend *self(const tenon_backend *backend)
{
    return (const example_backend *)backend;
}

static int equals(tenon_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

static const tenon_attribute *attribute(const tenon_node *node, const char *name)
{
    for (size_t i = 0; i < node->attribute_count; i++)
        if (equals(node->attributes[i]->name, name))
            return node->attributes[i];
    return NULL;
}

static kernel kernel_of(const tenon_node *node)
{
    if (equals(node->op, "Add"))
        return ADD;
    if (equals(node->op, "Mul"))
        return MUL;
    if (equals(node->op, "Relu"))
        return RELU;
    if (equals(node->op, "tenon.Precompiled")) {
        const tenon_attribute *maker = attribute(node, "backend");
        const tenon_attribute *name = attribute(node, "name");
        if (maker && name && maker->kind == TENON_KIND_STRING && name->kind == TENON_KIND_STRING &&
            equals(maker->texts[0], ID) && equals(name->texts[0], "chain"))
            return CHAIN;
    }
    return UNKNOWN;
}

static size_t input_count(kernel kernel)
{
    return kernel == CHAIN ? 3 : kernel == RELU ? 1 : 2;
}

static int same_shape(const tenon_tensor *a, const tenon_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->extents, b->extents, a->rank * sizeof *a->extents) == 0);
}

static const tenon_failure *supports(const tenon_backend *backend, const tenon_node *node)
{
    (void)backend;
    kernel kernel = kernel_of(node);
    if (kernel == UNKNOWN)
        return &unknown_operator;
    if (node->input_count != input_count(kernel) || node->output_count != 1 || !node->outputs[0])
        return &wrong_operands;
    for (size_t i = 0; i < node->input_count; i++) {
        const tenon_tensor *input = node->inputs[i];
        if (!input)
            return &wrong_operands;
        if (input->dtype != TENON_TYPE_F32)
            return refuse_type(i, input->dtype);
        if (!same_shape(input, node->outputs[0]))
            return &unequal_shapes;
    }
    return NULL;
}

static size_t length_of(const tenon_tensor *tensor)
{
    size_t length = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        length *= (size_t)tensor->extents[i];
    return length;
}

/* --------------------------------------------------------------------------------- workloads -- */

typedef struct example_workload {
    tenon_workload table;
    kernel kernel;
    size_t length; /* elements */
    float scale;
    const float *prepared[2]; /* constants in prepared form, valid as long as the workload */
    const tenon_allocator *allocator;
} example_workload;

/* The layout of prepared constants: zero-padded to a multiple of 16 elements, so that loops may
 * use whole vectors. */
#define LAYOUT "padded16:f32"
#define LANES 16

static float relu(float x)
{
    return x > 0 ? x : x != x ? x : 0;
}

static const tenon_failure *execute(const tenon_workload *table, const tenon_operands *operands)
{
    const example_workload *workload = (const example_workload *)table;
    size_t count = input_count(workload->kernel), bytes = workload->length * sizeof(float);
    if (operands->input_count != count || operands->output_count != 1 ||
        operands->outputs[0].length != bytes)
        return &wrong_operands;
    const float *inputs[3] = {0};
    for (size_t i = 0; i < count; i++) {
        inputs[i] = i < 2 ? workload->prepared[i] : NULL;
        if (inputs[i])
            continue;
        if (operands->inputs[i].length != bytes)
            return &wrong_operands;
        inputs[i] = operands->inputs[i].start;
    }
    const float *a = inputs[0], *b = inputs[1], *c = inputs[2];
    float *y = operands->outputs[0].start;
    switch (workload->kernel) {
    case ADD:
        for (size_t i = 0; i < workload->length; i++)
            y[i] = a[i] + b[i];
        break;
    case MUL:
        for (size_t i = 0; i < workload->length; i++)
            y[i] = a[i] * b[i];
        break;
    case RELU:
        for (size_t i = 0; i < workload->length; i++)
            y[i] = relu(a[i]);
        break;
    default:
        for (size_t i = 0; i < workload->length; i++)
            y[i] = workload->scale * relu(a[i] * b[i] + c[i]);
    }
    return NULL;
}

/* The plain form of a prepared constant is not read. */
static int32_t reads(const tenon_workload *table, uint32_t input)
{
    const example_workload *workload = (const example_workload *)table;
    return input >= 2 || !workload->prepared[input];
}

static size_t padded_bytes(const tenon_tensor *tensor)
{
    return (length_of(tensor) + LANES - 1) / LANES * LANES * sizeof(float);
}

/* The prepared form of an input, as created by plan, or NULL. */
static const float *prepared_form(const tenon_tensor *input)
{
    if (!input->prepared.start || !equals(input->layout, LAYOUT) ||
        input->prepared.length != padded_bytes(input))
        return NULL;
    return input->prepared.start;
}

static void release_workload(const tenon_workload *table)
{
    const example_workload *workload = (const example_workload *)table;
    workload->allocator->free(workload->allocator, (void *)workload);
}

static const tenon_failure *make_workload(const tenon_backend *backend, const tenon_node *node,
                                          const tenon_memory_manager *memory,
                                          const tenon_workload **out)
{
    (void)memory;
    const tenon_failure *refusal = supports(backend, node);
    if (refusal)
        return refusal;
    const tenon_allocator *allocator = self(backend)->allocator;
    example_workload *workload = allocator->allocate(allocator, sizeof *workload, 64);
    if (!workload)
        return &out_of_memory;
    *workload = (example_workload){
        .table = {.size = sizeof workload->table,
                  .execute = execute,
                  .reads = reads,
                  .release = release_workload},
        .kernel = kernel_of(node),
        .length = length_of(node->outputs[0]),
        .scale = self(backend)->scale,
        .allocator = allocator,
    };
    for (size_t i = 0; i < node->input_count && i < 2; i++)
        workload->prepared[i] = prepared_form(node->inputs[i]);
    *out = &workload->table;
    return NULL;
}

/* ------------------------------------------------------------------------------------- plans -- */

/* An elementwise result may be computed in place of any operand. */
static const tenon_in_place in_place_of_the_first = {0, 0};

typedef struct example_plan {
    tenon_plan table;
    tenon_prepared prepared[2];
    const tenon_prepared *list[2];
} example_plan;

static void release_plan(const tenon_plan *table)
{
    const example_plan *plan = (const example_plan *)table;
    for (size_t i = 0; i < plan->table.prepared_count; i++)
        free((void *)plan->prepared[i].data.start);
    free((void *)plan);
}

static const tenon_failure *plan(const tenon_backend *backend, const tenon_node *node, int32_t cpu,
                                 const tenon_plan **out)
{
    (void)backend;
    (void)cpu;
    example_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return &out_of_memory;
    plan->table = (tenon_plan){
        .size = sizeof plan->table,
        .in_place_count = 1,
        .in_place = &in_place_of_the_first,
        .prepared = plan->list,
        .release = release_plan,
    };
    for (size_t i = 0; i < node->input_count && i < 2; i++) {
        const tenon_tensor *input = node->inputs[i];
        if (!input || !input->data.start || input->dtype != TENON_TYPE_F32 ||
            input->data.length == 0 || input->data.length > padded_bytes(input))
            continue;
        float *padded = calloc(1, padded_bytes(input));
        if (!padded) {
            release_plan(&plan->table);
            return &out_of_memory;
        }
        memcpy(padded, input->data.start, input->data.length);
        tenon_prepared *prepared = &plan->prepared[plan->table.prepared_count];
        *prepared = (tenon_prepared){
            .size = sizeof *prepared,
            .input = (uint32_t)i,
            .layout = TENON_TEXT(LAYOUT),
            .data = {padded, padded_bytes(input), NULL},
        };
        plan->list[plan->table.prepared_count++] = prepared;
    }
    *out = &plan->table;
    return NULL;
}

/* ------------------------------------------------------------------------ fusion of three nodes
 * -- */

/* The result of optimise with the memory it points to: one substitution per chain. */
typedef struct part {
    tenon_substitution substitution;
    tenon_graph replacement;
    tenon_node node;
    tenon_attribute attributes[3];
    const tenon_attribute *attribute_list[3];
    tenon_text texts[3];
    char type[2048];
    uint32_t nodes[3];
    uint32_t inputs[3];
    uint32_t output;
    const tenon_tensor *values[4];
    const tenon_node *node_list[1];
} part;

typedef struct optimised {
    tenon_views views;
    const tenon_substitution **list;
    part **parts;
    size_t count;
    uint32_t *untouched;
} optimised;

static void release_views(const tenon_views *views)
{
    optimised *own = (optimised *)views;
    for (size_t i = 0; i < own->count; i++)
        free(own->parts[i]);
    free(own->parts);
    free(own->list);
    free(own->untouched);
    free(own);
}

/* The only node that uses a value, or -1 if there are none or several, or if it is an output. */
static long only_user(const tenon_graph *graph, uint32_t value)
{
    long user = -1;
    for (size_t i = 0; i < graph->outputs.length; i++)
        if (graph->outputs.start[i] == value)
            return -1;
    for (size_t n = 0; n < graph->node_count; n++)
        for (size_t i = 0; i < graph->nodes[n]->input_count; i++)
            if (graph->nodes[n]->input_values[i] == value) {
                if (user >= 0)
                    return -1;
                user = (long)n;
            }
    return user;
}

/* "f32[2, 3]" */
static void write_type(char *out, size_t capacity, const tenon_tensor *tensor)
{
    size_t at = (size_t)snprintf(out, capacity, "f32[");
    for (uint32_t i = 0; i < tensor->rank && at < capacity; i++)
        at += (size_t)snprintf(out + at, capacity - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)tensor->extents[i]);
    if (at < capacity)
        snprintf(out + at, capacity - at, "]");
}

/* Whether a chain starts at node `mul`; sets `part` to it. */
static int chain_at(const tenon_graph *graph, size_t mul, part *part)
{
    if (kernel_of(graph->nodes[mul]) != MUL)
        return 0;
    long add = only_user(graph, graph->nodes[mul]->output_values[0]);
    if (add < 0 || kernel_of(graph->nodes[add]) != ADD)
        return 0;
    long last = only_user(graph, graph->nodes[add]->output_values[0]);
    if (last < 0 || kernel_of(graph->nodes[last]) != RELU)
        return 0;
    const uint32_t *sum = graph->nodes[add]->input_values;
    uint32_t product = graph->nodes[mul]->output_values[0];
    memset(part, 0, sizeof *part);
    part->nodes[0] = (uint32_t)mul;
    part->nodes[1] = (uint32_t)add;
    part->nodes[2] = (uint32_t)last;
    part->inputs[0] = graph->nodes[mul]->input_values[0];
    part->inputs[1] = graph->nodes[mul]->input_values[1];
    part->inputs[2] = sum[0] == product ? sum[1] : sum[0];
    part->output = graph->nodes[last]->output_values[0];
    return 1;
}

static void text_attribute(part *part, size_t index, const char *name, int32_t kind,
                           const char *text)
{
    part->texts[index] = (tenon_text){text, strlen(text)};
    part->attributes[index] = (tenon_attribute){
        .size = sizeof(tenon_attribute),
        .name = {name, strlen(name)},
        .kind = kind,
        .count = 1,
        .texts = &part->texts[index],
    };
    part->attribute_list[index] = &part->attributes[index];
}

/* The replacement: one node, tenon.Precompiled, with inputs 0 to 2 and output 3. */
static void describe(const tenon_graph *graph, part *part)
{
    static const uint32_t three[] = {0, 1, 2}, fourth[] = {3};
    for (int i = 0; i < 3; i++)
        part->values[i] = graph->values[part->inputs[i]];
    part->values[3] = graph->values[part->output];
    write_type(part->type, sizeof part->type, part->values[3]);
    text_attribute(part, 0, "backend", TENON_KIND_STRING, ID);
    text_attribute(part, 1, "name", TENON_KIND_STRING, "chain");
    text_attribute(part, 2, "outputs", TENON_KIND_STRINGS, part->type);
    part->node = (tenon_node){
        .size = sizeof part->node,
        .op = TENON_TEXT("tenon.Precompiled"),
        .name = TENON_TEXT("chain"),
        .input_count = 3,
        .output_count = 1,
        .attribute_count = 3,
        .attributes = part->attribute_list,
        .input_values = three,
        .output_values = fourth,
    };
    part->node_list[0] = &part->node;
    part->replacement = (tenon_graph){
        .size = sizeof part->replacement,
        .value_count = 4,
        .values = part->values,
        .node_count = 1,
        .nodes = part->node_list,
        .inputs = {three, 3},
        .outputs = {fourth, 1},
    };
    part->substitution = (tenon_substitution){
        .size = sizeof part->substitution,
        .nodes = {part->nodes, 3},
        .inputs = {part->inputs, 3},
        .outputs = {&part->output, 1},
        .replacement = &part->replacement,
    };
}

static const tenon_failure *optimise(const tenon_backend *backend, const tenon_graph *graph,
                                     const tenon_views **out)
{
    (void)backend;
    optimised *own = calloc(1, sizeof *own);
    size_t capacity = graph->node_count + 1;
    char *fused = calloc(capacity, 1);
    if (own) {
        own->list = calloc(capacity, sizeof *own->list);
        own->parts = calloc(capacity, sizeof *own->parts);
        own->untouched = calloc(capacity, sizeof *own->untouched);
    }
    if (!own || !fused || !own->list || !own->parts || !own->untouched)
        goto exhausted;
    for (size_t n = 0; n < graph->node_count; n++) {
        part found;
        if (!chain_at(graph, n, &found))
            continue;
        part *chain = malloc(sizeof *chain);
        if (!chain)
            goto exhausted;
        *chain = found;
        describe(graph, chain);
        own->parts[own->count] = chain;
        own->list[own->count++] = &chain->substitution;
        for (int i = 0; i < 3; i++)
            fused[chain->nodes[i]] = 1;
    }
    size_t rest = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        if (!fused[n])
            own->untouched[rest++] = (uint32_t)n;
    free(fused);
    own->views = (tenon_views){
        .size = sizeof own->views,
        .substitution_count = own->count,
        .substitutions = own->list,
        .untouched = {own->untouched, rest},
        .release = release_views,
    };
    *out = &own->views;
    return NULL;

exhausted:
    free(fused);
    if (own)
        release_views(&own->views);
    return &out_of_memory;
}

/* -------------------------------------------------------------------------- options and table
 * -- */

static const tenon_named_value elementwise_only = {
    .size = sizeof(tenon_named_value),
    .name = {"Elementwise", 11},
    .kind = TENON_VALUE_BOOL,
    .integer = 1,
};
static const tenon_named_value *const capabilities[] = {&elementwise_only};

static const tenon_named_value scale_default = {
    .size = sizeof(tenon_named_value),
    .name = {"Scale", 5},
    .kind = TENON_VALUE_FLOAT,
    .number = 1,
};
static const tenon_option scale_option = {
    .size = sizeof(tenon_option),
    .value = &scale_default,
    .scope = TENON_SCOPE_MODEL,
    .doc = {"factor of the result of a chain", 31},
};
static const tenon_option *const options[] = {&scale_option};

static example_backend *make(float scale, const tenon_allocator *allocator);

static const tenon_failure *configured(const tenon_backend *backend, size_t count,
                                       const tenon_named_value *const *values,
                                       const tenon_backend **other)
{
    float scale = self(backend)->scale;
    for (size_t i = 0; i < count; i++) {
        if (!equals(values[i]->name, "Scale") || values[i]->kind != TENON_VALUE_FLOAT)
            return &unknown_option;
        scale = values[i]->number;
    }
    example_backend *created = make(scale, self(backend)->allocator);
    if (!created)
        return &out_of_memory;
    *other = &created->table;
    return NULL;
}

static const tenon_failure *allocator(const tenon_backend *backend, const tenon_allocator **out)
{
    *out = self(backend)->allocator;
    return NULL;
}

static const tenon_failure *with_allocator(const tenon_backend *backend,
                                           const tenon_allocator *allocator,
                                           const tenon_backend **other)
{
    example_backend *created = make(self(backend)->scale, allocator);
    if (!created)
        return &out_of_memory;
    *other = &created->table;
    return NULL;
}

static void release_backend(const tenon_backend *backend)
{
    free((void *)backend);
}

static example_backend *make(float scale, const tenon_allocator *memory)
{
    example_backend *created = calloc(1, sizeof *created);
    if (!created)
        return NULL;
    created->scale = scale;
    created->allocator = memory;
    created->table = (tenon_backend){
        .size = sizeof created->table,
        .description = TENON_TEXT("elementwise operators on f32, an example in C"),
        .capability_count = 1,
        .capabilities = capabilities,
        .option_count = 1,
        .options = options,
        .supports = supports,
        .plan = plan,
        .workload = make_workload,
        .optimise = optimise,
        .configured = configured,
        .allocator = allocator,
        .with_allocator = with_allocator,
        .release = release_backend,
    };
    return created;
}

const char *GetBackendId(void)
{
    return ID;
}

void GetVersion(uint32_t *major, uint32_t *minor)
{
    *major = TENON_BACKEND_MAJOR;
    *minor = TENON_BACKEND_MINOR;
}

void *BackendFactory(void)
{
    return make(1, &own_allocator);
}
