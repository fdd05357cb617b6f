/* Executes a netlist's package twice on the bytes of a file: PACKAGE INPUT OUTPUT. Each execution
 * starts with empty queues, so both have equal outputs. */
#include "check.h"

static void *all_of(nrt_tensor_t *tensor, size_t *size) {
    *size = nrt_tensor_get_size(tensor);
    void *bytes = malloc(*size);
    CHECK(bytes != NULL);
    OK(nrt_tensor_read(tensor, bytes, 0, *size));
    return bytes;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], 0, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *input = first_of(model, inputs, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    size_t input_size, size, second_size;
    void *bytes = file_bytes(argv[2], &input_size);
    CHECK(input_size == nrt_tensor_get_size(input));
    OK(nrt_tensor_write(input, bytes, 0, input_size));
    free(bytes);
    OK(nrt_execute(model, inputs, outputs));
    void *first = all_of(output, &size);
    OK(nrt_execute(model, inputs, outputs));
    void *second = all_of(output, &second_size);
    CHECK(size == second_size && memcmp(first, second, size) == 0);
    FILE *file = fopen(argv[3], "wb");
    CHECK(file != NULL && fwrite(first, 1, size, file) == size && fclose(file) == 0);
    free(first);
    free(second);
    nrt_destroy_tensor_set(&inputs);
    nrt_destroy_tensor_set(&outputs);
    OK(nrt_unload(model));
    nrt_close();
    return 0;
}
