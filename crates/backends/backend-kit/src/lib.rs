//! The conformance kit: whether a backend keeps what the interface promises, library or built in.
//!
//! [`check_library`] opens a library as a runtime does and [`check_backend`] asks a backend
//! everything that it can be asked: support with reasons, wrong arguments, plans, workloads beside
//! `CpuRef`, in place and over whatever memory holds, many threads, memory given back, what is made
//! outliving its maker, subgraphs, options, contexts, counters, allocators, tensor memory. What a
//! backend does not have is skipped and says so. A library that crashes takes the process with it:
//! whoever checks strangers does it in a process of its own.

mod compare;
mod contexts;
mod counting;
mod leaks;
mod lifetime;
mod report;
mod samples;
mod support;
mod tensors;
mod workloads;

pub use report::{Check, Outcome, Report};

use std::path::Path;
use std::sync::Arc;
use tenon_backend::{Backend, BackendLibrary};

/// Checks a library: that it can be loaded, then its backend.
pub fn check_library(path: &Path) -> Report {
    let mut report = Report::new(path.display().to_string());
    let library = match BackendLibrary::open(path) {
        Ok(library) => library,
        Err(problem) => {
            report.failed("exports and version", problem.to_string());
            return report;
        }
    };
    let (major, minor) = library.version();
    report.backend = library.id().to_owned();
    report.passed("exports and version", format!("interface {major}.{minor}"));
    match library.id() {
        "" | "Unknown" => report.failed("id", "it stands for no backend"),
        id => report.passed("id", id),
    }
    match library.backend() {
        Ok(backend) => check_all(&mut report, &backend, || library.backend().ok()),
        Err(problem) => report.failed("table", problem.to_string()),
    }
    report
}

/// Checks a backend; `again` makes another of the same, when it can be made again.
pub fn check_backend(
    backend: &Arc<dyn Backend>,
    again: impl Fn() -> Option<Arc<dyn Backend>>,
) -> Report {
    let mut report = Report::new(backend.id().to_string());
    check_all(&mut report, backend, again);
    report
}

fn check_all(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    again: impl Fn() -> Option<Arc<dyn Backend>>,
) {
    report.backend = backend.id().to_string();
    report.passed("table", backend.description());
    support::check(report, &**backend);
    workloads::check(report, &**backend);
    lifetime::check(report, backend, again);
}
