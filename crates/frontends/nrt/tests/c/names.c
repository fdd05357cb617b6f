/* Prints the names of inputs and outputs, and executes with the names of the model. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc > 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs, *outputs;
    nrt_tensor_info_array_t *infos;
    OK(nrt_allocate_tensor_set(&inputs));
    OK(nrt_allocate_tensor_set(&outputs));
    OK(nrt_get_model_tensor_info(model, &infos));
    CHECK(infos->tensor_count + 2 == (uint64_t)argc);
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        nrt_tensor_set_t *set = info->usage == NRT_TENSOR_USAGE_INPUT ? inputs : outputs;
        nrt_tensor_t *tensor;
        CHECK(memchr(info->name, 0, NRT_TENSOR_NAME_MAX) != NULL);
        puts(info->name);
        OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensor));
        OK(nrt_add_tensor_to_tensor_set(set, argv[i + 2], tensor));
    }
    OK(nrt_free_model_tensor_info(infos));
    OK(nrt_execute(model, inputs, outputs));
    OK(nrt_execute(model, tensors_of(model, NRT_TENSOR_USAGE_INPUT),
                   tensors_of(model, NRT_TENSOR_USAGE_OUTPUT)));
    nrt_close();
    return 0;
}
