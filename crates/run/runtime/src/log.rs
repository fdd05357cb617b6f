//! The log, in the line format of the accelerator's runtime (nrt 2.3).
//!
//! A [`Log`] is passed to its users; there is no global one. Its lines are
//!
//! ```text
//! 2025-Sep-19 18:57:20.782962  4444:4447  ERROR  NRT:nrt_load  model.neff: the header is cut short
//! ```
//!
//! date and time (UTC), process and thread, level, component and function, message. A message is
//! one line: control characters are escaped, so that a name in a package cannot forge a line.

mod level;
mod line;
mod sink;

pub use level::{Component, LogLevel};
pub use sink::LogSink;

use line::Line;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tenon_base::Error;

/// The socket of the system log.
const SYSLOG: &str = "/dev/log";

/// A log: its levels and its sink. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    levels: [LogLevel; Component::ALL.len()],
    sink: LogSink,
}

/// The log level of each component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLevels([LogLevel; Component::ALL.len()]);

impl Default for LogLevels {
    /// Errors of every component (nrt 1.8).
    fn default() -> Self {
        Self::all(LogLevel::Error)
    }
}

impl LogLevels {
    /// The same level for every component.
    pub fn all(level: LogLevel) -> Self {
        Self([level; Component::ALL.len()])
    }

    /// Sets the level of one component.
    pub fn with(mut self, component: Component, level: LogLevel) -> Self {
        self.0[component as usize] = level;
        self
    }
}

impl Log {
    /// A log of these levels to `sink`.
    pub fn new(levels: LogLevels, sink: LogSink) -> Self {
        let levels = levels.0;
        Self(Arc::new(Inner { levels, sink }))
    }

    /// The log configured by the environment: `NEURON_RT_LOG_LEVEL`,
    /// `NEURON_RT_LOG_LEVEL_COMPONENT` and `NEURON_RT_LOG_LOCATION`. Invalid values are reported in
    /// the log itself, and the defaults are used.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut complaints = Vec::new();
        let mut level = |name: &str| {
            let text = variable(name)?;
            let level = text.parse().ok();
            if level.is_none() {
                complaints.push(format!(
                    "{name} is '{text}': expected one of {}",
                    LogLevel::WORDS
                ));
            }
            level
        };
        let mut levels =
            level("NEURON_RT_LOG_LEVEL").map_or_else(LogLevels::default, LogLevels::all);
        for component in Component::ALL {
            if let Some(own) = level(&format!("NEURON_RT_LOG_LEVEL_{component}")) {
                levels = levels.with(component, own);
            }
        }
        let (sink, complaint) = location(variable("NEURON_RT_LOG_LOCATION").as_deref());
        let log = Self::new(levels, sink);
        for complaint in complaints.into_iter().chain(complaint) {
            log.error(Component::Nrt, "log", format_args!("{complaint}"));
        }
        log
    }

    /// Whether lines of this level are written; checked before work that only a log line requires.
    #[inline]
    pub fn is_enabled(&self, level: LogLevel, component: Component) -> bool {
        level <= self.0.levels[component as usize]
    }

    /// Writes a line if its level is enabled. Write errors are ignored: a failing log must not fail
    /// its process.
    pub fn write(
        &self,
        level: LogLevel,
        component: Component,
        function: &str,
        message: fmt::Arguments<'_>,
    ) {
        if !self.is_enabled(level, component) || level == LogLevel::Quiet {
            return;
        }
        let line = Line {
            time: SystemTime::now(),
            process: std::process::id(),
            thread: rustix::thread::gettid().as_raw_nonzero().get() as u32,
            level,
            component,
            function,
            message,
        };
        self.0.sink.write(&line);
    }

    /// A line of level `ERROR`.
    pub fn error(&self, component: Component, function: &str, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Error, component, function, message);
    }

    /// A line of level `WARN`.
    pub fn warning(&self, component: Component, function: &str, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Warning, component, function, message);
    }

    /// A line of level `INFO`.
    pub fn info(&self, component: Component, function: &str, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Info, component, function, message);
    }

    /// A line of level `DEBUG`.
    pub fn debug(&self, component: Component, function: &str, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Debug, component, function, message);
    }

    /// A line of level `TRACE`.
    pub fn trace(&self, component: Component, function: &str, message: fmt::Arguments<'_>) {
        self.write(LogLevel::Trace, component, function, message);
    }

    /// Writes every problem of an error as a line of level `ERROR`.
    pub fn problems(&self, component: Component, function: &str, error: &Error) {
        for problem in error.all() {
            self.error(component, function, format_args!("{}", problem.single()));
        }
    }
}

/// The sink of a location's name, and the message if the name is invalid or unavailable.
fn location(name: Option<&str>) -> (LogSink, Option<String>) {
    match name.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "console") => (LogSink::console(), None),
        Some("syslog") => match LogSink::syslog(PathBuf::from(SYSLOG)) {
            Ok(sink) => (sink, None),
            Err(error) => (
                LogSink::console(),
                Some(format!(
                    "{SYSLOG} is unavailable ({error}): logging to the console"
                )),
            ),
        },
        Some(other) => {
            let text = format!("NEURON_RT_LOG_LOCATION is '{other}': expected console or syslog");
            (LogSink::console(), Some(text))
        }
    }
}

#[cfg(test)]
mod tests;
