//! The C interface of loadable backends, `include/tenon/backend.h`, as hand-written Rust
//! declarations.
//!
//! The header documents every struct and member; the names here are the same without the prefix. A
//! backend needs no other crate of Tenon: see `examples/backend-rust`. A test compares the layout
//! of every struct with that of a C compiler.

mod failure;
mod read;
mod tables;

pub use failure::{failed, failure, guarded, refusal};
pub use read::{LayoutError, Prefixed, read};
pub use tables::*;

/// The version of the interface.
pub const MAJOR: u32 = 1;
/// The minor version, incremented by additions.
pub const MINOR: u32 = 3;

/// The index of an absent operand.
pub const NO_VALUE: u32 = u32::MAX;

/// Statuses of failures, `TENON_STATUS_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod status {
    pub const FAILED: i32 = 1;
    pub const UNSUPPORTED: i32 = 2;
    pub const INVALID: i32 = 3;
    pub const OUT_OF_MEMORY: i32 = 4;
    pub const UNAVAILABLE: i32 = 5;
    pub const STOPPED: i32 = 6;
    pub const DEVICE_LOST: i32 = 7;
}

/// Reasons of refusals, `TENON_REASON_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod reason {
    pub const OTHER: i32 = 0;
    pub const UNKNOWN_OPERATOR: i32 = 1;
    pub const INPUT_TYPE: i32 = 2;
    pub const INPUT_RANK: i32 = 3;
    pub const ATTRIBUTE_VALUE: i32 = 4;
    pub const NOT_CONSTANT: i32 = 5;
}

/// Names of the element types `TENON_TYPE_*`, whose codes start at 1.
pub const TYPES: [&str; 30] = [
    "f32",
    "f64",
    "f16",
    "bf16",
    "f32r",
    "tf32",
    "f8e3m4",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "i4",
    "u4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "bool",
    "c64",
    "c128",
    "string",
    "f4e2m1fn",
    "f8e8m0fnu",
    "i2",
    "u2",
];

/// Kinds of attributes, `TENON_KIND_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod kind {
    pub const INT: i32 = 1;
    pub const FLOAT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const INTS: i32 = 4;
    pub const FLOATS: i32 = 5;
    pub const STRINGS: i32 = 6;
    pub const TENSOR: i32 = 7;
}

/// Kinds of named values, `TENON_VALUE_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod value {
    pub const BOOL: i32 = 1;
    pub const INT: i32 = 2;
    pub const UNSIGNED: i32 = 3;
    pub const FLOAT: i32 = 4;
    pub const STRING: i32 = 5;
}

/// Scopes of options, `TENON_SCOPE_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod scope {
    pub const MODEL: i32 = 1;
    pub const CREATION: i32 = 2;
}

/// Flags of imported memory, `TENON_IMPORT_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod import {
    pub const LONG_LIVED: u32 = 1;
    pub const READ_ONLY: u32 = 2;
}

/// CPU levels that prepared constants may require, `TENON_CPU_*`.
#[allow(missing_docs, reason = "documented in the header")]
pub mod cpu {
    pub const BASELINE: i32 = 0;
    pub const AVX2: i32 = 1;
    pub const AVX512: i32 = 2;
}
