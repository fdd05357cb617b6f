//! Log levels and components.

use std::fmt;
use std::str::FromStr;

/// The level of a line; a log writes lines of its level and of the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// No line at all.
    Quiet,
    /// A failure.
    Error,
    /// Unexpected, but the operation continues.
    Warning,
    /// Events of the process: models loaded, cores claimed.
    Info,
    /// Calls.
    Debug,
    /// Steps of calls.
    Trace,
}

impl LogLevel {
    /// The accepted names, for messages.
    pub(super) const WORDS: &'static str = "QUIET, ERROR, WARNING (or WARN), INFO, DEBUG, TRACE";

    /// The syslog severity: 3 is error, 7 is debug.
    pub(super) fn severity(self) -> u8 {
        match self {
            LogLevel::Quiet | LogLevel::Error => 3,
            LogLevel::Warning => 4,
            LogLevel::Info => 6,
            LogLevel::Debug | LogLevel::Trace => 7,
        }
    }
}

impl FromStr for LogLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text.trim().to_ascii_uppercase().as_str() {
            "QUIET" => LogLevel::Quiet,
            "ERROR" => LogLevel::Error,
            "WARN" | "WARNING" => LogLevel::Warning,
            "INFO" => LogLevel::Info,
            "DEBUG" => LogLevel::Debug,
            "TRACE" => LogLevel::Trace,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LogLevel::Quiet => "QUIET",
            LogLevel::Error => "ERROR",
            LogLevel::Warning => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
            LogLevel::Trace => "TRACE",
        })
    }
}

/// The component of the runtime that logs, by the names of the accelerator's environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// The interface: calls and their arguments.
    Nrt,
    /// Models: loading, the graph walker, executions.
    Nmgr,
    /// The device: cores, memory, queues.
    Tdrv,
    /// Collectives.
    Enc,
}

impl Component {
    /// Every component.
    pub const ALL: [Self; 4] = [Self::Nrt, Self::Nmgr, Self::Tdrv, Self::Enc];
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Component::Nrt => "NRT",
            Component::Nmgr => "NMGR",
            Component::Tdrv => "TDRV",
            Component::Enc => "ENC",
        })
    }
}
