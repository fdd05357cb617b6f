/* Asynchronous requests of version 3.0, used as public clients do: a channel for each unit of a
 * core with an eventfd in an epoll instance; statuses that are written before a request is complete;
 * waiting for one request by a separate eventfd.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { CORE = 1, UNWRITTEN = 0x55555555 };

/* A status between guard words. */
typedef struct {
    uint32_t before;
    NRT_STATUS ret;
    uint32_t after[3];
} guarded_t;

static guarded_t guarded(void) {
    guarded_t place;
    memset(&place, 0x55, sizeof place);
    return place;
}

static void check_guards(const guarded_t *place) {
    CHECK(place->before == UNWRITTEN);
    for (int i = 0; i < 3; i++) CHECK(place->after[i] == UNWRITTEN);
}

static int epoll_fd;
static int channels[NRTA_XU_TYPE_NUM];

static void open_channel(nrta_xu_t xu) {
    channels[xu] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(channels[xu] >= 0);
    OK(nrta_event_register_xu_completion(CORE, xu, 0, channels[xu]));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = xu};
    CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, channels[xu], &event) == 0);
}

static void close_channel(nrta_xu_t xu) {
    OK(nrta_event_register_xu_completion(CORE, xu, 0, -1));
    close(channels[xu]);
}

/* Waits until the channel has completed `wait`, then checks its status. */
static void wait_for_channel(nrta_xu_t xu, nrta_seq_t wait, const guarded_t *place, NRT_STATUS status) {
    nrta_seq_t completed = 0;
    while (true) {
        OK(nrta_get_sequence(CORE, xu, 0, &completed));
        if (completed >= wait) break;
        struct epoll_event event;
        CHECK(epoll_wait(epoll_fd, &event, 1, 60000) == 1);
        /* The event may belong to a request of another channel that was already seen complete. */
        uint64_t count = 0;
        CHECK(read(channels[event.data.u32], &count, sizeof count) == sizeof count && count > 0);
    }
    CHECK(place->ret == status);
    check_guards(place);
}

/* Blocks until one request is complete. */
static void wait_for(nrta_seq_t sequence) {
    int fd = eventfd(0, 0);
    uint64_t count = 0;
    OK(nrta_event_register_seq_id_completion(sequence, fd));
    CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1);
    OK(nrta_event_register_seq_id_completion(sequence, -1));
    close(fd);
    bool done = false;
    OK(nrta_is_completed(sequence, &done));
    CHECK(done);
}

static nrt_tensor_t *device(int core, size_t size) {
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, size, "t", &tensor));
    return tensor;
}

static void copies(void) {
    nrt_tensor_t *one = device(CORE, 8), *two = device(CORE, 8), *far = device(0, 8);
    guarded_t rets[3] = {guarded(), guarded(), guarded()};
    nrta_seq_t sequences[3], last = 0;
    char found[8] = {0};
    OK(nrta_get_sequence(CORE, NRTA_XU_TENSOR_OP, 0, &last));
    CHECK(NRTA_SEQ_GET_SEQ_NUM(last) == 0);
    /* Writes, copies and reads use one queue: they are ordered, with consecutive sequence numbers. */
    OK(nrta_tensor_write(one, "abcdefgh", 0, 8, CORE, 0, &rets[0].ret, &sequences[0]));
    OK(nrta_tensor_copy(one, 0, two, 4, 4, CORE, 0, &rets[1].ret, &sequences[1]));
    OK(nrta_tensor_read(found, two, 4, 4, CORE, 0, &rets[2].ret, &sequences[2]));
    CHECK(sequences[1] == sequences[0] + 1 && sequences[2] == sequences[0] + 2);
    wait_for_channel(NRTA_XU_TENSOR_OP, sequences[2], &rets[2], NRT_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(rets[i].ret == NRT_SUCCESS);
        check_guards(&rets[i]);
    }
    CHECK(memcmp(found, "abcd", 4) == 0);
    wait_for(sequences[0]);
    wait_for(sequences[2]);

    /* The caller chooses the core and the second queue; the status pointer may be NULL. */
    nrta_seq_t sequence = 0;
    OK(nrta_tensor_write(one, "z", 7, 1, 0, 1, NULL, &sequence));
    wait_for(sequence);
    OK(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 1, &last));
    CHECK(last == sequence && NRTA_SEQ_GET_SEQ_NUM(last) == 1);
    OK(nrt_tensor_read(one, found, 7, 1));
    CHECK(found[0] == 'z');

    /* A call that fails writes nothing. */
    guarded_t ret = guarded();
    nrta_seq_t untouched = 7;
    NRT_STATUS *bad = (NRT_STATUS *)((char *)&ret.ret + 1);
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 8, 1, CORE, 0, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, NULL, 0, 1, CORE, 0, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, -1, 0, &ret.ret, &untouched));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrta_tensor_write(one, "x", 0, 1, 4, 0, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, CORE, 2, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, CORE, -1, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, CORE, 0, bad, &untouched));
    IS(NRT_INVALID, nrta_tensor_write(one, "x", 0, 1, CORE, 0, &ret.ret, NULL));
    IS(NRT_INVALID, nrta_tensor_read(found, one, 0, 9, CORE, 0, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_tensor_copy(one, 0, far, 0, 8, CORE, 0, &ret.ret, &untouched));
    IS(NRT_INVALID, nrta_get_sequence(CORE, NRTA_XU_TYPE_NUM, 0, &untouched));
    CHECK(ret.ret == (NRT_STATUS)UNWRITTEN && untouched == 7);
    check_guards(&ret);
    nrt_tensor_free(&one);
    nrt_tensor_free(&two);
    nrt_tensor_free(&far);
}

static void executions(const char *path) {
    nrt_model_t *model = load_at(path, CORE, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_set_t *empty;
    OK(nrt_allocate_tensor_set(&empty));
    guarded_t good = guarded(), bad = guarded();
    nrta_seq_t sequences[2];
    OK(nrta_execute_schedule(model, inputs, outputs, 0, &good.ret, &sequences[0]));
    OK(nrta_execute_schedule(model, empty, outputs, 0, &bad.ret, &sequences[1]));
    wait_for_channel(NRTA_XU_COMPUTE, sequences[1], &bad, NRT_INVALID);
    wait_for_channel(NRTA_XU_COMPUTE, sequences[0], &good, NRT_SUCCESS);
    IS(NRT_INVALID, nrta_execute_schedule(model, inputs, outputs, 1, &good.ret, &sequences[0]));
    OK(nrta_execute_schedule(model, inputs, outputs, 0, NULL, &sequences[0]));
    wait_for(sequences[0]);
    nrt_destroy_tensor_set(&empty);
    OK(nrt_unload(model));
}

static void collectives(void) {
    nrt_tensor_t *from = device(CORE, 4), *to = device(CORE, 4);
    uint32_t group = 0;
    nrt_cc_comm_t comm = {&group, 0, 1, 0, 1, CORE};
    nrt_tensor_list_t input = {&from, 1}, output = {&to, 1};
    nrt_cc_context_t *context = NULL;
    guarded_t ret = guarded();
    nrta_seq_t sequence = 0;
    char found[4];
    OK(nrt_tensor_write(from, "abcd", 0, 4));
    OK(nrta_cc_prepare(&comm, &input, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                       &context));
    OK(nrta_cc_schedule(&context, 0, &ret.ret, &sequence));
    wait_for_channel(NRTA_XU_COLLECTIVES, sequence, &ret, NRT_SUCCESS);
    CHECK(context == NULL);
    OK(nrt_tensor_read(to, found, 0, 4));
    CHECK(memcmp(found, "abcd", 4) == 0);
    nrt_tensor_free(&from);
    nrt_tensor_free(&to);
}

static void descriptors(void) {
    nrt_tensor_t *tensor = device(CORE, 8);
    nrta_seq_t sequence = 0;
    int pipes[2], fd = eventfd(0, EFD_NONBLOCK);
    CHECK(pipe(pipes) == 0);
    OK(nrta_tensor_write(tensor, "x", 0, 1, CORE, 0, NULL, &sequence));
    wait_for(sequence);
    IS(NRT_INVALID, nrta_event_register_seq_id_completion(sequence, pipes[1]));
    IS(NRT_INVALID, nrta_event_register_seq_id_completion(sequence, 1000));
    IS(NRT_INVALID, nrta_event_register_seq_id_completion(sequence + 1, fd));
    IS(NRT_INVALID, nrta_event_register_xu_completion(CORE, NRTA_XU_TYPE_NUM, 0, fd));
    IS(NRT_INVALID, nrta_event_register_xu_completion(CORE, NRTA_XU_TENSOR_OP, 2, fd));
    IS(NRT_INVALID, nrta_event_register_xu_completion(-1, NRTA_XU_TENSOR_OP, 0, fd));
    IS(NRT_INVALID, nrta_event_register_xu_completion(9, NRTA_XU_TENSOR_OP, 0, fd));
    /* The descriptor of a closed eventfd is reused: the library does not write to the new file. */
    OK(nrta_event_register_xu_completion(CORE, NRTA_XU_TENSOR_OP, 1, fd));
    CHECK(dup2(pipes[1], fd) == fd);
    OK(nrta_tensor_write(tensor, "x", 0, 1, CORE, 1, NULL, &sequence));
    wait_for(sequence);
    struct pollfd polled = {pipes[0], POLLIN, 0};
    CHECK(poll(&polled, 1, 0) == 0);
    OK(nrta_event_register_xu_completion(CORE, NRTA_XU_TENSOR_OP, 1, -7));
    OK(nrta_event_register_xu_completion(CORE, NRTA_XU_TENSOR_OP, 1, -1));
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
    nrt_tensor_free(&tensor);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    IS(NRT_UNINITIALIZED, nrta_event_register_xu_completion(CORE, NRTA_XU_COMPUTE, 0, -1));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int xu = 0; xu < NRTA_XU_TYPE_NUM; xu++) open_channel((nrta_xu_t)xu);
    copies();
    executions(argv[1]);
    collectives();
    descriptors();
    for (int xu = 0; xu < NRTA_XU_TYPE_NUM; xu++) close_channel((nrta_xu_t)xu);
    close(epoll_fd);
    nrt_close();
    return 0;
}
