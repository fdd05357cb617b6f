/* Inputs and outputs of models, the callback of queued executions, and further additions. */
#ifndef NRT_EXPERIMENTAL_H
#define NRT_EXPERIMENTAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nrt/nrt.h>
#include <nrt/nrt_status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a tensor's name including the final NUL. */
#define NRT_TENSOR_NAME_MAX 256

typedef enum {
    NRT_TENSOR_USAGE_INPUT = 0,
    NRT_TENSOR_USAGE_OUTPUT = 1
} nrt_tensor_usage_t;

/* An input or output of a model. */
typedef struct nrt_tensor_info {
    char name[NRT_TENSOR_NAME_MAX];
    nrt_tensor_usage_t usage;
    size_t size; /* bytes */
    nrt_dtype_t dtype;
    uint32_t *shape; /* `ndim` extents, outermost first */
    uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
    uint64_t tensor_count;
    nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

/* The cores of a model. */
typedef struct nrt_model_info {
    uint32_t vnc;
} nrt_model_info_t;

/* Called at the end of a queued execution. */
typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void *params, uint32_t model_id, uint32_t vnc,
                                               uint64_t job_id, NRT_STATUS status);

typedef struct nrt_ucode_img {
    uint8_t *bin;
    size_t size;
} nrt_ucode_img;

typedef struct nrt_ucode_info {
    nrt_ucode_img iram;
    nrt_ucode_img dram;
} nrt_ucode_info;

#ifdef TENON_NRT_OLD_DTYPES
#define nrt_get_model_tensor_info tenon_nrt_get_model_tensor_info_old_dtypes
#endif

/*
 * Lists a model's inputs and outputs; free the list below (a second time is NRT_INVALID_HANDLE).
 * Names are unique, at most 251 bytes and valid file names: the model's names are changed where they
 * are not. Tensor sets accept both forms.
 */
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t *model, nrt_tensor_info_array_t **tensor_info);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *tensor_info);

/* The number of threads that can execute the model concurrently. */
NRT_STATUS nrt_get_model_instance_count(nrt_model_t *model, uint32_t *instance_count);

/* Fills at most `info_size_in` bytes; `info_size_out` is the number. */
NRT_STATUS nrt_get_model_info(const nrt_model_t *model, nrt_model_info_t *info,
                              size_t info_size_in, size_t *info_size_out);

/* Starts a recording of the process; ends it and writes it to a file. */
NRT_STATUS nrt_trace_start(bool trace_mem);
NRT_STATUS nrt_trace_stop(const char *filename);

/* Queued executions: sets the callback, replacing the previous one; waits for a core's queue. */
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params);
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc);

/* Several workers: a barrier; an all-gather of `rank_input_size` bytes of each rank. */
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void *input, void *output);

/* Copies into memory of a tensor, from nrt_tensor_get_va, or into other memory of the caller.
 * NRT_INVALID for a copy that starts inside a tensor and ends outside. */
NRT_STATUS nrt_memcpy_to_device(void *dest, const void *src, size_t size);

/* Functions that require an accelerator: they fail with a status, or with NULL and a text. */
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info *ucode_info);
void *nrt_get_libnccl_net(int *err, char *err_msg, size_t err_msg_size);

#ifdef __cplusplus
}
#endif

#endif
