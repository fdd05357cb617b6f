//! What every room of Tenon stands on: errors as data, one control handle for long work, a trace
//! sink, patterns of names, and the one thread pool of the process.
//!
//! Nothing here knows of models, packages or backends.

pub mod bounded;
mod control;
mod cpu;
mod error;
mod escape;
mod pattern;
mod plain_file;
pub mod pool;
pub mod stop;
pub mod trace;
mod unfinished;

pub use control::{Control, Progress};
pub use cpu::{CPU_VARIABLE, CpuLevel};
pub use error::{Error, ErrorKind, Location, Result};
pub use escape::escape_controls;
pub use pattern::Pattern;
pub use plain_file::expect_plain_file;
pub use unfinished::{Unfinished, remove_unfinished};
