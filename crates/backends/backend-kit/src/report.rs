//! What the kit found.

use std::fmt;
use tenon_base::Result;

/// The checks of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was checked: a library's path, or a backend's id.
    pub subject: String,
    /// The backend's id, empty when it is not known.
    pub backend: String,
    /// Each check, in order.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it went.
    pub outcome: Outcome,
    /// What was seen, why it failed, or why it was skipped.
    pub text: String,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
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

    /// How many checks went so.
    pub fn count(&self, outcome: Outcome) -> usize {
        let all = self.checks.iter();
        all.filter(|check| check.outcome == outcome).count()
    }

    /// A check that a crash kept from ending, for whoever checks in another process.
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

    /// Adds what a check answered: what was seen, or what is wrong.
    pub(crate) fn told(&mut self, name: &'static str, answer: Result<String>) {
        match answer {
            Ok(text) => self.passed(name, text),
            Err(error) => self.failed(name, error.to_string()),
        }
    }

    /// Adds a check of many things: every problem, or that there was none among `count`.
    pub(crate) fn problems(&mut self, name: &'static str, count: usize, problems: &[String]) {
        match (count, problems) {
            (0, []) => self.skipped(name, "nothing to check it on"),
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
