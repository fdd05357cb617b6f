/*
 * The runtime: load a package, bind tensors, execute it.
 *
 *   nrt_init -> nrt_load -> nrt_tensor_allocate, nrt_add_tensor_to_tensor_set -> nrt_execute
 *            -> nrt_unload -> nrt_close
 *
 * Functions return a status and write results through their last argument. Handles are opaque.
 * Every function may be called from any thread; a handle must not be freed concurrently with another
 * call that frees or uses it. `vnc` is a virtual core, counted from 0 among those visible to the
 * process. Sizes and offsets are in bytes.
 */
#ifndef NRT_H
#define NRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ndl/neuron_driver_shared_tensor_batch_op.h>
#include <nrt/nrt_status.h>
#include <nrt/nrt_version.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NRT_MAJOR_VERSION 2
#define NRT_MINOR_VERSION 0

/* A loaded model. */
typedef struct nrt_model nrt_model_t;
/* Named memory, on a core or on the host. */
typedef struct nrt_tensor nrt_tensor_t;
/* Tensors by name: the inputs or the outputs of an execution. */
typedef void nrt_tensor_set_t;
/* A prepared collective operation. */
typedef struct nrt_cc_context nrt_cc_context_t;

/* The memory of a tensor. */
typedef enum {
    NRT_TENSOR_PLACEMENT_DEVICE = 0, /* memory of a core, counted against its limit */
    NRT_TENSOR_PLACEMENT_HOST = 1,   /* host memory for transfers, at most 4 MB */
    NRT_TENSOR_PLACEMENT_VIRTUAL = 2 /* plain host memory */
} nrt_tensor_placement_t;

/* The calling framework, for the log. */
typedef enum {
    NRT_FRAMEWORK_TYPE_INVALID = 0,
    NRT_FRAMEWORK_TYPE_NO_FW = 1,
    NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
    NRT_FRAMEWORK_TYPE_PYTORCH = 3,
    NRT_FRAMEWORK_TYPE_MXNET = 4,
    NRT_FRAMEWORK_TYPE_PRECHECK = 5
} nrt_framework_type_t;

typedef enum {
    NRT_INSTANCE_UNKNOWN = 0,
    NRT_INSTANCE_INF1 = 1,
    NRT_INSTANCE_TRN1 = 2,
    NRT_INSTANCE_TRN1N = 3,
    NRT_INSTANCE_INF2 = 4,
    NRT_INSTANCE_TRN2 = 5,
    NRT_INSTANCE_TRN2N = 6,
    NRT_INSTANCE_INF2E = 7,
    NRT_INSTANCE_TRN2P = 8,
    NRT_INSTANCE_TRN2U = 9,
    NRT_INSTANCE_TRN2E = 10,
    NRT_INSTANCE_TRN2EU = 11,
    NRT_INSTANCE_TRN2AC = 12,
    NRT_INSTANCE_TRN2UAC = 13,
    NRT_INSTANCE_TRN3 = 14,
    NRT_INSTANCE_TRN3PDS98 = 15
} nrt_instance_family_t;

typedef enum {
    NRT_INSTANCE_SIZE_1XL = 0,
    NRT_INSTANCE_SIZE_2XL = 1,
    NRT_INSTANCE_SIZE_4XL = 2,
    NRT_INSTANCE_SIZE_6XL = 3,
    NRT_INSTANCE_SIZE_8XL = 4,
    NRT_INSTANCE_SIZE_24XL = 5,
    NRT_INSTANCE_SIZE_32XL = 6,
    NRT_INSTANCE_SIZE_48XL = 7,
    NRT_INSTANCE_SIZE_3XL = 8,
    NRT_INSTANCE_SIZE_UNKNOWN = 9,
    NRT_INSTANCE_SIZE_NUM = NRT_INSTANCE_SIZE_UNKNOWN
} nrt_instance_size_t;

/* The machine. Older callers have only the first two fields, which the length shows. */
typedef struct nrt_instance_info {
    nrt_instance_family_t family;
    nrt_instance_size_t size;
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

/*
 * Element types in the numbering of public headers since 2026. Define TENON_NRT_OLD_DTYPES before
 * including the headers for the older numbering: the names, and the functions with types as
 * arguments or results, then change together. A program compiled with other headers of the older
 * numbering requires TENON_NRT_OLD_DTYPES=1 in its environment.
 */
#ifndef TENON_NRT_OLD_DTYPES
typedef enum {
    NRT_DTYPE_UNKNOWN = 0,
    NRT_DTYPE_INVALID = 0,
    NRT_DTYPE_UINT64 = 1,
    NRT_DTYPE_INT8 = 2,
    NRT_DTYPE_UINT8 = 3,
    NRT_DTYPE_INT16 = 4,
    NRT_DTYPE_UINT16 = 5,
    NRT_DTYPE_BFLOAT16 = 6,
    NRT_DTYPE_FLOAT16 = 7,
    NRT_DTYPE_INT32 = 8,
    NRT_DTYPE_UINT32 = 9,
    NRT_DTYPE_FLOAT32 = 10,
    NRT_DTYPE_FP32R = 11,
    NRT_DTYPE_INT64 = 12,
    NRT_DTYPE_FP8_E3 = 13,
    NRT_DTYPE_FP8_E4 = 14,
    NRT_DTYPE_FP8_E5 = 15
} nrt_dtype_t;
#else
typedef enum {
    NRT_DTYPE_UNKNOWN = 0,
    NRT_DTYPE_INVALID = 0,
    NRT_DTYPE_FLOAT32 = 1,
    NRT_DTYPE_FLOAT16 = 2,
    NRT_DTYPE_BFLOAT16 = 3,
    NRT_DTYPE_INT8 = 4,
    NRT_DTYPE_UINT8 = 5,
    NRT_DTYPE_INT16 = 6,
    NRT_DTYPE_UINT16 = 7,
    NRT_DTYPE_INT32 = 8,
    NRT_DTYPE_UINT32 = 9,
    NRT_DTYPE_INT64 = 10,
    NRT_DTYPE_UINT64 = 11
} nrt_dtype_t;
#endif

/* Several reads or writes on one tensor. */
typedef struct nrt_tensor_batch {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct nrt_tensor_device_allocation_info {
    uint64_t physical_address;
    uint64_t size;
    int hbm_index;
} nrt_tensor_device_allocation_info_t;

/* Memory of one core. */
typedef struct nrt_vnc_memory_stats {
    uint64_t bytes_used;
    uint64_t bytes_limit;
} nrt_vnc_memory_stats_t;

/* --- The runtime ------------------------------------------------------------------------- */

/* Starts the runtime; reads the environment. The strings are for the log and may be NULL. */
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version,
                    const char *fal_version);

/* Closes the runtime: every model and tensor becomes invalid. No effect if it is not started. */
void nrt_close(void);

/* Fills at most `instance_info_len` bytes of `info`. */
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t instance_info_len);

/* Cores of the machine, and those visible to this process; callable before nrt_init. */
NRT_STATUS nrt_get_total_vnc_count(uint32_t *vnc_count);
NRT_STATUS nrt_get_total_nc_count(uint32_t *nc_count); /* the older name */
NRT_STATUS nrt_get_visible_vnc_count(uint32_t *vnc_count);
NRT_STATUS nrt_get_visible_nc_count(uint32_t *nc_count); /* the older name */

/* Memory of core `vnc`. Fills at most `stats_size_in` bytes; `stats_size_out` is the number. */
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t *stats,
                                    size_t stats_size_in, size_t *stats_size_out);

/* --- Models ------------------------------------------------------------------------------ */

/*
 * Loads the package of `size` bytes at `neff_bytes`, which may be freed after the call. The model
 * starts at core `vnc`, -1 for any, and is replicated on `vnc_count` cores, a multiple of the cores
 * of one copy; -1 for one copy.
 */
NRT_STATUS nrt_load(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                    nrt_model_t **model);

/* Like nrt_load, for worker `ctx_device_id` of `ctx_device_count`. */
NRT_STATUS nrt_load_collectives(const void *neff_bytes, size_t size, int32_t vnc,
                                int32_t vnc_count, uint32_t ctx_device_id,
                                uint32_t ctx_device_count, nrt_model_t **model);

/* Unloads a model; its handle becomes invalid. */
NRT_STATUS nrt_unload(nrt_model_t *model);

/* Cores that a model occupies. */
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *vnc_count);
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *nc_count); /* the older name */

/* Executes a model once: reads the tensors of `input_set`, writes those of `output_set`. */
NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input_set,
                       nrt_tensor_set_t *output_set);

/* Executes a model `repeat_count` times; each execution reads the outputs of the previous one: an
 * output becomes the input of its name, or, without common names, of its position. NRT_INVALID if
 * their types differ. The tensors of `input_set` are not written. */
NRT_STATUS nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input_set,
                              nrt_tensor_set_t *output_set, int repeat_count);

/* --- Tensors ----------------------------------------------------------------------------- */

/* Allocates a tensor of `size` zero bytes on core `vnc` or on the host. `name` may be NULL. */
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size,
                               const char *name, nrt_tensor_t **tensor);

/* Creates a tensor without memory: attach a buffer before it is used. */
NRT_STATUS nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor);

/* Creates a tensor of a part of another. They share memory, which is freed with the last of them. */
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *tensor_source, size_t offset, size_t size,
                                     const char *name, nrt_tensor_t **tensor_slice);

/* Frees a tensor and clears the handle. The caller keeps an attached buffer. */
void nrt_tensor_free(nrt_tensor_t **tensor);

/* Replaces the memory of a tensor by the caller's buffer, which must outlive the tensor. */
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size);

/* Copies bytes out of a tensor, into a tensor, and between two of one core. */
NRT_STATUS nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst,
                           size_t dst_offset, size_t size);

/* Several reads, several writes. `unsafe` permits to skip checks that the caller has made. */
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches,
                                 bool unsafe);
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches,
                                  bool unsafe);

/* Sets bytes of a tensor to the low byte of `value`. */
NRT_STATUS nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size);

/* The size of a tensor or slice. */
size_t nrt_tensor_get_size(const nrt_tensor_t *tensor);

/* The address of its bytes, for access in place; NULL without memory. */
void *nrt_tensor_get_va(const nrt_tensor_t *tensor);

NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t *tensor,
                                                 nrt_tensor_device_allocation_info_t *alloc_info);

/* Waits until an output was completed `expected_completion_count` times since its count was reset,
 * at most `timeout` microseconds; without limit if negative, with a warning after 30 seconds. */
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t *output_tensor, int64_t timeout,
                                              uint64_t expected_completion_count);
NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t *output_tensor);

/* --- Tensor sets ------------------------------------------------------------------------- */

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **result);

/* Frees a set and clears the handle; its tensors are not freed. */
void nrt_destroy_tensor_set(nrt_tensor_set_t **tensor_set);

/* Adds or replaces the tensor of a name. It must be valid while the set is used. */
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                        nrt_tensor_t *tensor);

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                          nrt_tensor_t **tensor);

/* --- Several workers; devices ------------------------------------------------------------- */

NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);
NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/* Functions that require an accelerator: they fail with a status. */
NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd);
NRT_STATUS nrt_get_dmabuf_fd_v2(uint64_t va, uint64_t size, int *fd, uint64_t *offset);
NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t *host_device_id);
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t *count, uint32_t *host_did_to_rid_map);
NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size);
NRT_STATUS nrt_get_attached_efa_bdf(const void *va, char *efa_bdf, size_t *len);

#ifdef __cplusplus
}
#endif

#endif
