//! The conformance kit: checks a backend, loaded or built in, against the interface.
//!
//! [`check_library`] opens a library as a runtime does, and [`check_backend`] calls every function
//! of a backend: support queries with reasons, invalid arguments, plans, workloads against
//! `CpuRef`, in place and with arbitrary memory contents, concurrent executions, memory leaks,
//! lifetimes, subgraphs, options, contexts, counters, the cache, allocators, tensor memory,
//! streams and parts of workloads. Absent features
//! are reported as skipped. A crash of a library ends the process: untrusted libraries are checked
//! in a separate process.

mod cache;
mod compare;
mod contexts;
mod counting;
mod leaks;
mod lifetime;
mod parts;
mod report;
mod samples;
mod streams;
mod support;
mod tensors;
mod workloads;

pub use report::{Check, Outcome, Report};

use std::path::Path;
use std::sync::Arc;
use tenon_backend::{Backend, BackendLibrary};

/// Checks a library: loading, then its backend.
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
        "" | "Unknown" => report.failed("id", "the id is reserved"),
        id => report.passed("id", id),
    }
    match library.backend() {
        Ok(backend) => check_all(&mut report, &backend, || library.backend().ok()),
        Err(problem) => report.failed("table", problem.to_string()),
    }
    report
}

/// Checks a backend; `create` returns another instance, if it can be created again.
pub fn check_backend(
    backend: &Arc<dyn Backend>,
    create: impl Fn() -> Option<Arc<dyn Backend>>,
) -> Report {
    let mut report = Report::new(backend.id().to_string());
    check_all(&mut report, backend, create);
    report
}

fn check_all(
    report: &mut Report,
    backend: &Arc<dyn Backend>,
    create: impl Fn() -> Option<Arc<dyn Backend>>,
) {
    report.backend = backend.id().to_string();
    report.passed("table", backend.description());
    support::check(report, &**backend);
    workloads::check(report, &**backend);
    lifetime::check(report, backend, create);
}
