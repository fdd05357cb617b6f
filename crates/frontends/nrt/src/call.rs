//! The boundary of every function of the C interface: panics, statuses and the log.

use crate::status::{NRT_SUCCESS, Status};
use std::sync::{PoisonError, RwLock};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::caught;
use tenon_runtime::{Component, Log};

/// Declares functions of the C interface. Without a result type, the body is a `Result` and the
/// function returns its status; with one, the body is the function's and must not panic.
macro_rules! entry {
    () => {};
    (fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
            $crate::call::status_of(stringify!($name), || $body)
        }
        $crate::call::entry! { $($rest)* }
    };
    (fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result $body
        $crate::call::entry! { $($rest)* }
    };
}
pub(crate) use entry;

/// The log, configured by the environment at the first message or the last start of the runtime.
static LOG: RwLock<Option<Log>> = RwLock::new(None);

/// Executes the body of a function and returns its status; errors are logged.
#[inline]
pub(crate) fn status_of(function: &'static str, body: impl FnOnce() -> Result<()>) -> Status {
    run(function, body).err().unwrap_or(NRT_SUCCESS)
}

/// Executes the body of a function without a status; errors are logged, `None` is returned.
#[inline]
pub(crate) fn attempt<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> Option<T> {
    run(function, body).ok()
}

#[inline]
fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> Result<T, Status> {
    caught(body).map_err(|error| failed(function, &error))
}

#[cold]
fn failed(function: &'static str, error: &Error) -> Status {
    match error.kind() {
        // Polling callers get it repeatedly.
        ErrorKind::QueueEmpty => log().debug(Component::Nrt, function, format_args!("{error}")),
        _ => log().problems(Component::Nrt, function, error),
    }
    error.kind().nrt_status()
}

/// The log.
pub(crate) fn log() -> Log {
    let known = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.unwrap_or_else(reset_log)
}

/// Configures the log from the environment again.
pub(crate) fn reset_log() -> Log {
    let log = Log::from_environment();
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = Some(log.clone());
    log
}
