/*
 * Asynchronous requests. Each is added to a queue of an execution unit of a core and gets a sequence
 * number; the requests of one queue are executed in order, one at a time. Requests of different
 * queues are not ordered.
 *
 * This is version 3.0 of the interface: the status of a request is written to the caller's
 * NRT_STATUS before the request is complete. Version 2 has error trackers instead, and other
 * execution units: define TENON_NRT_ASYNC_API as 2 before including this header to select it. The
 * functions whose arguments differ then have separate symbols. docs/nrt.md, "Two versions of
 * asynchronous requests", describes programs compiled with other headers.
 */
#ifndef NRT_ASYNC_H
#define NRT_ASYNC_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_status.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TENON_NRT_ASYNC_API) && TENON_NRT_ASYNC_API == 2
#define TENON_NRT_ASYNC_2
#elif defined(TENON_NRT_ASYNC_API) && TENON_NRT_ASYNC_API != 3
#error "TENON_NRT_ASYNC_API is 2 or 3"
#endif

/* Execution units of a core. */
#ifndef TENON_NRT_ASYNC_2
typedef enum {
    NRTA_XU_TENSOR_OP = 0,
    NRTA_XU_COMPUTE = 1,
    NRTA_XU_COLLECTIVES = 2,
    NRTA_XU_TYPE_NUM = 3
} nrta_xu_t;
#else
typedef enum {
    NRTA_XU_TENSOR_READ = 0,
    NRTA_XU_TENSOR_WRITE = 1,
    NRTA_XU_TENSOR_OP = 2,
    NRTA_XU_COMPUTE = 3,
    NRTA_XU_COLLECTIVES = 4,
    NRTA_XU_TYPE_NUM = 5,
    NRTA_XU_NUM = 5
} nrta_xu_t;
#endif

/* High 16 bits: core, unit and queue. Low 48 bits: the number on the queue, counted from 1. */
typedef uint64_t nrta_seq_t;
typedef uint16_t nrta_xu_id_t;

#define NRTA_SEQ_NUM_MAX ((UINT64_C(1) << 48) - 1)
#define NRTA_SEQ_GET_SEQ_NUM(seq) ((seq) & NRTA_SEQ_NUM_MAX)
#define NRTA_SEQ_GET_XU_ID(seq) ((nrta_xu_id_t)((seq) >> 48))

typedef enum {
    NRT_OP_ADD = 0,
    NRT_OP_FMA = 1,
    NRT_OP_MAX = 2,
    NRT_OP_MIN = 3,
    NRT_OP_INVALID = 0xF
} nrt_op_type_t;

typedef enum {
    NRT_CC_ALLGATHER = 0,
    NRT_CC_ALLREDUCE = 1,
    NRT_CC_REDUCESCATTER = 2
} nrt_cc_op_type_t;

/* The participants of a collective operation. */
typedef struct nrt_cc_comm {
    uint32_t *replica_group;
    uint32_t rank;
    uint32_t rank_n;
    uint32_t ctx_device_id;
    uint32_t ctx_device_count;
    uint32_t vnc;
} nrt_cc_comm_t;

typedef struct nrt_tensor_list {
    nrt_tensor_t **tensors;
    size_t num_tensors;
} nrt_tensor_list_t;

#ifndef TENON_NRT_ASYNC_2

/*
 * Queue a copy into, out of, or between tensors, on a queue of NRTA_XU_TENSOR_OP (0 or 1) of core
 * `lnc_idx`. `ret` receives the status of the request before the request is complete, and is not
 * written if the call itself fails; it may be NULL. Buffers and `ret` must be valid, and must not be
 * accessed otherwise, until the request is complete. NRT_QUEUE_FULL: nothing was queued.
 */
NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size,
                             int lnc_idx, int queue, NRT_STATUS *ret, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size,
                            int lnc_idx, int queue, NRT_STATUS *ret, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst,
                            uint64_t dst_offset, uint64_t size, int lnc_idx, int queue,
                            NRT_STATUS *ret, nrta_seq_t *req_sequence);

/* Queue an execution, on queue 0. */
NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input,
                                 nrt_tensor_set_t *output, int queue, NRT_STATUS *ret,
                                 nrta_seq_t *req_sequence);

/* Queue a prepared collective operation, on queue 0; frees the context. */
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **cc_ctx, int queue, NRT_STATUS *ret,
                            nrta_seq_t *req_sequence);

/* The last complete request of a queue; number 0 before the first. */
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq);

#else /* Version 2. */

/* Requests of one core that failed. */
typedef struct nrta_error_tracker nrta_error_tracker_t;

typedef struct nrta_error {
    nrta_seq_t seq_id;
    uint64_t error_code; /* a NRT_STATUS */
} nrta_error_t;

#define nrta_tensor_write tenon_nrta_tensor_write_2
#define nrta_tensor_read tenon_nrta_tensor_read_2
#define nrta_tensor_copy tenon_nrta_tensor_copy_2
#define nrta_execute_schedule tenon_nrta_execute_schedule_2
#define nrta_cc_schedule tenon_nrta_cc_schedule_2
#define nrta_get_sequence tenon_nrta_get_sequence_2

/* Queue a copy. The core is that of the tensor, the unit the one for writing, reading or copying; a
 * failure is added to the error tracker, which may be NULL. */
NRT_STATUS nrta_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size,
                             int queue, nrta_error_tracker_t *err, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size,
                            int queue, nrta_error_tracker_t *err, nrta_seq_t *req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst,
                            uint64_t dst_offset, uint64_t size, int queue,
                            nrta_error_tracker_t *err, nrta_seq_t *req_sequence);
NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input,
                                 nrt_tensor_set_t *output, int queue, nrta_error_tracker_t *err,
                                 nrta_seq_t *req_sequence);
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **cc_ctx, int queue, nrta_error_tracker_t *err,
                            nrta_seq_t *req_sequence);
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq);

/* A descriptor that becomes readable when the request is complete; close() it. */
NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int *fd);

NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx, nrta_error_tracker_t **error_tracker);
void nrta_error_tracker_destroy(nrta_error_tracker_t *error_tracker);

/* The failures so far. The tracker owns the list, which is valid until the next call for it or its
 * destruction. */
NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t *error_tracker,
                                       const nrta_error_t **list, size_t *error_count);

#endif

#ifdef TENON_NRT_OLD_DTYPES
#define nrta_cc_prepare tenon_nrta_cc_prepare_old_dtypes
#endif

/* Prepare a collective operation. */
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output,
                           nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                           nrt_cc_context_t **cc_ctx);

/* Whether a request is complete. */
NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool *is_completed);

/*
 * Signal an eventfd of the caller whenever a request of a queue completes, or when one request does:
 * immediately if it is complete. A queue or request has one eventfd; a second one replaces the first,
 * a negative `fd` removes it. The library uses a duplicate of `fd`, which the caller may close at any
 * time.
 */
NRT_STATUS nrta_event_register_xu_completion(int lnc, nrta_xu_t xu, int queue, int fd);
NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int fd);

#ifdef __cplusplus
}
#endif

#endif
