/* Asynchronous requests of version 2: sequence numbers, completion, descriptors, error trackers,
 * full queues. */
#define TENON_NRT_ASYNC_API 2
#include "check.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

static void wait_for(nrta_seq_t sequence) {
    bool done = false;
    while (!done) {
        OK(nrta_is_completed(sequence, &done));
        sched_yield();
    }
}

static nrt_tensor_t *device(int core, size_t size) {
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, size, "t", &tensor));
    return tensor;
}

static void copies(void) {
    nrt_tensor_t *one = device(1, 8), *two = device(1, 8), *far = device(0, 8);
    nrta_seq_t sequences[3], last;
    char found[8];
    OK(nrta_get_sequence(1, NRTA_XU_TENSOR_WRITE, 0, &last));
    CHECK(NRTA_SEQ_GET_SEQ_NUM(last) == 0);
    OK(nrta_tensor_write(one, "abcdefgh", 0, 8, 0, NULL, &sequences[0]));
    wait_for(sequences[0]);
    OK(nrta_tensor_copy(one, 0, two, 4, 4, 1, NULL, &sequences[1]));
    wait_for(sequences[1]);
    OK(nrta_tensor_read(found, two, 4, 4, 0, NULL, &sequences[2]));
    int fd = -1;
    OK(nrta_get_completion_handle(sequences[2], &fd));
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(poll(&polled, 1, 60000) == 1);
    close(fd);
    CHECK(memcmp(found, "abcd", 4) == 0);
    OK(nrta_get_sequence(1, NRTA_XU_TENSOR_WRITE, 0, &last));
    CHECK(last == sequences[0] && NRTA_SEQ_GET_SEQ_NUM(last) == 1);
    CHECK(NRTA_SEQ_GET_XU_ID(sequences[0]) != NRTA_SEQ_GET_XU_ID(sequences[2]));

    bool done;
    IS(NRT_INVALID, nrta_is_completed(last + 1, &done));
    IS(NRT_INVALID, nrta_is_completed(UINT64_MAX, &done));
    IS(NRT_INVALID, nrta_is_completed(last, NULL));
    IS(NRT_INVALID, nrta_get_completion_handle(0, &fd));
    IS(NRT_INVALID, nrta_get_sequence(1, NRTA_XU_NUM, 0, &last));
    IS(NRT_INVALID, nrta_get_sequence(4, NRTA_XU_COMPUTE, 0, &last));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 8, 1, 0, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_write(one, NULL, 0, 1, 0, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_read(found, one, 0, 9, 0, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_copy(one, 0, two, 0, 8, 2, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_copy(one, 0, two, 0, 8, -1, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_copy(one, 0, far, 0, 8, 0, NULL, &last));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, 0, NULL, NULL));
    nrt_tensor_free(&one);
    IS(NRT_INVALID_HANDLE, nrta_tensor_write(one, "x", 0, 1, 0, NULL, &last));
    nrt_tensor_free(&two);
    nrt_tensor_free(&far);
}

static void executions(const char *path) {
    nrt_model_t *model = load_at(path, 2, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_set_t *empty;
    nrta_error_tracker_t *tracker, *other;
    const nrta_error_t *list;
    nrta_seq_t good, bad, last;
    size_t count = 7;
    OK(nrt_allocate_tensor_set(&empty));
    OK(nrta_error_tracker_create(2, &tracker));
    OK(nrta_error_tracker_create(1, &other));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrta_error_tracker_create(4, &other));
    OK(nrta_error_tracker_get_list(tracker, &list, &count));
    CHECK(count == 0);
    OK(nrta_execute_schedule(model, inputs, outputs, 0, tracker, &good));
    OK(nrta_execute_schedule(model, empty, outputs, 0, tracker, &bad));
    IS(NRT_INVALID, nrta_execute_schedule(model, inputs, outputs, 1, tracker, &last));
    IS(NRT_INVALID, nrta_execute_schedule(model, inputs, outputs, 0, other, &last));
    IS(NRT_INVALID_HANDLE, nrta_execute_schedule(model, NULL, outputs, 0, tracker, &last));
    CHECK(bad == good + 1);
    wait_for(bad);
    bool done = false;
    OK(nrta_is_completed(good, &done));
    CHECK(done);
    OK(nrta_error_tracker_get_list(tracker, &list, &count));
    CHECK(count == 1 && list[0].seq_id == bad && list[0].error_code == NRT_INVALID);
    OK(nrt_tensor_check_output_completion(first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT), 0, 1));
    nrta_error_tracker_destroy(tracker);
    nrta_error_tracker_destroy(tracker);
    IS(NRT_INVALID_HANDLE, nrta_error_tracker_get_list(tracker, &list, &count));
    OK(nrt_unload(model));
}

/* Large copies: the queue is full before the first is complete. */
static void full(void) {
    enum { SIZE = 32 << 20 };
    nrt_tensor_t *one = device(3, SIZE), *two = device(3, SIZE);
    nrta_seq_t sequence = 0;
    NRT_STATUS status;
    do {
        status = nrta_tensor_copy(one, 0, two, 0, SIZE, 0, NULL, &sequence);
    } while (status == NRT_SUCCESS && NRTA_SEQ_GET_SEQ_NUM(sequence) < 100);
    CHECK(status == NRT_QUEUE_FULL);
    wait_for(sequence);
    nrt_tensor_free(&one);
    nrt_tensor_free(&two);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    copies();
    executions(argv[1]);
    if (getenv("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS")) full();
    nrt_close();
    return 0;
}
