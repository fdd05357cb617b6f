/* A state that stays in one tensor: state PACKAGE FOLDER INPUT OUTPUT STEPS. The tensor of the input INPUT, zeros
 * at first, is that of the output OUTPUT too. Reads FOLDER/NAME.bin of other inputs, writes FOLDER/NAME.out. */
#include "check.h"

#include <tenon/nrt.h>

int main(int argc, char **argv) {
    CHECK(argc == 6);
    const char *folder = argv[2], *state = argv[3], *next = argv[4];
    nrt_model_t *model = NULL;
    nrt_tensor_info_array_t *infos;
    nrt_tensor_set_t *inputs, *outputs;
    nrt_tensor_t *kept = NULL, *tensors[16] = {NULL};
    char path[4096];
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(tenon_nrt_load_file(argv[1], -1, -1, &model));
    OK(nrt_get_model_tensor_info(model, &infos));
    OK(nrt_allocate_tensor_set(&inputs));
    OK(nrt_allocate_tensor_set(&outputs));
    CHECK(infos->tensor_count <= 16);
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        if (strcmp(info->name, state) && strcmp(info->name, next)) continue;
        if (!kept) {
            OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, state, &kept));
            OK(nrt_tensor_memset(kept, 0, 0, info->size));
        }
        CHECK(nrt_tensor_get_size(kept) == info->size);
        int is_input = info->usage == NRT_TENSOR_USAGE_INPUT;
        OK(nrt_add_tensor_to_tensor_set(is_input ? inputs : outputs, info->name, kept));
        tensors[i] = kept;
    }
    CHECK(kept != NULL);
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        if (tensors[i]) continue;
        OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensors[i]));
        if (info->usage == NRT_TENSOR_USAGE_OUTPUT) {
            OK(nrt_add_tensor_to_tensor_set(outputs, info->name, tensors[i]));
            continue;
        }
        size_t size;
        CHECK(snprintf(path, sizeof path, "%s/%s.bin", folder, info->name) < (int)sizeof path);
        void *bytes = file_bytes(path, &size);
        OK(nrt_tensor_write(tensors[i], bytes, 0, size));
        OK(nrt_add_tensor_to_tensor_set(inputs, info->name, tensors[i]));
        free(bytes);
    }
    for (int step = atoi(argv[5]); step > 0; step--) OK(nrt_execute(model, inputs, outputs));
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        if (info->usage == NRT_TENSOR_USAGE_INPUT) continue;
        void *bytes = malloc(info->size);
        CHECK(bytes != NULL);
        OK(nrt_tensor_read(tensors[i], bytes, 0, info->size));
        CHECK(snprintf(path, sizeof path, "%s/%s.out", folder, info->name) < (int)sizeof path);
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL && fwrite(bytes, 1, info->size, file) == info->size);
        fclose(file);
        free(bytes);
    }
    OK(nrt_free_model_tensor_info(infos));
    OK(nrt_unload(model));
    nrt_close();
    return 0;
}
