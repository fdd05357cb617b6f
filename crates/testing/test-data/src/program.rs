//! Programs that tests run, and what they print.

use crate::repository;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

/// What a program has printed, and its exit status.
#[derive(Debug)]
pub struct Answer {
    /// The exit status; `None` where a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl Answer {
    /// Runs a program to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        match command.output() {
            Ok(output) => output.into(),
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// Runs a program, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn text(command: &mut Command) -> String {
        let Self { status, out, err } = Self::of(command);
        assert_eq!(status, Some(0), "{command:?}:\n{out}\n{err}");
        out
    }

    /// The program must have succeeded.
    #[track_caller]
    pub fn assert_success(self) -> Self {
        assert_eq!(self.status, Some(0), "{}\n{}", self.out, self.err);
        self
    }
}

/// The Python interpreter of `TENON_PYTHON`, which has the packages of `tests/python`; prints a note without it.
pub fn interpreter() -> Option<OsString> {
    let python = std::env::var_os("TENON_PYTHON");
    if python.is_none() {
        eprintln!("skipped: TENON_PYTHON is not set (cargo xtask test sets it)");
    }
    python
}

/// A script of the repository in this interpreter.
pub fn python(script: impl AsRef<Path>) -> Option<Command> {
    let mut command = Command::new(interpreter()?);
    command.arg(repository(script));
    Some(command)
}
