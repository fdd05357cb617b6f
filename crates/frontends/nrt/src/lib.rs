//! `libnrt.so.1`: the runtime behind the C interface of `include/nrt`.
//!
//! This layer only translates: handles to values, C strings and structs to Rust's, errors to
//! statuses and lines of the log. What is done, [`tenon_runtime`] does. Each file holds the
//! functions of one noun; `docs/nrt.md` lists all of them.
//!
//! Three rules hold for every function:
//!
//! * A panic ends in it: `call::answer` makes it a status.
//! * A handle is looked up before it is used (`handles`): one that was never given out, or was
//!   given back, is answered `NRT_INVALID_HANDLE`.
//! * A pointer of the caller is only used after it was checked for what can be: null, alignment.
//!   That it leads to as many bytes as the caller says is the caller's promise.
// Every function here takes a C caller's pointers.
#![allow(
    clippy::missing_safety_doc,
    reason = "the promises stand in the headers of include/nrt"
)]

mod absent;
mod arguments;
mod async_api;
mod asynchronous;
mod batches;
mod call;
mod collectives;
mod cores;
mod data_types;
mod debug_stream;
mod events;
mod execution;
mod failed_inputs;
mod given;
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
