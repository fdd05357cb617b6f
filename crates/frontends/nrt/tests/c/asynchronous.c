/* Executions queued by nrt_execute, and the callback at their end. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int completions[2];
static atomic_int core, model_id;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void ended(void *params, uint32_t model, uint32_t vnc, uint64_t job, NRT_STATUS status) {
    CHECK(params == &gate && job > 0);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    atomic_store(&core, (int)vnc);
    atomic_store(&model_id, (int)model);
    atomic_fetch_add(&completions[status == NRT_SUCCESS ? 0 : 1], 1);
    CHECK(status == NRT_SUCCESS || status == NRT_INVALID);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    IS(NRT_UNINITIALIZED, nrt_register_async_exec_callback(ended, &gate));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_register_async_exec_callback(NULL, NULL));
    OK(nrt_register_async_exec_callback(ended, &gate));
    nrt_model_t *model = load_at(argv[1], 1, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_set_t *empty;
    OK(nrt_allocate_tensor_set(&empty));
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);

    /* The callback of the first execution blocks, so that it stays in flight: three are. */
    pthread_mutex_lock(&gate);
    OK(nrt_execute(model, inputs, outputs));
    OK(nrt_execute(model, empty, outputs));
    OK(nrt_execute_repeat(model, inputs, outputs, 1));
    IS(NRT_QUEUE_FULL, nrt_execute(model, inputs, outputs));
    pthread_mutex_unlock(&gate);
    OK(nrt_async_drain_queued_execs(1));
    CHECK(completions[0] == 2 && completions[1] == 1 && core == 1 && model_id > 0);
    OK(nrt_tensor_check_output_completion(output, -1, 2));
    OK(nrt_async_drain_queued_execs(0));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_async_drain_queued_execs(4));
    IS(NRT_INVALID, nrt_async_drain_queued_execs(-1));
    OK(nrt_execute(model, inputs, outputs));
    nrt_close();
    CHECK(completions[0] == 3);
    return 0;
}
