//! `cargo xtask conformance`: the operator tests of other projects, on each backend.
//!
//! A case is run twice: its graph compiled into a package, loaded and executed, and node by node
//! through the backend interface without optimisation, so that fused and plain kernels are both run.
//! Nodes that the backend does not support run on `CpuRef`; the report counts them.

mod armnn;
mod compare;
mod onnx_node;
mod page;
mod report;
mod runner;

use crate::{Result, python};
use regex_lite::Regex;
use report::{Report, Verdict};
use runner::Runner;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_graph::Graph;
use tenon_tensor::{ModelValue, Tensor};

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub struct Options {
    /// The layer tests of Arm NN in this file (JSON lines, gzip).
    #[arg(long, value_name = "FILE.jsonl.gz")]
    armnn: Option<PathBuf>,
    /// The node tests of the `onnx` package in the tests' Python environment.
    #[arg(long)]
    onnx_node: bool,
    /// Only this backend; default: all.
    #[arg(long, value_name = "ID")]
    backend: Option<String>,
    /// Load the backends of the libraries in this folder; a built-in one of the same name is replaced.
    #[arg(long, value_name = "DIR")]
    backend_path: Option<PathBuf>,
    /// Use vector instructions up to this level: baseline, avx2, avx512 or native.
    #[arg(long, value_name = "LEVEL", conflicts_with = "write")]
    cpu: Option<CpuLevel>,
    /// Print the reports as JSON.
    #[arg(long, conflicts_with = "write")]
    json: bool,
    /// Write docs/conformance.md: both suites, whole, on all built-in backends.
    #[arg(long, requires = "armnn", requires = "onnx_node", conflicts_with_all = ["backend", "backend_path", "filter"])]
    write: bool,
    /// Only cases whose name contains this.
    filter: Option<String>,
}

/// A case of a suite.
struct Case {
    name: String,
    /// Its row in the table of groups: a layer, or an operator.
    group: String,
    trials: std::result::Result<Vec<Trial>, NotRun>,
}

/// The reason why a case is not run.
enum NotRun {
    /// A gap in the data, or a known limitation; listed on the page.
    Skipped(String),
    /// An error of reading or translating it.
    Refused(String),
}

/// A graph, its inputs and the check of its outputs.
struct Trial {
    graph: Graph,
    inputs: BTreeMap<String, Tensor>,
    /// The inputs that are sequences or optional.
    values: BTreeMap<String, ModelValue>,
    check: Box<Check>,
}

/// Compares the outputs with the expected ones; the error describes the difference.
type Check = dyn Fn(&[ModelValue]) -> std::result::Result<(), String>;

/// The cases of one source.
struct Suite {
    name: &'static str,
    /// The source of the cases, for the page.
    source: String,
    cases: Vec<Case>,
    /// Cases that are known not to pass.
    known: Vec<KnownCases>,
}

/// Cases that are known not to pass.
struct KnownCases {
    /// A pattern of their names.
    pattern: Regex,
    reason: String,
    /// Whether they run, with other values than the expected ones; else they are refused.
    run: bool,
}

impl Suite {
    /// The first entry that matches the name of a case. The variant of an operator as a function of
    /// others (`_expanded`) is only matched by a pattern that contains this suffix.
    fn known(&self, name: &str) -> Option<&KnownCases> {
        let expanded = |text: &str| text.contains("_expanded");
        self.known.iter().find(|known| {
            known.pattern.is_match(name) && (expanded(known.pattern.as_str()) || !expanded(name))
        })
    }

    /// Runs the cases that `filter` accepts on one backend.
    fn run(&self, runner: &Runner, filter: &str) -> Report {
        let chosen = self.cases.iter().filter(|case| case.name.contains(filter));
        let mut report = Report::new(self.name, runner.backend());
        for case in chosen {
            let known = self.known(&case.name);
            let skipped = |known: &KnownCases| Verdict::Skipped(known.reason.clone());
            let verdict = match (&case.trials, known) {
                (Err(NotRun::Skipped(reason)), _) => Verdict::Skipped(reason.clone()),
                (Err(NotRun::Refused(_)), Some(known)) => skipped(known),
                (Err(NotRun::Refused(reason)), None) => Verdict::Failed(reason.clone()),
                (Ok(trials), known) => match (runner.run(trials), known) {
                    (Ok(_), Some(_)) => {
                        Verdict::Failed("passes, but is listed as unsupported".into())
                    }
                    (Ok(share), None) => Verdict::Passed(share),
                    (Err(runner::Failure::Refused(_)), Some(known)) => skipped(known),
                    (Err(_), Some(known)) if known.run => skipped(known),
                    (Err(failure), _) => Verdict::Failed(failure.to_string()),
                },
            };
            report.add(case, verdict);
        }
        report
    }
}

/// Runs the selected suites; a failed case is an error.
pub fn run(options: &Options) -> Result<()> {
    if let Some(level) = options.cpu {
        level.limit_to();
    }
    let mut suites = Vec::new();
    if let Some(file) = &options.armnn {
        suites.push(armnn::suite(file)?);
    }
    if options.onnx_node {
        let python = std::env::var_os("TENON_PYTHON").map(PathBuf::from);
        let python = python.map_or_else(python::for_tests, Ok)?;
        suites.push(onnx_node::suite(&python)?);
    }
    if suites.is_empty() {
        return Err("nothing to run: give --armnn FILE.jsonl.gz, --onnx-node or both".into());
    }
    let registry = backends(options.backend_path.as_deref())?;
    let backends = chosen(&registry, options.backend.as_deref())?;
    let filter = options.filter.as_deref().unwrap_or("");
    let (mut reports, mut sections) = (Vec::new(), Vec::new());
    for suite in &suites {
        let first = reports.len();
        for backend in &backends {
            let report = suite.run(&Runner::new(&registry, backend.clone()), filter);
            if !options.json {
                print!("{report}");
            }
            reports.push(report);
        }
        sections.push(page::section(suite, &reports[first..]));
    }
    if options.write {
        page::write(&sections)?;
    }
    if options.json {
        let text = serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?;
        println!("{text}");
    } else if reports.len() > 1 {
        println!("{}", report::total(&reports));
    }
    match reports.iter().map(Report::failed).sum::<usize>() {
        0 => Ok(()),
        failed => Err(format!("{failed} cases failed")),
    }
}

/// The backends of the libraries in a folder, and the built-in ones with other names.
fn backends(folder: Option<&Path>) -> Result<Registry> {
    let mut registry = Registry::new();
    if let Some(folder) = folder {
        for warning in registry.load_backends(Some(folder)) {
            eprintln!("warning: {warning}");
        }
    }
    for backend in tenon_builtin::registry().iter() {
        if registry.find(&backend.id()).is_none() {
            registry
                .register(backend.clone())
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(registry)
}

/// The backend called `name`, or all.
fn chosen(registry: &Registry, name: Option<&str>) -> Result<Vec<BackendId>> {
    let all: Vec<BackendId> = registry.iter().map(|backend| backend.id()).collect();
    let Some(name) = name else { return Ok(all) };
    let found: Vec<_> = all.into_iter().filter(|id| id.as_str() == name).collect();
    if found.is_empty() {
        let available = registry.names();
        return Err(format!(
            "no backend is called '{name}'; available: {available}"
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
