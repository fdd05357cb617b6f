/* A model with one long kernel and a time limit of one second: executions end soon after it with
 * NRT_TIMEOUT, in the caller's thread and in a queue. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sched.h>
#include <time.h>

/* PATIENCE is far below the time of the kernel, and far above the limit. */
enum { LIMIT = 1, PATIENCE = 6 };

static double now(void) {
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void took(double since) {
    double seconds = now() - since;
    if (seconds < LIMIT * 0.9 || seconds > PATIENCE) {
        fprintf(stderr, "it took %.2f s\n", seconds);
        exit(1);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    double begun = now();
    IS(NRT_TIMEOUT, nrt_execute(model, inputs, outputs));
    took(begun);
    IS(NRT_TIMEOUT, nrt_tensor_check_output_completion(output, 0, 1));

    NRT_STATUS ret = NRT_SUCCESS;
    nrta_seq_t sequence = 0;
    bool done = false;
    begun = now();
    OK(nrta_execute_schedule(model, inputs, outputs, 0, &ret, &sequence));
    while (!done) {
        OK(nrta_is_completed(sequence, &done));
        sched_yield();
    }
    took(begun);
    CHECK(ret == NRT_TIMEOUT);
    OK(nrt_unload(model));
    nrt_close();
    return 0;
}
