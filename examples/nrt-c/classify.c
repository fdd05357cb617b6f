/*
 * Executes a package on a file of floats and prints the index of the largest output.
 *
 *     cc classify.c -o classify $(pkg-config --cflags --libs nrt)
 *     ./classify digits.neff seven.f32
 *
 * The file has the bytes of the model's first input; other inputs are zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

static void check(NRT_STATUS status, const char *what) {
    if (status != NRT_SUCCESS) {
        /* The library has logged the reason on standard error. */
        fprintf(stderr, "%s: %s\n", what, nrt_get_status_as_str(status));
        exit(1);
    }
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size + 1);
    if (bytes == NULL || fread(bytes, 1, *size, file) != *size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: classify PACKAGE INPUT\n");
        return 2;
    }
    check(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");

    size_t size;
    void *bytes = read_file(argv[1], &size);
    nrt_model_t *model;
    check(nrt_load(bytes, size, -1, -1, &model), "nrt_load");
    free(bytes);

    /* A tensor for every input and output. */
    nrt_tensor_info_array_t *infos;
    nrt_tensor_set_t *sets[2];
    check(nrt_get_model_tensor_info(model, &infos), "nrt_get_model_tensor_info");
    nrt_tensor_t **tensors = calloc(infos->tensor_count, sizeof *tensors);
    check(nrt_allocate_tensor_set(&sets[NRT_TENSOR_USAGE_INPUT]), "nrt_allocate_tensor_set");
    check(nrt_allocate_tensor_set(&sets[NRT_TENSOR_USAGE_OUTPUT]), "nrt_allocate_tensor_set");
    nrt_tensor_t *input = NULL, *output = NULL;
    size_t outputs = 0;
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        check(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensors[i]),
             info->name);
        check(nrt_add_tensor_to_tensor_set(sets[info->usage], info->name, tensors[i]), info->name);
        if (info->usage == NRT_TENSOR_USAGE_INPUT && input == NULL) input = tensors[i];
        if (info->usage == NRT_TENSOR_USAGE_OUTPUT && output == NULL) {
            output = tensors[i];
            outputs = info->dtype == NRT_DTYPE_FLOAT32 ? info->size / sizeof(float) : 0;
        }
    }
    if (input == NULL || outputs == 0) {
        fprintf(stderr, "the model has no input, or its first output is not of type float\n");
        return 1;
    }

    bytes = read_file(argv[2], &size);
    check(nrt_tensor_write(input, bytes, 0, size), argv[2]);
    free(bytes);
    check(nrt_execute(model, sets[NRT_TENSOR_USAGE_INPUT], sets[NRT_TENSOR_USAGE_OUTPUT]),
         "nrt_execute");

    float *scores = malloc(outputs * sizeof(float));
    check(nrt_tensor_read(output, scores, 0, outputs * sizeof(float)), "nrt_tensor_read");
    size_t best = 0;
    for (size_t i = 1; i < outputs; i++) {
        if (scores[i] > scores[best]) best = i;
    }
    printf("class %zu, score %g\n", best, scores[best]);
    free(scores);

    for (uint64_t i = 0; i < infos->tensor_count; i++) nrt_tensor_free(&tensors[i]);
    free(tensors);
    nrt_destroy_tensor_set(&sets[NRT_TENSOR_USAGE_INPUT]);
    nrt_destroy_tensor_set(&sets[NRT_TENSOR_USAGE_OUTPUT]);
    check(nrt_free_model_tensor_info(infos), "nrt_free_model_tensor_info");
    check(nrt_unload(model), "nrt_unload");
    nrt_close();
    return 0;
}
