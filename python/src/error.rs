//! Errors as Python exceptions: `tenon/_errors.py` has the classes.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tenon::{Error, ErrorKind};

/// Why a value of Python could not be read.
pub enum Failure {
    /// A method of the value raised.
    Raised(PyErr),
    /// The value is not suitable.
    Unsuitable(Error),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Unsuitable(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Raised(error) => error,
            Failure::Unsuitable(error) => exception(&error),
        }
    }
}

/// The class name in `tenon/_errors.py`.
fn class(error: &Error) -> String {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    let is_file = |source: &std::io::Error| source.kind() == std::io::ErrorKind::NotFound;
    if error.kind() == ErrorKind::NotFound && source.is_some_and(is_file) {
        return "FileNotFound".into();
    }
    format!("{:?}", error.kind())
}

/// The exception of an error, with its parts as attributes.
pub fn exception(error: &Error) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = Python::try_attach(|py| {
        let make = MAKE.import(py, "tenon._errors", "make_error")?;
        let place = error.location().to_string();
        let problems: Vec<String> = error
            .all()
            .map(|problem| problem.single().to_string())
            .collect();
        let exception = make.call1((
            class(error),
            error.to_string(),
            (!place.is_empty()).then_some(place),
            error.expected_text(),
            error.found_text(),
            error.help_text(),
            problems,
        ))?;
        Ok(PyErr::from_value(exception))
    });
    match made {
        Some(Ok(exception) | Err(exception)) => exception,
        None => pyo3::exceptions::PyRuntimeError::new_err(error.to_string()),
    }
}

/// Results of Tenon as results of Python.
pub trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for tenon::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

/// An `InvalidArgument`.
pub fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

/// The name of a value's class, for messages.
pub fn class_name(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type();
    let name = class.fully_qualified_name();
    name.map_or_else(|_| "an object".into(), |name| name.to_string())
}
