/* CPU nodes of tests/cpu_nodes.rs and benches/pipeline.rs. */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tenon/cpu_node.h>

static uint64_t elements(const tenon_cpu_node_tensor *tensor)
{
    uint64_t count = 1;
    for (uint64_t axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

static int32_t fail(const tenon_cpu_node_call *call, const char *why)
{
    snprintf(call->message, call->message_size, "%s: %s", call->node, why);
    return 7;
}

/* What every call must be. */
static const char *wrong(const tenon_cpu_node_call *call)
{
    if (call->size < sizeof *call || call->input_count != 1 || call->output_count != 1)
        return "not one input and one output";
    const tenon_cpu_node_tensor *x = call->inputs, *y = call->outputs;
    if (strcmp(x->dtype, "f32") || strcmp(y->dtype, "f32") || !*x->name || !*y->name)
        return "not named tensors of f32";
    if (elements(x) * sizeof(float) != x->bytes || elements(y) != elements(x))
        return "sizes differ";
    if ((uintptr_t)x->data % 64 || (uintptr_t)y->data % 64)
        return "not aligned";
    return NULL;
}

int32_t twice(const tenon_cpu_node_call *call)
{
    if (wrong(call))
        return fail(call, wrong(call));
    for (uint64_t i = 0; i < elements(call->outputs); i++)
        ((float *)call->outputs->data)[i] = 2 * ((const float *)call->inputs->data)[i];
    return 0;
}

/* Says what attributes it was given: the text is compared by the test. */
int32_t tells_attributes(const tenon_cpu_node_call *call)
{
    char *at = call->message, *end = call->message + call->message_size;
    at += snprintf(at, end - at, "given");
    for (uint64_t i = 0; i < call->attribute_count && at < end; i++) {
        const tenon_cpu_node_attribute *a = &call->attributes[i];
        at += snprintf(at, end - at, " %s=%s", a->name, a->kind);
        for (uint64_t j = 0; j < a->count && at < end; j++) {
            if (*a->kind == 'f')
                at += snprintf(at, end - at, ":%g", ((const float *)a->values)[j]);
            else if (*a->kind == 'i')
                at += snprintf(at, end - at, ":%lld", (long long)((const int64_t *)a->values)[j]);
            else
                at += snprintf(at, end - at, ":%s", ((const char *const *)a->values)[j]);
        }
    }
    return 1;
}

int32_t root(const tenon_cpu_node_call *call)
{
    if (wrong(call))
        return fail(call, wrong(call));
    for (uint64_t i = 0; i < elements(call->outputs); i++)
        ((float *)call->outputs->data)[i] = sqrtf(((const float *)call->inputs->data)[i]);
    return 0;
}

int32_t refuses(const tenon_cpu_node_call *call)
{
    return fail(call, "not today");
}

int32_t refuses_what_is_below_zero(const tenon_cpu_node_call *call)
{
    if (((const float *)call->inputs->data)[0] < 0)
        return fail(call, "below zero");
    return twice(call);
}

int32_t says_nothing(const tenon_cpu_node_call *call)
{
    (void)call;
    return -3;
}

static int32_t twice_after(const tenon_cpu_node_call *call, long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000 * 1000};
    nanosleep(&time, NULL);
    return twice(call);
}

int32_t sleeps(const tenon_cpu_node_call *call)
{
    return twice_after(call, 30);
}

int32_t takes_1100_ms(const tenon_cpu_node_call *call)
{
    return twice_after(call, 1100);
}

int32_t takes_1_ms(const tenon_cpu_node_call *call)
{
    return twice_after(call, 1);
}

int32_t takes_2_ms(const tenon_cpu_node_call *call)
{
    return twice_after(call, 2);
}
