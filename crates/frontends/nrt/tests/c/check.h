/* Shared by the C tests: checks that print their place, and loading a package. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nrt/ndebug_stream.h>
#include <nrt/nec.h>
#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/* Checks the status of a call. */
#define IS(status, call)                                                          \
    do {                                                                          \
        NRT_STATUS status_ = (call);                                              \
        if (status_ != (status)) {                                                \
            fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call,       \
                    nrt_get_status_as_str(status_));                              \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define OK(call) IS(NRT_SUCCESS, call)

/* The bytes of a file in new memory. */
static inline void *file_bytes(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    CHECK(bytes != NULL && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

/* Loads a package; its bytes are overwritten and freed after the call. */
static inline nrt_model_t *load_at(const char *path, int start, int count) {
    size_t size;
    void *bytes = file_bytes(path, &size);
    nrt_model_t *model = NULL;
    OK(nrt_load(bytes, size, start, count, &model));
    memset(bytes, 0xAA, size);
    free(bytes);
    return model;
}

/* Tensors for all inputs or outputs of a model, in a set. */
static inline nrt_tensor_set_t *tensors_of(nrt_model_t *model, nrt_tensor_usage_t usage) {
    nrt_tensor_info_array_t *infos;
    nrt_tensor_set_t *set;
    OK(nrt_get_model_tensor_info(model, &infos));
    OK(nrt_allocate_tensor_set(&set));
    for (uint64_t i = 0; i < infos->tensor_count; i++) {
        nrt_tensor_info_t *info = &infos->tensor_array[i];
        nrt_tensor_t *tensor;
        if (info->usage != usage) continue;
        OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensor));
        OK(nrt_add_tensor_to_tensor_set(set, info->name, tensor));
    }
    OK(nrt_free_model_tensor_info(infos));
    return set;
}

/* The first tensor of a model's inputs or outputs in a set. */
static inline nrt_tensor_t *first_of(nrt_model_t *model, nrt_tensor_set_t *set,
                                     nrt_tensor_usage_t usage) {
    nrt_tensor_info_array_t *infos;
    nrt_tensor_t *tensor = NULL;
    OK(nrt_get_model_tensor_info(model, &infos));
    for (uint64_t i = 0; i < infos->tensor_count && tensor == NULL; i++) {
        if (infos->tensor_array[i].usage == usage) {
            OK(nrt_get_tensor_from_tensor_set(set, infos->tensor_array[i].name, &tensor));
        }
    }
    OK(nrt_free_model_tensor_info(infos));
    CHECK(tensor != NULL);
    return tensor;
}

#endif
