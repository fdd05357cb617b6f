/* Executes a package with all input bytes equal, and checks the status: PACKAGE BYTE STATUS. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 4);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_info_array_t *infos;
    OK(nrt_get_model_tensor_info(model, &infos));
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_t *tensor;
        if (infos->tensor_array[i].usage != NRT_TENSOR_USAGE_INPUT) continue;
        OK(nrt_get_tensor_from_tensor_set(inputs, infos->tensor_array[i].name, &tensor));
        OK(nrt_tensor_memset(tensor, 0, atoi(argv[2]), infos->tensor_array[i].size));
    }
    OK(nrt_free_model_tensor_info(infos));
    IS((NRT_STATUS)atoi(argv[3]), nrt_execute(model, inputs, outputs));
    nrt_close();
    return 0;
}
