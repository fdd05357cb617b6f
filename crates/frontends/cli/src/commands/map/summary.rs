//! What became of the files.

use super::job::Job;
use crate::output::{self, say};
use crate::table::duration;
use serde_json::json;
use std::time::Duration;
use tenon::Result;

/// The files of a run, by what became of them.
#[derive(Default)]
pub struct Summary {
    pub files: usize,
    pub skipped: usize,
    pub done: usize,
    pub failed: Vec<FailedFile>,
    pub rows: u64,
    pub time: Duration,
}

/// A file without an output.
pub struct FailedFile {
    /// The file, or the files of several inputs.
    pub file: String,
    pub problems: Vec<String>,
}

impl Summary {
    /// Files that were not processed, because the run was stopped.
    pub fn left(&self) -> usize {
        self.files - self.skipped - self.done - self.failed.len()
    }

    /// Whether a worker has processed a file.
    pub fn has_results(&self) -> bool {
        self.done + self.failed.len() > 0
    }

    /// Rows a second.
    pub fn rate(&self) -> f64 {
        self.rows as f64 / self.time.as_secs_f64().max(1e-9)
    }

    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return self.print_json();
        }
        let mut parts = vec![format!("{} done", self.done)];
        let others = [
            (self.skipped, "complete before"),
            (self.failed.len(), "failed"),
            (self.left(), "left"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        parts.extend(others.map(|(count, text)| format!("{count} {text}")));
        let mut line = format!(
            "{}: {}",
            output::count(self.files, "file"),
            parts.join(", ")
        );
        if self.done > 0 {
            let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
            line += &format!(
                "; {} in {}, {:.1} rows/s",
                output::count(rows, "row"),
                duration(self.time),
                self.rate()
            );
        }
        say!("{line}")
    }

    fn print_json(&self) -> Result<()> {
        let failed = self.failed.iter();
        let failed = failed.map(|it| json!({"file": it.file, "reasons": it.problems}));
        output::json(json!({
            "files": self.files,
            "done": self.done,
            "skipped": self.skipped,
            "failed": failed.collect::<Vec<_>>(),
            "left": self.left(),
            "rows": self.rows,
            "seconds": self.time.as_secs_f64(),
        }))
    }

    /// Prints the problems of all files on standard error, and the remedy.
    pub fn complain(&self) {
        complain_of(&self.failed);
        if !self.failed.is_empty() {
            let files = output::count(self.files, "file");
            let failed = self.failed.len();
            output::complain(format_args!(
                "error: {failed} of {files} failed; the same command tries them again"
            ));
        }
    }
}

/// Prints the problems of files on standard error.
pub fn complain_of(files: &[FailedFile]) {
    for problem in files.iter().flat_map(|file| &file.problems) {
        output::complain(format_args!("error: {problem}"));
    }
}

/// Prints what a run would do.
pub fn print_plan(complete: &[&Job], pending: &[&Job], json: bool) -> Result<()> {
    if json {
        let files = |jobs: &[&Job]| jobs.iter().map(|job| job.text()).collect::<Vec<_>>();
        return output::json(json!({
            "files": complete.len() + pending.len(),
            "skipped": files(complete),
            "pending": files(pending),
        }));
    }
    for job in complete {
        say!("complete  {} -> {}", job.text(), job.output.display())?;
    }
    for job in pending {
        say!("pending   {} -> {}", job.text(), job.output.display())?;
    }
    let files = output::count(complete.len() + pending.len(), "file");
    say!(
        "{files}: {} complete, {} pending",
        complete.len(),
        pending.len()
    )
}
