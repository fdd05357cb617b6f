//! Detection of the version of the asynchronous interface that a caller was compiled for (nrt 1.6).
//!
//! Versions 2 and 3.0 have functions of the same names with different arguments: a single call does
//! not reveal its version. A program of version 2 creates an error tracker before its first request;
//! version 3.0 has no error trackers. Arguments are interpreted only after the version is known: an
//! 8-byte sequence number written to the 4-byte status of 3.0 would overwrite other memory.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tenon_base::Result;
use tenon_c_callers::arguments::invalid;
use tenon_runtime::ExecutionUnit;

/// A version of the asynchronous interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsyncApi {
    /// Version 2: error trackers; a unit for each direction of a copy.
    Two = 2,
    /// Version 3.0: a status for each request; one unit for all copies, on a core that the caller
    /// chooses.
    Three = 3,
}

/// The value of `TENON_NRT_ASYNC_API`; 0 when it is not set.
static FORCED: AtomicU8 = AtomicU8::new(0);

/// Whether this process has created an error tracker.
static HAS_TRACKERS: AtomicBool = AtomicBool::new(false);

/// Reads the environment, when the runtime starts.
pub(crate) fn set_by_environment() -> Result<()> {
    const NAME: &str = "TENON_NRT_ASYNC_API";
    let text = std::env::var(NAME).unwrap_or_default();
    let forced = match text.trim() {
        "" => 0,
        "2" => AsyncApi::Two as u8,
        "3" => AsyncApi::Three as u8,
        _ => {
            return Err(invalid(format!(
                "{NAME} is not a version of the asynchronous interface"
            ))
            .expected("2 or 3")
            .found(format_args!("'{text}'")));
        }
    };
    FORCED.store(forced, Ordering::Relaxed);
    Ok(())
}

/// Records that an error tracker was created.
pub(crate) fn set_has_trackers() {
    HAS_TRACKERS.store(true, Ordering::Relaxed);
}

impl AsyncApi {
    /// The version of the current caller of a function that both versions have.
    pub fn of_caller() -> Self {
        match FORCED.load(Ordering::Relaxed) {
            2 => Self::Two,
            3 => Self::Three,
            _ if HAS_TRACKERS.load(Ordering::Relaxed) => Self::Two,
            _ => Self::Three,
        }
    }

    /// The execution unit of a number.
    pub fn unit(self, number: u32) -> Result<ExecutionUnit> {
        let units = match self {
            Self::Two => &ExecutionUnit::ALL[..],
            Self::Three => &ExecutionUnit::ALL[ExecutionUnit::TensorOperation as usize..],
        };
        units.get(number as usize).copied().ok_or_else(|| {
            invalid("unknown execution unit")
                .expected(format_args!("0 to {}", units.len() - 1))
                .found(number)
        })
    }
}

/// An argument whose type depends on the version: a pointer, or an integer in the low 32 bits (the
/// upper bits are undefined).
pub(crate) type Word = *mut c_void;

/// The integer of an argument.
fn number(word: Word) -> c_int {
    word.addr() as c_int
}

/// The destination of a request's error.
#[derive(Clone, Copy)]
pub(crate) enum Report {
    /// The handle of an error tracker, or NULL.
    Tracker(*const c_void),
    /// A status to be written, or NULL.
    Status(*mut i32),
}

/// The core and queue of a request, and the pointers for its sequence number and error.
#[derive(Clone, Copy)]
pub(crate) struct Destination {
    /// The core, if the caller chooses it.
    pub core: Option<c_int>,
    pub queue: c_int,
    pub report: Report,
    pub sequence: *mut u64,
}

impl Destination {
    /// The destination of a call of version 2.
    pub fn two(queue: c_int, tracker: *const c_void, sequence: *mut u64) -> Self {
        Self {
            core: None,
            queue,
            report: Report::Tracker(tracker),
            sequence,
        }
    }

    /// The destination of a copy, from the arguments after `size`. Version 2 has three: the fourth is
    /// then undefined and not used.
    pub fn of_copy([first, second, third, fourth]: [Word; 4]) -> Self {
        match AsyncApi::of_caller() {
            AsyncApi::Two => Self::two(number(first), second, third.cast()),
            AsyncApi::Three => Self {
                core: Some(number(first)),
                queue: number(second),
                report: Report::Status(third.cast()),
                sequence: fourth.cast(),
            },
        }
    }

    /// The destination of an execution or a collective operation, whose argument count is the same in
    /// both versions.
    pub fn of_work(queue: c_int, report: Word, sequence: *mut u64) -> Self {
        let report = match AsyncApi::of_caller() {
            AsyncApi::Two => Report::Tracker(report),
            AsyncApi::Three => Report::Status(report.cast()),
        };
        Self {
            core: None,
            queue,
            report,
            sequence,
        }
    }

    /// The unit of a copy; `unit` is the one of version 2.
    pub fn unit(&self, unit: ExecutionUnit) -> ExecutionUnit {
        match self.report {
            Report::Tracker(_) => unit,
            Report::Status(_) => ExecutionUnit::TensorOperation,
        }
    }
}
