//! The `tenon` command.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the `tenon` command with these arguments, the name of the program first; returns its exit status.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| tenon_cli::main(arguments));
    // `ExitCode` has no accessor.
    (0..=u8::MAX)
        .find(|&status| ExitCode::from(status) == code)
        .unwrap_or(u8::MAX)
}
