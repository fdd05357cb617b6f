//! Levels, and the components that log.

use std::fmt;
use std::str::FromStr;

/// How much a line matters; a log of one level tells that level and those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// No line at all.
    Quiet,
    /// Something failed.
    Error,
    /// Something is odd, and the work goes on.
    Warning,
    /// What the process does: models loaded, cores taken.
    Info,
    /// What one call does.
    Debug,
    /// What the steps of one call do.
    Trace,
}

impl LogLevel {
    /// The words that are read, for messages.
    pub(super) const WORDS: &'static str = "QUIET, ERROR, WARNING (or WARN), INFO, DEBUG, TRACE";

    /// The severity of the system's log: 3 is an error, 7 what debugging wants.
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

/// Who logs: the part of the runtime, by the names that clients' variables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// The interface: calls and their arguments.
    Nrt,
    /// Models: loading, the graph walker, executions.
    Nmgr,
    /// What stands for the device: cores, memory, queues.
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
