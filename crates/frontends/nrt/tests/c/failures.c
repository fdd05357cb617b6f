/* Consecutive executions; the arguments are pairs of an input value and the expected status. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc >= 4 && argc % 2 == 0);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *input = first_of(model, inputs, NRT_TENSOR_USAGE_INPUT);
    for (int i = 2; i < argc; i += 2) {
        float number = (float)atof(argv[i]);
        for (size_t at = 0; at < nrt_tensor_get_size(input); at += sizeof number) {
            OK(nrt_tensor_write(input, &number, at, sizeof number));
        }
        IS((NRT_STATUS)atoi(argv[i + 1]), nrt_execute(model, inputs, outputs));
    }
    nrt_close();
    return 0;
}
