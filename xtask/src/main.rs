//! Development tasks: `cargo xtask test`, `bench`, `models`, `conformance`, `docs`, `book`, `install`, `wheel`,
//! `dist`, `zoo`, `fuzz`, `soak`, `serve-load`, `miri`, `sanitize`, `loom`, `words`, `deny`, `build-time`, `python`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

mod bench;
mod book;
mod build_time;
mod conformance;
mod deny;
mod dist;
mod docs;
mod fast_page;
mod fuzz;
mod install;
mod installed;
mod kernel_page;
mod markdown;
mod operator_support;
mod operator_tests;
mod python;
mod python_package;
mod rule_table;
mod sanitize;
mod section;
mod tools;
mod wheel;
mod words;
mod zoo;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The result of a task; the error is a message.
type Result<T> = std::result::Result<T, String>;

/// Development tasks of Tenon.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Prepare a Python environment in target/ and run every test.
    Test {
        /// Skip the comparisons that need Python.
        #[arg(long)]
        without_python: bool,
        /// Install PyTorch and JAX as well (3 GB), and run the tests of the Python package with them.
        #[arg(long, conflicts_with = "without_python")]
        torch: bool,
        /// Install Ray, Dask and Spark as well (2 GB), and run the tests of the Python package with them.
        #[arg(long, conflicts_with_all = ["without_python", "torch"])]
        engines: bool,
        /// Passed on to `cargo test` (a filter, or `-p CRATE`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Export the full-size models into target/models (installs PyTorch into target/).
    Models {
        /// Export only these models.
        names: Vec<String>,
    },
    /// Measure Tenon and onnxruntime and print the table (--write: also into docs/benchmarks.md).
    Bench(bench::Options),
    /// Run the operator tests of ONNX and Arm NN on the backends: print each failure, then the counts.
    Conformance(conformance::Options),
    /// Write docs/operators.md, docs/fast.md, docs/kernels.md, docs/python-api.md and the rules of docs/neff.md from the
    /// source.
    Docs,
    /// Build the pages as a book in target/book and check its links.
    ///
    /// docs/SUMMARY.md lists the pages of docs/ and those beside it. They are copied into target/book-source: links to pages lead
    /// to pages of the book, other links to the files of this checkout, and comments for the tests of pages
    /// (`<!-- test: -->`) are left out. mdBook, installed into target/tools, makes the book. Then each link
    /// of the built pages must lead to a file, and to an anchor in it; external links are counted, not opened.
    Book,
    /// Install the command, the libraries with their headers, completions and the manual under a prefix.
    Install(install::Options),
    /// Build the wheel of the Python package, check it, install it from the sources into a fresh environment and
    /// use it there.
    Wheel(wheel::Options),
    /// Build what is released into a folder: command, libraries, headers, wheel, source distribution, list of components.
    Dist(dist::Options),
    /// Export the models of models/zoo.txt, compile each, compare it with onnxruntime, and print the counts.
    Zoo(zoo::Options),
    /// Fuzz one reader with libFuzzer.
    Fuzz(fuzz::Options),
    /// Run the property tests with many cases, the long netlist comparisons, and a million executions
    /// through libnrt.
    Soak {
        /// Cases per property.
        #[arg(long, default_value_t = 20_000)]
        cases: u32,
        /// Passed on to `cargo test` (a filter, or `-p CRATE`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run tenon serve under load with faults: clients check every answer while others break their connections, are
    /// slow or are killed, and models are replaced.
    ServeLoad {
        /// How long.
        #[arg(long, default_value_t = 3600)]
        seconds: u32,
    },
    /// Run the tests of crates with unsafe code under Miri (nightly).
    Miri {
        /// Passed on to `cargo miri test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run tests under AddressSanitizer and ThreadSanitizer (nightly).
    Sanitize(sanitize::Options),
    /// Check the lock-free parts of the executor in every interleaving (loom).
    Loom {
        /// Run only the models whose path contains this.
        #[arg(default_value = "model")]
        filter: String,
    },
    /// Build `tenon` from an empty target folder, print the processor time of each crate, and fail if
    /// the time of Tenon's crates grew.
    BuildTime(build_time::Options),
    /// Check licences, duplicate versions, sources and advisories of the dependencies (cargo-deny), and
    /// write the list of those that were checked.
    Deny,
    /// Print every use of a word that the project avoids (xtask/words.txt).
    Words {
        /// Check only these files and folders.
        paths: Vec<String>,
    },
    /// Print the path of the Python interpreter that the tests use, preparing it first.
    Python,
}

fn main() -> ExitCode {
    if let Some(code) = build_time::as_compiler() {
        return code;
    }
    let done = match Arguments::parse().task {
        Task::Test {
            without_python,
            torch,
            engines,
            rest,
        } => test(without_python, torch, engines, &rest),
        Task::Models { names } => models(&names).map(|_| ()),
        Task::Bench(options) => bench::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Docs => docs::write(),
        Task::Book => book::book(),
        Task::Install(options) => install::install(&options),
        Task::Wheel(options) => wheel::wheel(&options),
        Task::Dist(options) => dist::dist(&options),
        Task::Zoo(options) => zoo::zoo(&options),
        Task::Fuzz(options) => fuzz::fuzz(&options),
        Task::Soak { cases, rest } => soak(cases, &rest),
        Task::ServeLoad { seconds } => serve_load(seconds),
        Task::Miri { rest } => miri(&rest),
        Task::Sanitize(options) => sanitize::sanitize(&options),
        Task::Loom { filter } => loom(&filter),
        Task::BuildTime(options) => build_time::build_time(&options),
        Task::Deny => deny::deny(),
        Task::Words { paths } => words::words(&paths),
        Task::Python => python::for_tests().map(|path| println!("{}", path.display())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn test(without_python: bool, torch: bool, engines: bool, rest: &[String]) -> Result<()> {
    let mut command = cargo();
    command.arg("test");
    if (torch || engines) && rest.is_empty() {
        command.args(["--package", "xtask", "--test", "python"]);
    } else if !rest
        .iter()
        .any(|argument| argument == "-p" || argument == "--package")
    {
        command.arg("--workspace");
    }
    command.args(rest);
    if torch {
        command.env("TENON_PYTHON", python::with_torch()?);
    } else if engines {
        command.env("TENON_PYTHON", python::with_engines()?);
    } else if !without_python {
        command.env("TENON_PYTHON", python::for_tests()?);
        command.env("TENON_CLIENTS_PYTHON", python::for_clients()?);
    }
    run(&mut command)
}

/// Crates with property tests.
const PROPERTIES: [&str; 11] = [
    "tenon-tensor",
    "tenon-dma",
    "tenon-graph",
    "tenon-bef",
    "tenon-neff",
    "tenon-netlist",
    "tenon-onnx",
    "tenon-kernels",
    "tenon-compiler",
    "tenon-runtime",
    "tenon",
];

/// Runs the property tests, optimised, with `cases` per property. Without a filter also the netlists
/// that are slow in the plain implementation, and a million executions through libnrt from several
/// threads that load and unload the model.
fn soak(cases: u32, rest: &[String]) -> Result<()> {
    let test = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(["test", "--release"]).args(arguments);
        command
    };
    let mut properties = test(&[]);
    properties.env("PROPTEST_CASES", cases.to_string());
    if !rest.is_empty() {
        return run(properties.args(rest));
    }
    run(properties.args(PROPERTIES.iter().flat_map(|name| ["-p", name])))?;
    let mut netlists = test(&["-p", "tenon", "--test", "netlist_agreement"]);
    run(netlists.args(["--", "--ignored", "--nocapture"]))?;
    let mut executions = test(&["-p", "tenon-nrt", "--test", "interface"]);
    executions.args(["nothing_grows_and_nothing_is_lost", "--", "--nocapture"]);
    run(executions.env("TENON_SOAK", "1000000"))
}

fn serve_load(seconds: u32) -> Result<()> {
    run(cargo().args(["build", "--release", "--package", "tenon-cli"]))?;
    let folder = target().join("serve-load");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    let mut script = Command::new(python::for_clients()?);
    script.arg(root().join("xtask/python/serve_load.py"));
    script.arg(target().join("release/tenon"));
    script.arg(root().join("crates/frontends/serve/tests/data"));
    run(script.arg(folder).arg(seconds.to_string()))
}

/// Runs the tests of shared and borrowed memory, and of handles, under Miri.
fn miri(rest: &[String]) -> Result<()> {
    let command = || {
        let mut command = Command::new("rustup");
        command
            .current_dir(root())
            .args(["run", "nightly", "cargo", "miri"])
            // The tests use temporary files and clocks of the machine.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command
    };
    let version = command().arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(
            "Miri is not installed: rustup toolchain install nightly --component miri".into(),
        );
    }
    if !rest.is_empty() {
        return run(command().arg("test").args(rest));
    }
    let parts = [
        ("tenon-tensor", "buffer"),
        ("tenon-runtime", "tensors::"),
        ("tenon-nrt", "handles"),
    ];
    parts.iter().try_for_each(|(package, tests)| {
        run(command().args(["test", "-p", package, "--lib", tests]))
    })
}

/// Runs the models of the executor's lock-free parts: the tests in modules named `model`.
fn loom(filter: &str) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--lib", "-p", "tenon-executor", filter]);
    command.env("RUSTFLAGS", "--cfg loom");
    // These flags rebuild every crate: a separate target folder keeps the artifacts of other builds.
    run(command.env("CARGO_TARGET_DIR", target().join("loom")))
}

/// Exports the missing full-size models and returns their folder.
fn models(names: &[String]) -> Result<PathBuf> {
    let folder = target().join("models");
    // Models with symbolic dimensions have several samples.
    let sample = |name: &str, ending: &str| folder.join(format!("{name}.{ending}")).exists();
    let missing = |name: &&String| !sample(name, "npz") && !sample(name, "1.npz");
    let missing: Vec<&String> = names.iter().filter(missing).collect();
    if names.is_empty() || !missing.is_empty() {
        let python = python::for_models()?;
        let mut command = Command::new(python);
        command
            .arg(root().join("models/export.py"))
            .arg("full")
            .arg(&folder)
            .args(missing);
        run(&mut command)?;
    }
    Ok(folder)
}

/// A command for the cargo that runs this program, in the root folder.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The root folder of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The target folder: `CARGO_TARGET_DIR`, or `target`.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command; a failure status is an error.
fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}"))
    }
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|error| format!("{command:?}: the output is not UTF-8: {error}"))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {:?}: {error}", command.get_program())
}
