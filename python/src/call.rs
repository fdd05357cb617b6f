//! One call of a long operation: the interpreter is released while it runs, and the thread polls Python's signals.

use crate::error::{Failure, exception, invalid};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenon::{Control, Progress};

/// The longest time limit; longer ones are none.
const MAX_SECONDS: f64 = 1e9;

/// The exception of a signal handler or progress callback.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// Cancellation, deadline and progress of one call.
pub struct Call {
    control: Control,
    raised: Raised,
}

/// The moment `timeout` seconds from now.
pub fn deadline(timeout: Option<f64>) -> Result<Option<Instant>, Failure> {
    let Some(seconds) = timeout else {
        return Ok(None);
    };
    if seconds.is_nan() || seconds < 0.0 {
        let error = invalid("timeout is not a number of seconds");
        return Err(error.expected("0 or more").found(seconds).into());
    }
    let duration = Duration::from_secs_f64(seconds.min(MAX_SECONDS));
    Ok((seconds < MAX_SECONDS).then(|| Instant::now() + duration))
}

impl Call {
    /// A call that must end within `timeout` seconds and reports each step to `progress`.
    pub fn new(timeout: Option<f64>, progress: Option<Py<PyAny>>) -> Result<Self, Failure> {
        let raised = Raised::default();
        let control = match (deadline(timeout)?, progress) {
            (None, None) => Control::new(),
            (Some(deadline), None) => Control::with_deadline(deadline),
            (None, Some(callback)) => Control::with_listener(listener(callback, raised.clone())),
            (Some(deadline), Some(callback)) => {
                let listener = listener(callback, raised.clone());
                Control::with_deadline_and_listener(deadline, listener)
            }
        };
        let found = raised.clone();
        let is_stopped = move || {
            let checked = Python::try_attach(|py| match py.check_signals() {
                Ok(()) => lock(&found).is_some(),
                Err(error) => {
                    lock(&found).get_or_insert(error);
                    true
                }
            });
            // The interpreter ends: so does the work.
            checked.unwrap_or(true)
        };
        Ok(Self {
            control: control.polled(is_stopped),
            raised,
        })
    }

    /// Runs `work` while other threads of Python run.
    pub fn run<R: Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(&Control) -> tenon::Result<R> + Send,
    ) -> PyResult<R> {
        let Self { control, raised } = self;
        let done = py.detach(move || work(&control));
        match lock(&raised).take() {
            Some(error) => Err(error),
            None => done.map_err(|error| exception(&error)),
        }
    }
}

fn lock(raised: &Raised) -> std::sync::MutexGuard<'_, Option<PyErr>> {
    raised.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `callback(step, done, total)`. The next poll stops the work when it has raised.
fn listener(callback: Py<PyAny>, raised: Raised) -> impl Fn(Progress<'_>) + Send + Sync + 'static {
    move |progress| {
        Python::try_attach(|py| {
            if lock(&raised).is_some() {
                return;
            }
            let step = (progress.step, progress.done, progress.total);
            if let Err(error) = callback.call1(py, step) {
                lock(&raised).get_or_insert(error);
            }
        });
    }
}
