//! Standard output, where a failure is an error and no panic: a full disk, a reader that went away.

use std::fmt::{Arguments, Display};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use tenon::neff::Severity;
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

/// The exit status of a command that says itself what went wrong.
pub fn status(succeeded: bool) -> ExitCode {
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tells what is to be told about a program, on standard error.
pub fn diagnostics(diagnostics: &[impl Display]) {
    for diagnostic in diagnostics {
        eprintln!("{diagnostic}");
    }
}

/// A line that says how bad something is: coloured on a terminal.
pub fn severity(severity: Severity, text: &str) -> String {
    match severity {
        Severity::Error => painted("31", text),
        Severity::Warning => painted("33", text),
        Severity::Note => text.to_owned(),
    }
}

/// Lines of a difference: on a terminal what is gone is red, what is new green.
pub fn changes(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.lines() {
        let color = match () {
            () if line.contains(": -") => Some("31"),
            () if line.contains(": +") => Some("32"),
            () => None,
        };
        shown.push_str(&color.map_or(line.to_owned(), |color| painted(color, line)));
        shown.push('\n');
    }
    shown
}

/// Text in a colour, where standard output is a terminal that wants colours (NO_COLOR).
fn painted(color: &str, text: &str) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match wanted && std::io::stdout().is_terminal() {
        true => format!("\x1b[{color}m{text}\x1b[0m"),
        false => text.to_owned(),
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
