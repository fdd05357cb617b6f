//! Standard output, where a failure is an error and no panic: a full disk, a reader that went away.

use std::fmt::{Arguments, Display};
use std::io::Write;
use tenon::{Error, Result};

/// Prints a line.
pub fn line(text: Arguments<'_>) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").map_err(failed)
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(failed)
}

/// Tells what is to be told about a program, on standard error.
pub fn diagnostics(diagnostics: &[impl Display]) {
    for diagnostic in diagnostics {
        eprintln!("{diagnostic}");
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("standard output", "write", error)
}

/// `println!` that answers a [`Result`].
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;
