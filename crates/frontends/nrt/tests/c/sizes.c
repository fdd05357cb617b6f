/* Models with symbolic sizes: sizes PACKAGE FOLDER LOAD EXECUTE COUNT: expected statuses, executions.
 * Reads FOLDER/NAME.bin of each input, prints infos and shapes of outputs, writes FOLDER/NAME.out. */
#include "check.h"

#include <tenon/nrt.h>

static const char *folder;

static void path_of(char *path, const char *name, const char *suffix) {
    CHECK(snprintf(path, 4096, "%s/%s.%s", folder, name, suffix) < 4096);
}

/* A tensor of the largest size, filled with 0xAA. */
static nrt_tensor_t *largest(const nrt_tensor_info_t *info) {
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensor));
    OK(nrt_tensor_memset(tensor, 0, 0xAA, info->size));
    return tensor;
}

static void shapes_are_checked(nrt_model_t *model, nrt_tensor_set_t *inputs, const char *output,
                               uint32_t rank) {
    uint32_t shape[8], ndim = rank - 1;
    IS(NRT_INVALID, tenon_nrt_get_output_shape(model, inputs, output, shape, &ndim));
    CHECK(ndim == rank);
    IS(NRT_INVALID, tenon_nrt_get_output_shape(model, inputs, output, NULL, &ndim));
    IS(NRT_INVALID, tenon_nrt_get_output_shape(model, inputs, output, shape, NULL));
    IS(NRT_INVALID, tenon_nrt_get_output_shape(model, inputs, NULL, shape, &ndim));
    IS(NRT_INVALID, tenon_nrt_get_output_shape(model, inputs, "no output", shape, &ndim));
    IS(NRT_INVALID_HANDLE, tenon_nrt_get_output_shape(NULL, inputs, output, shape, &ndim));
    IS(NRT_INVALID_HANDLE, tenon_nrt_get_output_shape(model, NULL, output, shape, &ndim));
}

/* A tensor that is a byte too short for the output. */
static void small_outputs_are_refused(nrt_model_t *model, nrt_tensor_set_t *inputs,
                                      nrt_tensor_set_t *outputs, nrt_tensor_t *tensor,
                                      const char *name, size_t bytes) {
    nrt_tensor_t *small;
    OK(nrt_tensor_allocate_slice(tensor, 0, bytes - 1, "small", &small));
    OK(nrt_add_tensor_to_tensor_set(outputs, name, small));
    IS(NRT_INVALID, nrt_execute(model, inputs, outputs));
    OK(nrt_add_tensor_to_tensor_set(outputs, name, tensor));
    nrt_tensor_free(&small);
}

int main(int argc, char **argv) {
    CHECK(argc == 6);
    folder = argv[2];
    NRT_STATUS loaded = (NRT_STATUS)atoi(argv[3]), executed = (NRT_STATUS)atoi(argv[4]);
    int count = atoi(argv[5]);
    nrt_model_t *model = NULL;
    nrt_tensor_info_array_t *infos;
    nrt_tensor_set_t *inputs, *outputs;
    nrt_tensor_t *tensors[16], *slices[16] = {NULL};
    char path[4096];
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    IS(loaded, tenon_nrt_load_file(argv[1], -1, -1, &model));
    if (loaded != NRT_SUCCESS) return 0;
    OK(nrt_get_model_tensor_info(model, &infos));
    OK(nrt_allocate_tensor_set(&inputs));
    OK(nrt_allocate_tensor_set(&outputs));
    CHECK(infos->tensor_count <= 16);
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        printf("largest %s %zu:", info->name, info->size);
        for (uint32_t k = 0; k < info->ndim; k++) printf(" %u", info->shape[k]);
        printf("\n");
        tensors[i] = largest(info);
        if (info->usage == NRT_TENSOR_USAGE_OUTPUT) {
            OK(nrt_add_tensor_to_tensor_set(outputs, info->name, tensors[i]));
            continue;
        }
        size_t size;
        path_of(path, info->name, "bin");
        void *bytes = file_bytes(path, &size);
        OK(nrt_tensor_allocate_slice(tensors[i], 0, size, info->name, &slices[i]));
        OK(nrt_tensor_write(slices[i], bytes, 0, size));
        OK(nrt_add_tensor_to_tensor_set(inputs, info->name, slices[i]));
        free(bytes);
    }
    IS(executed, nrt_execute(model, inputs, outputs));
    /* The first execution of a size, and one of a kept instance. */
    IS(executed, nrt_execute(model, inputs, outputs));
    if (count > 1) IS(executed, nrt_execute_repeat(model, inputs, outputs, count));
    for (uint64_t i = 0; i < infos->tensor_count && executed == NRT_SUCCESS; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        if (info->usage == NRT_TENSOR_USAGE_INPUT) continue;
        uint32_t shape[8], ndim = 8;
        size_t size = 4; /* all outputs of the tests are f32 */
        OK(tenon_nrt_get_output_shape(model, inputs, info->name, shape, &ndim));
        CHECK(ndim == info->ndim);
        printf("actual %s:", info->name);
        for (uint32_t k = 0; k < ndim; k++) {
            printf(" %u", shape[k]);
            size *= shape[k];
            CHECK(shape[k] <= info->shape[k]);
        }
        printf("\n");
        unsigned char *bytes = malloc(info->size);
        CHECK(bytes != NULL && size <= info->size);
        OK(nrt_tensor_read(tensors[i], bytes, 0, info->size));
        for (size_t at = size; at < info->size; at++) CHECK(bytes[at] == 0xAA);
        path_of(path, info->name, "out");
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL && fwrite(bytes, 1, size, file) == size);
        fclose(file);
        free(bytes);
        shapes_are_checked(model, inputs, info->name, ndim);
        small_outputs_are_refused(model, inputs, outputs, tensors[i], info->name, size);
    }
    OK(nrt_free_model_tensor_info(infos));
    for (int i = 0; i < 16; i++) {
        if (slices[i] != NULL) nrt_tensor_free(&slices[i]);
    }
    OK(nrt_unload(model));
    nrt_close();
    return 0;
}
