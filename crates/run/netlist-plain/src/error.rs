//! Errors of a run: their kind, and the op or queue that they concern.

use tenon_base::{Error, ErrorKind, Location};
use tenon_netlist::Op;

/// An error of the execution.
pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}

/// An error with the op that it concerns.
pub(crate) fn of_op(op: &Op, error: Error) -> Error {
    error.at(Location::member(format!("op '{}'", op.name.value)))
}

/// An error with the queue or ram that it concerns.
pub(crate) fn of_queue(name: &str, error: Error) -> Error {
    error.at(Location::member(format!("queue '{name}'")))
}
