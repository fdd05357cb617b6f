/* The statuses of the functions of the runtime. */
#ifndef NRT_STATUS_H
#define NRT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Missing values are retired statuses. */
typedef enum {
    NRT_SUCCESS = 0,
    NRT_FAILURE = 1,         /* any other error; the log has the reason */
    NRT_INVALID = 2,         /* an argument or a package is malformed */
    NRT_INVALID_HANDLE = 3,  /* a handle that was never returned, or was freed */
    NRT_RESOURCE = 4,        /* memory, or a limit on it, is exhausted */
    NRT_TIMEOUT = 5,
    NRT_HW_ERROR = 6,
    NRT_QUEUE_FULL = 7,
    NRT_LOAD_NOT_ENOUGH_NC = 9,         /* fewer cores than the model needs */
    NRT_UNSUPPORTED_NEFF_VERSION = 10,  /* an unknown version or feature */
    NRT_FAIL_HOST_MEM_ALLOC = 11,       /* kept for callers that test for it; not returned */
    NRT_UNINITIALIZED = 13,             /* nrt_init was not called */
    NRT_CLOSED = 14,                    /* nrt_close was called */
    NRT_QUEUE_EMPTY = 15,               /* nothing to read */
    NRT_EXEC_UNIT_UNRECOVERABLE = 101,
    NRT_EXEC_BAD_INPUT = 1002,
    NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,  /* done, with a NaN in an output */
    NRT_EXEC_COMPLETED_WITH_ERR = 1004,
    NRT_EXEC_NC_BUSY = 1005,
    NRT_EXEC_OOB = 1006,  /* an index in the data is outside its tensor */
    NRT_COLL_PENDING = 1100,
    NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
    NRT_EXEC_HW_ERR_HBM_UE = 1201,
    NRT_EXEC_HW_ERR_NC_UE = 1202,
    NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
    NRT_EXEC_SW_NQ_OVERFLOW = 1204,
    NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
    NRT_NETWORK_PROXY_FAILURE = 1206
} NRT_STATUS;

/* The name of a status; NRT_UNKNOWN_STATUS for other values. The string is static. */
const char *nrt_get_status_as_str(NRT_STATUS status);

#ifdef __cplusplus
}
#endif

#endif
