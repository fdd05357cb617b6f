//! The child of a fork: what it starts again, and executions that it lost.

use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tenon::{Error, ErrorKind, Result};

/// Forks of this process and its parents since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of forks, which a model compares with that of its last execution.
fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Runs in the child of a fork (`os.register_at_fork`).
#[pyfunction]
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    tenon_base::pool::after_fork();
    crate::submit::after_fork();
}

/// The executions of a model that run: after a fork the child has none of the threads that drive them.
#[derive(Default)]
pub struct Executions {
    running: AtomicUsize,
    /// The count of forks at the last execution.
    forks: AtomicU64,
    is_lost: AtomicBool,
}

/// An execution that runs.
pub struct Running(Arc<Executions>);

impl Executions {
    pub fn new() -> Arc<Self> {
        let executions = Self::default();
        executions.forks.store(forks(), Ordering::Relaxed);
        Arc::new(executions)
    }

    /// Counts an execution.
    ///
    /// # Errors
    /// In the child of a fork, if another thread of the parent was executing the model.
    pub fn begin(self: &Arc<Self>) -> Result<Running> {
        let forks = forks();
        if self.forks.swap(forks, Ordering::Relaxed) != forks
            && self.running.swap(0, Ordering::Relaxed) > 0
        {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        if self.is_lost.load(Ordering::Relaxed) {
            let text = "another thread was executing the model when the process was forked";
            let error = Error::new(ErrorKind::InvalidHandle, text);
            return Err(error.help("load the model in the child process"));
        }
        self.running.fetch_add(1, Ordering::Relaxed);
        Ok(Running(self.clone()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
