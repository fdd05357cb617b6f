//! All text output. Names in it come from untrusted files: control characters are escaped here. Exact
//! output (JSON, files written to `-`) is not changed. A failed write (a full disk, a closed pipe) is
//! an error, not a panic.

use std::borrow::Cow;
use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon::files::escape_lines;
use tenon::neff::Severity;
use tenon::{Count, Error, ErrorKind, Location, Result};

/// Whether standard output receives the bytes of a file instead of text.
static HOLDS_FILE: AtomicBool = AtomicBool::new(false);

/// Keeps text away from standard output where `path` says that a file goes there (`-`).
///
/// # Errors
/// When JSON is to go there as well.
pub fn reserve(path: &Path, json: bool) -> Result<()> {
    if !tenon::files::is_standard_stream(path) {
        return Ok(());
    }
    if json {
        let text = "standard output cannot take both a file (-) and JSON";
        return Err(Error::new(ErrorKind::Usage, text).help("name a file, or leave --json out"));
    }
    HOLDS_FILE.store(true, Ordering::Relaxed);
    Ok(())
}

/// A folder that files are written into, which standard output cannot be.
pub fn folder(path: &Path) -> Result<&Path> {
    if tenon::files::is_standard_stream(path) {
        return Err(
            Error::new(ErrorKind::Usage, "a folder cannot be standard output (-)")
                .expected("the name of a folder")
                .help("a folder of that name is ./-")
                .at(Location::file(path)),
        );
    }
    Ok(path)
}

/// Prints a line.
pub fn line(text: Arguments<'_>) -> Result<()> {
    print(&format!("{}\n", escape_lines(&text.to_string())))
}

/// Prints lines.
pub fn text(text: &str) -> Result<()> {
    print(&escape_lines(text))
}

/// Prints JSON, exactly: control characters that its strings hold as they are become `\u....`,
/// which reads back equal.
pub fn json(value: impl Display) -> Result<()> {
    let text = value.to_string();
    let is_raw = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    let mut shown = Cow::Borrowed(text.as_str());
    if text.contains(is_raw) {
        let escape = |c: char| {
            if is_raw(c) {
                format!("\\u{:04x}", u32::from(c))
            } else {
                c.to_string()
            }
        };
        shown = text.chars().map(escape).collect::<String>().into();
    }
    print(&format!("{shown}\n"))
}

/// Prints bytes as they are; on a terminal as text.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    tenon::files::write("-", bytes)
}

/// Standard output for the output of programs: exact, except on a terminal.
pub struct ProgramOutput {
    is_terminal: bool,
}

impl ProgramOutput {
    pub fn new() -> Self {
        Self {
            is_terminal: io::stdout().is_terminal(),
        }
    }
}

impl Write for ProgramOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return io::stdout().write(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        io::stdout().write_all(escape_lines(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

fn print(text: &str) -> Result<()> {
    if HOLDS_FILE.load(Ordering::Relaxed) {
        return Ok(());
    }
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Error::io("standard output", "write", error))
}

/// Prints a line on standard error; a failed write is ignored.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escape_lines(&text.to_string()));
}

/// Whether the reader of standard output, such as `head`, has closed it: not a failure.
pub fn is_broken_pipe(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The exit status of a command that has printed its errors.
pub fn status(succeeded: bool) -> ExitCode {
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the diagnostics of a program, on standard error.
pub fn diagnostics(diagnostics: &[impl Display]) {
    diagnostics.iter().for_each(complain);
}

/// Prints a finding, coloured by its severity on a terminal.
pub fn finding(severity: Severity, finding: impl Display) -> Result<()> {
    let color = match severity {
        Severity::Error => Some("31"),
        Severity::Warning => Some("33"),
        Severity::Note => None,
    };
    print(&format!("{}\n", painted(color, &finding.to_string())))
}

/// Prints lines of a difference: on a terminal what is gone is red, what is new green.
pub fn changes(text: &str) -> Result<()> {
    text.lines().try_for_each(|line| {
        let color = match () {
            () if line.contains(": -") => Some("31"),
            () if line.contains(": +") => Some("32"),
            () => None,
        };
        print(&format!("{}\n", painted(color, line)))
    })
}

/// Text in a colour, if standard output is a terminal and NO_COLOR is not set.
fn painted<'a>(color: Option<&str>, text: &'a str) -> Cow<'a, str> {
    let text = escape_lines(text);
    let colors_allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match color {
        Some(color) if colors_allowed && io::stdout().is_terminal() => {
            format!("\x1b[{color}m{text}\x1b[0m").into()
        }
        _ => text,
    }
}

/// A number and its noun: `1 error`, `2 errors`.
pub fn count(number: usize, noun: &str) -> String {
    Count(number, noun).to_string()
}

/// `println!` that returns a [`Result`].
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;
