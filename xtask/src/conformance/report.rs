//! The result of a suite on a backend, as lines and as JSON.

use super::Case;
use super::runner::Share;
use serde::Serialize;
use std::fmt;
use tenon_backend::BackendId;

/// The result of a case.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "detail")]
pub(super) enum Verdict {
    Passed(Share),
    /// The error.
    Failed(String),
    /// The reason.
    Skipped(String),
}

/// A case and its result.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) group: String,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// The results of a suite on a backend.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) suite: &'static str,
    pub(super) backend: String,
    pub(super) rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(suite: &'static str, backend: &BackendId) -> Self {
        Self {
            suite,
            backend: backend.to_string(),
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, case: &Case, verdict: Verdict) {
        self.rows.push(Row {
            name: case.name.clone(),
            group: case.group.clone(),
            verdict,
        });
    }

    fn count(&self, of: impl Fn(&Verdict) -> bool) -> usize {
        self.rows.iter().filter(|row| of(&row.verdict)).count()
    }

    pub(super) fn passed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Passed(_)))
    }

    pub(super) fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    pub(super) fn skipped(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    /// The counts of passed cases of which the backend computed all nodes, and some nodes.
    pub(super) fn shares(&self) -> (usize, usize) {
        let of = |accepts: fn(&Share) -> bool| {
            self.count(|verdict| matches!(verdict, Verdict::Passed(share) if accepts(share)))
        };
        (
            of(|share| share.others == 0),
            of(|share| share.others > 0 && share.own > 0),
        )
    }
}

impl fmt::Display for Report {
    /// A line for each failure, one for the share of the backend, and the counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.suite, self.backend)?;
        for row in &self.rows {
            if let Verdict::Failed(reason) = &row.verdict {
                writeln!(f, "failed: {}: {reason}", row.name)?;
            }
        }
        let (all, some) = self.shares();
        let none = self.passed() - all - some;
        if some + none > 0 {
            writeln!(
                f,
                "of the passed cases, {} computed all nodes in {all}, some nodes in {some}, none in {none}",
                self.backend
            )?;
        }
        writeln!(f, "{}", total([self]))
    }
}

/// `3 passed, 0 failed, 1 skipped` over several reports.
pub(super) fn total<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for report in reports {
        passed += report.passed();
        failed += report.failed();
        skipped += report.skipped();
    }
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}
