//! The way into every function, and out of it.

use crate::status::{NRT_SUCCESS, Status};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, RwLock};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{Component, Log};

/// Functions of the C interface. One with a body in `answer` form answers a status: its body is a
/// `Result`. One with another result answers as it stands; it must not fail.
macro_rules! entry {
    () => {};
    (fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
            $crate::call::answer(stringify!($name), || $body)
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

/// The log, as the environment wanted it when the process was last started or first wrote.
static LOG: RwLock<Option<Log>> = RwLock::new(None);

/// Does what a function does and answers its status; what went wrong goes to the log.
#[inline]
pub(crate) fn answer(function: &'static str, body: impl FnOnce() -> Result<()>) -> Status {
    run(function, body).err().unwrap_or(NRT_SUCCESS)
}

/// Does what a function does that answers no status; `None` when it went wrong.
#[inline]
pub(crate) fn attempt<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> Option<T> {
    run(function, body).ok()
}

#[inline]
fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> Result<T, Status> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(failed(function, &error)),
        Err(panic) => Err(failed(function, &panicked(&*panic))),
    }
}

#[cold]
fn failed(function: &'static str, error: &Error) -> Status {
    match error.kind() {
        // Asked for again and again by who waits.
        ErrorKind::QueueEmpty => log().debug(Component::Nrt, function, format_args!("{error}")),
        _ => log().problems(Component::Nrt, function, error),
    }
    error.kind().nrt_status()
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Error::new(ErrorKind::Internal, format!("a defect of Tenon: {text}"))
}

/// The log.
pub(crate) fn log() -> Log {
    let known = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.unwrap_or_else(renew_log)
}

/// Makes the log anew from the environment.
pub(crate) fn renew_log() -> Log {
    let log = Log::from_environment();
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = Some(log.clone());
    log
}
