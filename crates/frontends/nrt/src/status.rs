//! Statuses of functions (nrt 1.3).

use crate::call::entry;
use std::ffi::{CStr, c_char};

/// A status in C.
pub(crate) type Status = i32;

pub(crate) const NRT_SUCCESS: Status = 0;
pub(crate) const NRT_INVALID: Status = 2;

/// Declares the names of statuses; the table of error kinds maps errors to statuses.
macro_rules! statuses {
    ($($name:ident = $number:literal;)*) => {
        /// The name of a status.
        fn name(status: Status) -> Option<&'static CStr> {
            match status {
                $($number => CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ).ok(),)*
                _ => None,
            }
        }
    };
}

statuses! {
    NRT_SUCCESS = 0;
    NRT_FAILURE = 1;
    NRT_INVALID = 2;
    NRT_INVALID_HANDLE = 3;
    NRT_RESOURCE = 4;
    NRT_TIMEOUT = 5;
    NRT_HW_ERROR = 6;
    NRT_QUEUE_FULL = 7;
    NRT_LOAD_NOT_ENOUGH_NC = 9;
    NRT_UNSUPPORTED_NEFF_VERSION = 10;
    NRT_FAIL_HOST_MEM_ALLOC = 11;
    NRT_UNINITIALIZED = 13;
    NRT_CLOSED = 14;
    NRT_QUEUE_EMPTY = 15;
    NRT_EXEC_UNIT_UNRECOVERABLE = 101;
    NRT_EXEC_BAD_INPUT = 1002;
    NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003;
    NRT_EXEC_COMPLETED_WITH_ERR = 1004;
    NRT_EXEC_NC_BUSY = 1005;
    NRT_EXEC_OOB = 1006;
    NRT_COLL_PENDING = 1100;
    NRT_EXEC_HW_ERR_COLLECTIVES = 1200;
    NRT_EXEC_HW_ERR_HBM_UE = 1201;
    NRT_EXEC_HW_ERR_NC_UE = 1202;
    NRT_EXEC_HW_ERR_DMA_ABORT = 1203;
    NRT_EXEC_SW_NQ_OVERFLOW = 1204;
    NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205;
    NRT_NETWORK_PROXY_FAILURE = 1206;
}

entry! {
    fn nrt_get_status_as_str(status: Status) -> *const c_char {
        name(status).unwrap_or(c"NRT_UNKNOWN_STATUS").as_ptr()
    }
}
