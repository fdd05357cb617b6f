/* Collective operations of one worker, and errors of a larger world. */
#include "check.h"

#include <sched.h>

static nrt_tensor_t *two_floats(float first, int core) {
    float values[2] = {first, first + 1};
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, sizeof values, "n", &tensor));
    OK(nrt_tensor_write(tensor, values, 0, sizeof values));
    return tensor;
}

int main(void) {
    uint32_t group[1] = {0};
    float found[2];
    IS(NRT_UNINITIALIZED, nrt_build_global_comm(0, 0, 1));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_build_global_comm(-1, 0, 1));
    OK(nrt_build_global_comm(3, 0, 1));
    IS(NRT_INVALID, nrt_build_global_comm(0, 0, 2));
    IS(NRT_INVALID, nrt_build_global_comm(0, 1, 1));
    IS(NRT_INVALID, nrt_build_global_comm(0, 0, 0));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_build_global_comm(4, 0, 1));
    OK(nrt_cc_global_comm_init(0, 0, 1));
    IS(NRT_INVALID, nrt_cc_global_comm_init(0, 1, 4));
    OK(nrt_barrier(0, 0, 1));
    IS(NRT_INVALID, nrt_barrier(0, 0, 8));
    char from[4] = "abc", to[4] = "";
    OK(nrt_all_gather(0, 0, 1, 4, from, to));
    CHECK(strcmp(to, "abc") == 0);
    OK(nrt_all_gather(0, 0, 1, 4, from, from));
    IS(NRT_INVALID, nrt_all_gather(0, 0, 2, 4, from, to));
    IS(NRT_INVALID, nrt_all_gather(0, 0, 1, 4, NULL, to));

    nrt_tensor_t *in[2] = {two_floats(1, 2), two_floats(5, 2)}, *out[2] = {two_floats(0, 2), two_floats(0, 2)};
    nrt_tensor_list_t inputs = {in, 2}, outputs = {out, 2};
    nrt_cc_comm_t comm = {group, 0, 1, 0, 1, 2};
    nrt_cc_context_t *context = NULL;
    nrta_seq_t sequence;
    const nrt_cc_op_type_t all[] = {NRT_CC_ALLGATHER, NRT_CC_ALLREDUCE, NRT_CC_REDUCESCATTER};
    for (int i = 0; i < 3; i++) {
        bool done = false;
        OK(nrt_tensor_memset(out[1], 0, 0, 8));
        OK(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, all[i], &context));
        IS(NRT_INVALID, nrta_cc_schedule(&context, 1, NULL, &sequence));
        OK(nrta_cc_schedule(&context, 0, NULL, &sequence));
        CHECK(context == NULL);
        while (!done) {
            OK(nrta_is_completed(sequence, &done));
            sched_yield();
        }
        OK(nrt_tensor_read(out[1], found, 0, 8));
        CHECK(found[0] == 5 && found[1] == 6);
    }
    IS(NRT_INVALID_HANDLE, nrta_cc_schedule(&context, 0, NULL, &sequence));
    IS(NRT_INVALID, nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_UNKNOWN, NRT_OP_ADD,
                                    NRT_CC_ALLREDUCE, &context));
    IS(NRT_INVALID, nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_INVALID,
                                    NRT_CC_ALLREDUCE, &context));
    outputs.num_tensors = 1;
    IS(NRT_INVALID, nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                                    NRT_CC_ALLREDUCE, &context));
    comm.rank_n = 2;
    IS(NRT_INVALID, nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                                    NRT_CC_ALLREDUCE, &context));
    int error = 0;
    char text[16];
    memset(text, 'x', sizeof text);
    CHECK(nrt_get_libnccl_net(&error, text, sizeof text) == NULL);
    CHECK(error != 0 && text[15] == 0 && strncmp(text, "there is no", 11) == 0);
    CHECK(nrt_get_libnccl_net(NULL, NULL, 0) == NULL);
    nrt_close();
    return 0;
}
