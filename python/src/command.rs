//! The `tenon` command, and the child of a fork.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forks of this process and its parents since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of forks, which a model compares with that of its last execution.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Runs in the child of a fork (`os.register_at_fork`).
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    tenon_base::pool::after_fork();
    crate::submit::after_fork();
}

/// Runs the `tenon` command with these arguments, the name of the program first; returns its exit status.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| tenon_cli::main(arguments));
    // `ExitCode` has no accessor.
    (0..=u8::MAX)
        .find(|&status| ExitCode::from(status) == code)
        .unwrap_or(u8::MAX)
}
