//! `libtenon.so`: the functions of `include/tenon/tenon.h`.
//!
//! This layer only translates: handles to values, C texts and structs to Rust's, errors to statuses; the crate
//! [`tenon`] implements the functions. Each file has the functions of one noun.
//!
//! Three rules hold for every function:
//!
//! * No panic leaves it: `status::of` converts a panic to a status.
//! * A handle is looked up before it is used, so that one that was never returned, or was freed, is an error.
//! * A pointer of the caller is used only after the possible checks: null, alignment, size. The header requires that it
//!   is valid for the stated number of bytes; SAFETY comments cite that contract as "(header)".

#![allow(unsafe_code, reason = "pointers of C callers")]

mod arrays;
mod bindings;
mod blob;
mod compile;
mod fork;
#[cfg(test)]
mod layout_tests;
mod model;
mod outputs;
mod quantize;
mod run;
mod session;
mod status;
mod structs;
mod submit;
mod table;
mod task;
mod texts;

pub use structs::{
    Array, BackendHint, CompileOptions, Dimension, Extent, LoadOptions, Padding, Port,
    QuantizeOptions, State, SubmitOptions, TaskOptions,
};
pub use table::{Functions, tenon_api};
