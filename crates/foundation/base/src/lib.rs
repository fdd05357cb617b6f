//! The foundation of every crate: errors as data, a handle for progress, cancellation and
//! deadlines, trace sinks, glob patterns, citations, the one thread pool of the process, and loops compiled for two CPU levels.
//!
//! This crate is independent of models, packages and backends.

pub mod bounded;
mod citation;
mod control;
mod count;
mod cpu;
mod error;
mod escape;
mod pattern;
pub mod pool;
mod regular_file;
mod round_to_odd;
pub mod stop;
pub mod trace;
mod unfinished_file;
mod units;
mod vectorized;

pub use citation::Citation;
pub use control::{Control, Progress};
pub use count::Count;
pub use cpu::{CPU_VARIABLE, CpuLevel};
pub use error::{Error, ErrorKind, Location, Result};
pub use escape::escape_controls;
pub use pattern::Pattern;
pub use regular_file::expect_regular_file;
pub use round_to_odd::round_to_odd;
pub use unfinished_file::{UnfinishedFile, remove_unfinished_files};
pub use units::{format_bytes, format_duration};
#[doc(hidden)]
pub use vectorized::call_vectorized;
