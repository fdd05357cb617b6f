/* Casts floats at a quarter of the distance between two bf16 values; prints how many round up. */
#include "check.h"

enum { COUNT = 4096 };

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static float values[COUNT];
    static uint16_t rounded[COUNT];
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *input = first_of(model, inputs, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    /* 1 is 0x3F80 as bf16, the next number is larger by 1/128. */
    for (int i = 0; i < COUNT; i++) values[i] = 1 + 1.0f / 512;
    OK(nrt_tensor_write(input, values, 0, sizeof values));
    for (int time = 0; time < 2; time++) {
        int up = 0;
        OK(nrt_execute(model, inputs, outputs));
        OK(nrt_tensor_read(output, rounded, 0, sizeof rounded));
        for (int i = 0; i < COUNT; i++) {
            CHECK(rounded[i] == 0x3F80 || rounded[i] == 0x3F81);
            up += rounded[i] == 0x3F81;
        }
        printf("%d ", up);
    }
    nrt_close();
    return 0;
}
