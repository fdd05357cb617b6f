//! The report of the kit.

use std::fmt;
use tenon_base::Result;

/// The checks of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The subject: a library's path, or a backend's id.
    pub subject: String,
    /// The backend's id; empty if unknown.
    pub backend: String,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Its outcome.
    pub outcome: Outcome,
    /// Observations, or the reason of failure or skipping.
    pub text: String,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl Report {
    pub(crate) fn new(subject: String) -> Self {
        Self {
            subject,
            backend: String::new(),
            checks: Vec::new(),
        }
    }

    /// Number of checks with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        let all = self.checks.iter();
        all.filter(|check| check.outcome == outcome).count()
    }

    /// The report of a crash, for callers that check in a separate process.
    pub fn crashed(subject: String, how: String) -> Self {
        let mut report = Self::new(subject);
        report.failed("the process survives", how);
        report
    }

    pub(crate) fn passed(&mut self, name: &'static str, text: impl Into<String>) {
        self.add(name, Outcome::Passed, text);
    }

    pub(crate) fn failed(&mut self, name: &'static str, text: impl Into<String>) {
        self.add(name, Outcome::Failed, text);
    }

    pub(crate) fn skipped(&mut self, name: &'static str, text: impl Into<String>) {
        self.add(name, Outcome::Skipped, text);
    }

    /// Adds the result of a check: its observations, or the failure.
    pub(crate) fn result(&mut self, name: &'static str, result: Result<String>) {
        match result {
            Ok(text) => self.passed(name, text),
            Err(error) => self.failed(name, error.to_string()),
        }
    }

    /// Adds a check of `count` cases with all its problems.
    pub(crate) fn problems(&mut self, name: &'static str, count: usize, problems: &[String]) {
        match (count, problems) {
            (0, []) => self.skipped(name, "no case applies"),
            (count, []) => self.passed(name, format!("{count} checked")),
            (_, problems) => self.failed(name, problems.join("; ")),
        }
    }

    fn add(&mut self, name: &'static str, outcome: Outcome, text: impl Into<String>) {
        let text = text.into();
        self.checks.push(Check {
            name,
            outcome,
            text,
        });
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            writeln!(f, "{:8}{}: {}", check.outcome, check.name, check.text)?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.count(Outcome::Passed),
            self.count(Outcome::Failed),
            self.count(Outcome::Skipped)
        )
    }
}
