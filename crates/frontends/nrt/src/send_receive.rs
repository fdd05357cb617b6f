//! Sending tensors between workers, which requires a network provider; it is unavailable.

use crate::call::entry;
use crate::process;
use std::ffi::{c_char, c_int, c_void};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{check, write_output};

fn no_provider() -> Result<()> {
    process::check()?;
    Err(Error::new(
        ErrorKind::Unsupported,
        "sending tensors requires a network provider, which is unavailable",
    ))
}

/// The error of a communicator or request, of which there are none.
fn unknown_handle(handle: *const c_void, what: &str) -> Result<()> {
    process::check()?;
    let text = if handle.is_null() {
        format!("the {what} is NULL")
    } else {
        format!("not a handle of a {what}")
    };
    Err(Error::new(ErrorKind::InvalidHandle, text))
}

entry! {
    fn nrt_async_sendrecv_get_max_num_communicators_per_lnc(num: *mut c_int) {
        // SAFETY: `num` is null or writable (header).
        unsafe { write_output(num, "num", 0) }
    }

    fn nrt_async_sendrecv_get_max_num_pending_request(num: *mut c_int) {
        // SAFETY: `num` is null or writable (header).
        unsafe { write_output(num, "num", 0) }
    }

    fn nrt_async_sendrecv_init(_lnc: c_int) {
        no_provider()
    }

    fn nrt_async_sendrecv_close(_lnc: c_int) {
        no_provider()
    }

    fn nrt_async_sendrecv_connect(
        _peer_ip: *const c_char, _peer_lnc: c_int, _lnc: c_int, send_comm: *mut *mut c_void,
    ) {
        process::check()?;
        check(send_comm, "send_comm")?;
        no_provider()
    }

    fn nrt_async_sendrecv_accept(
        _peer_ip: *const c_char, _peer_lnc: c_int, _lnc: c_int, recv_comm: *mut *mut c_void,
    ) {
        process::check()?;
        check(recv_comm, "recv_comm")?;
        no_provider()
    }

    fn nrt_async_sendrecv_test_comm(comm: *mut c_void, _done: *mut bool) {
        unknown_handle(comm, "communicator")
    }

    fn nrt_async_sendrecv_send_tensor(
        _tensor: *mut c_void, _offset: usize, _length: usize, send_comm: *mut c_void,
        _request: *mut *mut c_void,
    ) {
        unknown_handle(send_comm, "communicator")
    }

    fn nrt_async_sendrecv_recv_tensor(
        _tensor: *mut c_void, _offset: usize, _length: usize, recv_comm: *mut c_void,
        _request: *mut *mut c_void,
    ) {
        unknown_handle(recv_comm, "communicator")
    }

    fn nrt_async_sendrecv_test_request(
        request: *mut c_void, _done: *mut bool, _size: *mut usize,
    ) {
        unknown_handle(request, "request")
    }

    fn nrt_async_sendrecv_flush(_lnc: c_int) {
        no_provider()
    }
}
