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
pub mod pool;
mod regular_file;
pub mod stop;
pub mod trace;
mod unfinished_file;

pub use control::{Control, Progress};
pub use cpu::{CPU_VARIABLE, CpuLevel};
pub use error::{Error, ErrorKind, Location, Result};
pub use escape::escape_controls;
pub use pattern::Pattern;
pub use regular_file::expect_regular_file;
pub use unfinished_file::{UnfinishedFile, remove_unfinished_files};
