/*
 * A backend in C for a device with its own memory that works by itself: Add, Mul and Sigmoid on f32.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I include examples/backend-c/device_backend.c \
 *        -o Example_Device_backend.so -lm -pthread
 *
 * The device is simulated: its memory is that of the process, and a thread for each stream executes
 * the commands. What a driver would provide is between the lines "the device" and "tensors"; the rest
 * shows how a backend offers it to Tenon: tensors in its memory, tensors at addresses that others
 * allocated, streams with events and late errors, constants that lie on the device and count as its
 * memory, parts of a workload with their times, and a stated accuracy.
 */
#define _POSIX_C_SOURCE 200809L
#include <tenon/backend.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FACTORY "ExampleDevice"
#define EVENT_KIND "ExampleEvent"
/* kDLExtDev of DLPack: a device of an extension. */
#define DEVICE_TYPE 12
#define ALIGNMENT 64

/* ---------------------------------------------------------------------------------- failures -- */

/* Failures without memory to release can be constants. */
#define FAILURE(STATUS, TEXT) {.size = sizeof(tenon_failure), .status = (STATUS), .text = {TEXT, sizeof(TEXT) - 1}}

static const tenon_failure out_of_memory = FAILURE(TENON_STATUS_OUT_OF_MEMORY, "out of memory of the device");
static const tenon_failure wrong_operands =
    FAILURE(TENON_STATUS_INVALID, "operands of the wrong number or size");
static const tenon_failure wrong_length =
    FAILURE(TENON_STATUS_INVALID, "the number of bytes is not that of the tensor");
static const tenon_failure wrong_memory =
    FAILURE(TENON_STATUS_INVALID, "only memory of ExampleDevice can be imported, of the tensor's size");
static const tenon_failure wrong_factory =
    FAILURE(TENON_STATUS_INVALID, "the only tensor memory is ExampleDevice, for f32");
static const tenon_failure no_thread =
    FAILURE(TENON_STATUS_FAILED, "the system does not start a thread for a stream");
static const tenon_failure not_timed =
    FAILURE(TENON_STATUS_INVALID, "the workload was not timed on this stream");
static const tenon_failure stopped = FAILURE(TENON_STATUS_STOPPED, "stopped");
static const tenon_failure unequal_shapes =
    FAILURE(TENON_STATUS_UNSUPPORTED, "no kernel for unequal shapes");
static const tenon_failure unknown_operator = {
    .size = sizeof(tenon_failure),
    .status = TENON_STATUS_UNSUPPORTED,
    .reason = TENON_REASON_UNKNOWN_OPERATOR,
};

static void release_failure(const tenon_failure *failure)
{
    free((void *)failure);
}

static const tenon_failure *failure_like(tenon_failure failure)
{
    tenon_failure *made = malloc(sizeof *made);
    if (!made)
        return &out_of_memory;
    *made = failure;
    made->release = release_failure;
    return made;
}

/* -------------------------------------------------------------------------------- the device -- */

/* A point in the commands of a stream. Held by the host's event, and by commands that refer to it. */
typedef struct event_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int holders;
    int reached;
} event_state;

static event_state *new_event(void)
{
    event_state *state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->changed, NULL);
    state->holders = 1;
    return state;
}

static void hold_event(event_state *state)
{
    pthread_mutex_lock(&state->lock);
    state->holders++;
    pthread_mutex_unlock(&state->lock);
}

static void drop_event(event_state *state)
{
    pthread_mutex_lock(&state->lock);
    int last = --state->holders == 0;
    pthread_mutex_unlock(&state->lock);
    if (!last)
        return;
    pthread_cond_destroy(&state->changed);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static void reach_event(event_state *state)
{
    pthread_mutex_lock(&state->lock);
    state->reached = 1;
    pthread_cond_broadcast(&state->changed);
    pthread_mutex_unlock(&state->lock);
}

static void wait_for_event(event_state *state)
{
    pthread_mutex_lock(&state->lock);
    while (!state->reached)
        pthread_cond_wait(&state->changed, &state->lock);
    pthread_mutex_unlock(&state->lock);
}

typedef enum { ADD, MUL, SIGMOID, UNKNOWN } operation;

/* The parts of Sigmoid; the other operators have none. */
enum { EXPONENTIAL, RECIPROCAL, PARTS };

/* The times of a workload's parts in its last timed execution on a stream. */
typedef struct timing {
    const void *workload;
    uint64_t nanoseconds[PARTS];
    struct timing *next;
} timing;

typedef enum { KERNEL, COPY, RECORD, WAIT } command_kind;

typedef struct command {
    command_kind kind;
    operation operation;
    const void *from[2]; /* COPY has one */
    void *to;
    size_t length;   /* in bytes */
    size_t expected; /* what the operands of a kernel should have, in bytes */
    timing *times;
    event_state *event;
    struct command *next;
} command;

/* A stream: a queue of commands, and the thread that executes them. */
typedef struct device_stream {
    tenon_stream table;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    command *first, *last;
    int is_busy;   /* a command is executed */
    int is_closed; /* the thread ends */
    int64_t ended; /* commands since the last finish */
    int64_t failed; /* the first that failed, or -1 */
    const tenon_failure *failure;
    timing *timings;
} device_stream;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void run_kernel(const command *command)
{
    const float *a = command->from[0], *b = command->from[1];
    float *y = command->to;
    size_t count = command->length / sizeof *y;
    uint64_t start = now();
    switch (command->operation) {
    case ADD:
        for (size_t i = 0; i < count; i++)
            y[i] = a[i] + b[i];
        break;
    case MUL:
        for (size_t i = 0; i < count; i++)
            y[i] = a[i] * b[i];
        break;
    default:
        for (size_t i = 0; i < count; i++)
            y[i] = expf(-a[i]);
        uint64_t middle = now();
        for (size_t i = 0; i < count; i++)
            y[i] = 1 / (1 + y[i]);
        if (command->times) {
            command->times->nanoseconds[EXPONENTIAL] = middle - start;
            command->times->nanoseconds[RECIPROCAL] = now() - middle;
        }
    }
}

static const tenon_failure *run(const command *command)
{
    switch (command->kind) {
    case KERNEL:
        /* What a device finds wrong it reports late: the failure is that of finish. */
        if (command->length != command->expected)
            return &wrong_operands;
        run_kernel(command);
        return NULL;
    case COPY:
        if (command->length)
            memcpy(command->to, command->from[0], command->length);
        return NULL;
    case RECORD:
        reach_event(command->event);
        return NULL;
    default:
        wait_for_event(command->event);
        return NULL;
    }
}

static void release_command(command *command)
{
    if (command->event) {
        /* No stream waits for an event that was discarded. */
        if (command->kind == RECORD)
            reach_event(command->event);
        drop_event(command->event);
    }
    free(command);
}

/* Discards the commands that have not begun. The lock is held. */
static void discard(device_stream *stream)
{
    while (stream->first) {
        command *command = stream->first;
        stream->first = command->next;
        release_command(command);
    }
    stream->last = NULL;
}

static void *thread_of_stream(void *argument)
{
    device_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->is_closed)
            pthread_cond_wait(&stream->changed, &stream->lock);
        command *command = stream->first;
        if (!command)
            break;
        stream->first = command->next;
        if (!stream->first)
            stream->last = NULL;
        stream->is_busy = 1;
        pthread_mutex_unlock(&stream->lock);
        const tenon_failure *failure = run(command);
        release_command(command);
        pthread_mutex_lock(&stream->lock);
        stream->is_busy = 0;
        if (failure && !stream->failure) {
            stream->failure = failure;
            stream->failed = stream->ended;
            discard(stream);
        }
        stream->ended++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* Copies the command into the queue, which takes its event over. */
static const tenon_failure *enqueue(device_stream *stream, command command)
{
    struct command *made = malloc(sizeof *made);
    if (!made) {
        if (command.event)
            drop_event(command.event);
        return &out_of_memory;
    }
    *made = command;
    pthread_mutex_lock(&stream->lock);
    if (stream->failure) {
        /* Commands after one that failed are discarded. */
        release_command(made);
    } else {
        if (stream->last)
            stream->last->next = made;
        else
            stream->first = made;
        stream->last = made;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* ----------------------------------------------------------------------------------- streams -- */

static device_stream *stream_of(const tenon_stream *table)
{
    return (device_stream *)table;
}

static const tenon_failure *finish(const tenon_stream *table, const tenon_control *control)
{
    device_stream *stream = stream_of(table);
    int is_stopped = 0;
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->is_busy) {
        if (control && !is_stopped && control->is_stopped(control)) {
            is_stopped = 1;
            discard(stream);
            continue;
        }
        if (control && !is_stopped) {
            /* Looks at the control again after a millisecond. */
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 1000000;
            if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
            }
            pthread_cond_timedwait(&stream->changed, &stream->lock, &until);
        } else {
            pthread_cond_wait(&stream->changed, &stream->lock);
        }
    }
    const tenon_failure *failure = stream->failure;
    int64_t failed = stream->failed;
    stream->failure = NULL;
    stream->failed = -1;
    stream->ended = 0;
    pthread_mutex_unlock(&stream->lock);
    if (failure) {
        tenon_failure late = *failure;
        late.index = failed;
        return failure_like(late);
    }
    return is_stopped ? &stopped : NULL;
}

typedef struct device_event {
    tenon_event table;
    event_state *state;
} device_event;

static void release_event(const tenon_event *table)
{
    device_event *event = (device_event *)table;
    drop_event(event->state);
    free(event);
}

static const tenon_failure *record(const tenon_stream *stream, const tenon_event **made)
{
    device_event *event = malloc(sizeof *event);
    event_state *state = event ? new_event() : NULL;
    if (!state) {
        free(event);
        return &out_of_memory;
    }
    *event = (device_event){
        .table = {.size = sizeof event->table, .object = state, .release = release_event},
        .state = state,
    };
    hold_event(state);
    const tenon_failure *failure =
        enqueue(stream_of(stream), (command){.kind = RECORD, .event = state});
    if (failure) {
        release_event(&event->table);
        return failure;
    }
    *made = &event->table;
    return NULL;
}

static const tenon_failure *wait_for(const tenon_stream *stream, const tenon_event *event)
{
    hold_event(event->object);
    return enqueue(stream_of(stream), (command){.kind = WAIT, .event = event->object});
}

static void release_stream(const tenon_stream *table)
{
    device_stream *stream = stream_of(table);
    pthread_mutex_lock(&stream->lock);
    discard(stream);
    stream->is_closed = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    while (stream->timings) {
        timing *timing = stream->timings;
        stream->timings = timing->next;
        free(timing);
    }
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static const tenon_failure *new_stream(const tenon_backend *backend,
                                       const tenon_memory_manager *memory, const tenon_stream **made)
{
    (void)backend, (void)memory;
    device_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return &out_of_memory;
    stream->table = (tenon_stream){
        .size = sizeof stream->table,
        .finish = finish,
        .event_kind = TENON_TEXT(EVENT_KIND),
        .record = record,
        .wait = wait_for,
        .release = release_stream,
    };
    stream->failed = -1;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    if (pthread_create(&stream->thread, NULL, thread_of_stream, stream)) {
        pthread_cond_destroy(&stream->changed);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
        return &no_thread;
    }
    *made = &stream->table;
    return NULL;
}

/* Executes one command to its end. */
static const tenon_failure *run_now(command command)
{
    return run(&command);
}

/* ----------------------------------------------------------------------------------- tensors -- */

static void *allocate(size_t length)
{
    size_t rounded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < length)
        return NULL;
    return aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
}

typedef struct device_tensor {
    tenon_tensor_handle table;
    void *start;
    size_t length;
    int is_owned; /* else the memory is imported by its address */
} device_tensor;

static const device_tensor *tensor_of(const tenon_tensor_handle *table)
{
    return (const device_tensor *)table;
}

static command copy_to(const device_tensor *tensor, const void *bytes)
{
    return (command){.kind = COPY, .from = {bytes}, .to = tensor->start, .length = tensor->length};
}

static command copy_from(const device_tensor *tensor, void *bytes)
{
    return (command){.kind = COPY, .from = {tensor->start}, .to = bytes, .length = tensor->length};
}

static const tenon_failure *copy_in(const tenon_tensor_handle *handle, const void *bytes,
                                    size_t length)
{
    const device_tensor *tensor = tensor_of(handle);
    return length == tensor->length ? run_now(copy_to(tensor, bytes)) : &wrong_length;
}

static const tenon_failure *copy_out(const tenon_tensor_handle *handle, void *bytes, size_t length)
{
    const device_tensor *tensor = tensor_of(handle);
    return length == tensor->length ? run_now(copy_from(tensor, bytes)) : &wrong_length;
}

static const tenon_failure *enqueue_in(const tenon_tensor_handle *handle, const tenon_stream *stream,
                                       const void *bytes, size_t length)
{
    const device_tensor *tensor = tensor_of(handle);
    return length == tensor->length ? enqueue(stream_of(stream), copy_to(tensor, bytes)) : &wrong_length;
}

static const tenon_failure *enqueue_out(const tenon_tensor_handle *handle,
                                        const tenon_stream *stream, void *bytes, size_t length)
{
    const device_tensor *tensor = tensor_of(handle);
    return length == tensor->length ? enqueue(stream_of(stream), copy_from(tensor, bytes))
                                    : &wrong_length;
}

static void *start_of(const tenon_tensor_handle *handle)
{
    return tensor_of(handle)->start;
}

static void release_tensor(const tenon_tensor_handle *handle)
{
    device_tensor *tensor = (device_tensor *)handle;
    if (tensor->is_owned)
        free(tensor->start);
    free(tensor);
}

/* The bytes of an f32 tensor, or 0 if they exceed a size_t; a tensor without elements has none. */
static size_t bytes_of(const tenon_tensor *type)
{
    size_t bytes = sizeof(float);
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        if (type->extents[axis] && bytes > SIZE_MAX / type->extents[axis])
            return 0;
        bytes *= (size_t)type->extents[axis];
    }
    return bytes;
}

static const tenon_failure *make_tensor(void *start, size_t length, int is_owned,
                                        const tenon_tensor_handle **made)
{
    device_tensor *tensor = malloc(sizeof *tensor);
    if (!tensor) {
        if (is_owned)
            free(start);
        return &out_of_memory;
    }
    *tensor = (device_tensor){
        .table = {.size = sizeof tensor->table,
                  .copy_in = copy_in,
                  .copy_out = copy_out,
                  .start = start_of,
                  .release = release_tensor,
                  .enqueue_in = enqueue_in,
                  .enqueue_out = enqueue_out},
        .start = start,
        .length = length,
        .is_owned = is_owned,
    };
    *made = &tensor->table;
    return NULL;
}

static int equals(tenon_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

static const tenon_failure *tensor_handle(const tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type, const tenon_tensor_handle **made)
{
    (void)backend;
    if (!equals(factory, FACTORY) || type->dtype != TENON_TYPE_F32)
        return &wrong_factory;
    size_t length = bytes_of(type);
    void *start = allocate(length);
    return start ? make_tensor(start, length, 1, made) : &out_of_memory;
}

static const tenon_failure *import_memory(const tenon_backend *backend, tenon_text factory,
                                          const tenon_tensor *type,
                                          const tenon_imported_memory *memory,
                                          const tenon_tensor_handle **made)
{
    (void)backend;
    if (!equals(factory, FACTORY) || type->dtype != TENON_TYPE_F32)
        return &wrong_factory;
    if (memory->source != TENON_MEMORY_DEVICE || memory->length != bytes_of(type))
        return &wrong_memory;
    return make_tensor(memory->start, memory->length, 0, made);
}

/* -------------------------------------------------------------------------------- operators -- */

static operation operation_of(const tenon_node *node)
{
    if (equals(node->op, "Add"))
        return ADD;
    if (equals(node->op, "Mul"))
        return MUL;
    return equals(node->op, "Sigmoid") ? SIGMOID : UNKNOWN;
}

static size_t input_count(operation operation)
{
    return operation == SIGMOID ? 1 : 2;
}

static const tenon_failure *supports(const tenon_backend *backend, const tenon_node *node)
{
    (void)backend;
    operation operation = operation_of(node);
    if (operation == UNKNOWN)
        return &unknown_operator;
    if (node->input_count != input_count(operation) || node->output_count != 1 || !node->outputs[0])
        return &wrong_operands;
    const tenon_tensor *output = node->outputs[0];
    for (size_t i = 0; i < node->input_count; i++) {
        const tenon_tensor *input = node->inputs[i];
        if (!input)
            return &wrong_operands;
        if (input->dtype != TENON_TYPE_F32)
            return failure_like((tenon_failure){.size = sizeof(tenon_failure),
                                                .status = TENON_STATUS_UNSUPPORTED,
                                                .reason = TENON_REASON_INPUT_TYPE,
                                                .index = (int64_t)i,
                                                .found = input->dtype});
        if (input->rank != output->rank ||
            (input->rank && memcmp(input->extents, output->extents, input->rank * sizeof *input->extents)))
            return &unequal_shapes;
    }
    return NULL;
}

/* The constants of a node lie on the device as long as its workload exists. */
static uint64_t constant_bytes(const tenon_node *node)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] && node->inputs[i]->data.start)
            bytes += node->inputs[i]->data.length;
    return bytes;
}

static const tenon_in_place in_place_of_the_first = {0, 0};

static void release_plan(const tenon_plan *plan)
{
    free((void *)plan);
}

static const tenon_failure *plan(const tenon_backend *backend, const tenon_node *node, int32_t cpu,
                                 const tenon_plan **made)
{
    (void)backend, (void)cpu;
    tenon_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return &out_of_memory;
    *plan = (tenon_plan){
        .size = sizeof *plan,
        .in_place_count = 1,
        .in_place = &in_place_of_the_first,
        .release = release_plan,
        .device_bytes = constant_bytes(node),
    };
    *made = plan;
    return NULL;
}

typedef struct device_workload {
    tenon_workload table;
    operation operation;
    size_t length;      /* of each operand, in bytes */
    void *constants[2]; /* on the device, or NULL */
} device_workload;

static const tenon_part part_list[PARTS] = {
    [EXPONENTIAL] = {.size = sizeof(tenon_part), .name = {"exponential", 11}},
    [RECIPROCAL] = {.size = sizeof(tenon_part), .name = {"reciprocal", 10}},
};
static const tenon_part *const parts[PARTS] = {&part_list[0], &part_list[1]};

/* The times of a workload on a stream; the lock is not needed, as one thread uses the stream. */
static timing *timing_of(device_stream *stream, const void *workload)
{
    for (timing *timing = stream->timings; timing; timing = timing->next)
        if (timing->workload == workload)
            return timing;
    return NULL;
}

static const tenon_failure *execute(const tenon_workload *table, const tenon_operands *operands)
{
    const device_workload *workload = (const device_workload *)table;
    if (operands->input_count != input_count(workload->operation) || operands->output_count != 1)
        return &wrong_operands;
    command command = {
        .kind = KERNEL,
        .operation = workload->operation,
        .to = operands->outputs[0].start,
        .length = operands->outputs[0].length,
        .expected = workload->length,
    };
    for (size_t i = 0; i < operands->input_count; i++)
        command.from[i] = workload->constants[i] ? workload->constants[i] : operands->inputs[i].start;
    if (!operands->stream)
        return run_now(command);
    device_stream *stream = stream_of(operands->stream);
    if (operands->timed && workload->table.part_count) {
        command.times = timing_of(stream, workload);
        if (!command.times) {
            command.times = calloc(1, sizeof *command.times);
            if (!command.times)
                return &out_of_memory;
            command.times->workload = workload;
            command.times->next = stream->timings;
            stream->timings = command.times;
        }
    }
    return enqueue(stream, command);
}

static const tenon_failure *part_times(const tenon_workload *workload, const tenon_stream *stream,
                                       uint64_t *nanoseconds)
{
    const timing *timing = stream ? timing_of(stream_of(stream), workload) : NULL;
    if (!timing)
        return &not_timed;
    memcpy(nanoseconds, timing->nanoseconds, sizeof timing->nanoseconds);
    return NULL;
}

/* A constant is read from the device. */
static int32_t reads(const tenon_workload *table, uint32_t input)
{
    const device_workload *workload = (const device_workload *)table;
    return input >= 2 || !workload->constants[input];
}

static void release_workload(const tenon_workload *table)
{
    device_workload *workload = (device_workload *)table;
    free(workload->constants[0]);
    free(workload->constants[1]);
    free(workload);
}

static const tenon_failure *make_workload(const tenon_backend *backend, const tenon_node *node,
                                          const tenon_memory_manager *memory,
                                          const tenon_workload **made)
{
    (void)memory;
    const tenon_failure *refusal = supports(backend, node);
    if (refusal)
        return refusal;
    device_workload *workload = calloc(1, sizeof *workload);
    if (!workload)
        return &out_of_memory;
    *workload = (device_workload){
        .table = {.size = sizeof workload->table,
                  .execute = execute,
                  .reads = reads,
                  .release = release_workload},
        .operation = operation_of(node),
        .length = bytes_of(node->outputs[0]),
    };
    if (workload->operation == SIGMOID) {
        workload->table.part_count = PARTS;
        workload->table.parts = parts;
        workload->table.part_times = part_times;
    }
    for (size_t i = 0; i < node->input_count; i++) {
        const tenon_bytes data = node->inputs[i]->data;
        if (!data.start || data.length != workload->length || data.length == 0)
            continue;
        workload->constants[i] = allocate(data.length);
        if (!workload->constants[i]) {
            release_workload(&workload->table);
            return &out_of_memory;
        }
        memcpy(workload->constants[i], data.start, data.length);
    }
    *made = &workload->table;
    return NULL;
}

/* ------------------------------------------------------------------------------- the backend -- */

static const tenon_handle_factory factory = {
    .size = sizeof factory,
    .name = {FACTORY, sizeof FACTORY - 1},
    .import_sources = TENON_MEMORY_DEVICE,
    .export_sources = TENON_MEMORY_DEVICE,
    .map = 1, /* by copies */
    .device_type = DEVICE_TYPE,
};
static const tenon_handle_factory *const factories[] = {&factory};

/* More accurate than is usual: each result is rounded a few times. */
static const tenon_tolerance tolerance = {
    .size = sizeof tolerance, .dtype = TENON_TYPE_F32, .relative = 1e-6, .absolute = 1e-6};
static const tenon_tolerance *const tolerances[] = {&tolerance};

static const tenon_backend the_backend = {
    .size = sizeof the_backend,
    .description = {"a device with its own memory, in C", 34},
    .handle_factory_count = 1,
    .handle_factories = factories,
    .supports = supports,
    .plan = plan,
    .workload = make_workload,
    .tensor_handle = tensor_handle,
    .stream = new_stream,
    .tolerance_count = 1,
    .tolerances = tolerances,
    .target = {"example", 7},
    .import_memory = import_memory,
};

const char *GetBackendId(void)
{
    return "ExampleDevice";
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
