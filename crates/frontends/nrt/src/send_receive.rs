//! Sending tensors between workers, for which a network provider is missing.

use crate::arguments::{check, give};
use crate::call::entry;
use crate::process;
use std::ffi::{c_char, c_int, c_void};
use tenon_base::{Error, ErrorKind, Result};

fn absent() -> Result<()> {
    process::check()?;
    Err(Error::new(
        ErrorKind::Unsupported,
        "tensors cannot be sent: it needs a network provider, and there is none",
    ))
}

/// A connection or a request, of which there never was one.
fn none(handle: *const c_void, what: &str) -> Result<()> {
    process::check()?;
    let text = match handle.is_null() {
        true => format!("the {what} is NULL"),
        false => format!("the handle is none of a {what}"),
    };
    Err(Error::new(ErrorKind::InvalidHandle, text))
}

entry! {
    fn nrt_async_sendrecv_get_max_num_communicators_per_lnc(num: *mut c_int) {
        // SAFETY: the caller's place for a number, here and below.
        unsafe { give(num, "num", 0) }
    }

    fn nrt_async_sendrecv_get_max_num_pending_request(num: *mut c_int) {
        // SAFETY: as above.
        unsafe { give(num, "num", 0) }
    }

    fn nrt_async_sendrecv_init(_lnc: c_int) {
        absent()
    }

    fn nrt_async_sendrecv_close(_lnc: c_int) {
        absent()
    }

    fn nrt_async_sendrecv_connect(
        _peer_ip: *const c_char, _peer_lnc: c_int, _lnc: c_int, send_comm: *mut *mut c_void,
    ) {
        process::check()?;
        check(send_comm, "send_comm")?;
        absent()
    }

    fn nrt_async_sendrecv_accept(
        _peer_ip: *const c_char, _peer_lnc: c_int, _lnc: c_int, recv_comm: *mut *mut c_void,
    ) {
        process::check()?;
        check(recv_comm, "recv_comm")?;
        absent()
    }

    fn nrt_async_sendrecv_test_comm(comm: *mut c_void, _done: *mut bool) {
        none(comm, "communicator")
    }

    fn nrt_async_sendrecv_send_tensor(
        _tensor: *mut c_void, _offset: usize, _length: usize, send_comm: *mut c_void,
        _request: *mut *mut c_void,
    ) {
        none(send_comm, "communicator")
    }

    fn nrt_async_sendrecv_recv_tensor(
        _tensor: *mut c_void, _offset: usize, _length: usize, recv_comm: *mut c_void,
        _request: *mut *mut c_void,
    ) {
        none(recv_comm, "communicator")
    }

    fn nrt_async_sendrecv_test_request(
        request: *mut c_void, _done: *mut bool, _size: *mut usize,
    ) {
        none(request, "request")
    }

    fn nrt_async_sendrecv_flush(_lnc: c_int) {
        absent()
    }
}
