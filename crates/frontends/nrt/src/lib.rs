//! `libnrt.so.1`: the runtime behind the C interface of `include/nrt`.
//!
//! This layer only translates: handles to values, C strings and structs to Rust's, errors to
//! statuses and log messages; [`tenon_runtime`] implements the functions. Each file has the functions
//! of one noun; `docs/nrt.md` lists all of them.
//!
//! Three rules hold for every function:
//!
//! * No panic leaves it: `call::status_of` converts a panic to a status.
//! * A handle is looked up before it is used (`handles`): one that was never returned, or was freed,
//!   is `NRT_INVALID_HANDLE`.
//! * A pointer of the caller is used only after the possible checks: null, alignment. The headers
//!   require that it is valid for the stated number of bytes; SAFETY comments cite that contract as
//!   "(header)".

#![allow(unsafe_code, reason = "pointers of C callers")]
// Every function has pointers of a C caller as arguments.
#![allow(
    clippy::missing_safety_doc,
    reason = "the requirements are in the headers of include/nrt"
)]

mod allocations;
mod async_api;
mod asynchronous;
mod batches;
mod call;
mod collectives;
mod cores;
mod data_types;
mod debug_stream;
mod device_only;
mod events;
mod execution;
mod failed_inputs;
mod handles;
mod inspect;
mod layout;
mod lists;
mod models;
mod nec;
mod process;
mod profile;
mod requests;
mod send_receive;
mod status;
mod sys_trace;
mod tensor_sets;
mod tensors;
mod trace;
mod version;
