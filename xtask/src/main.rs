//! Project chores: `cargo xtask test`, `bench`, `models`, `conformance`, `docs`, `install`, `fuzz`,
//! `soak`, `miri`, `sanitize`, `loom`, `words`, `deny`,
//! `build-time`, `python`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for people"
)]

mod bench;
mod build_time;
mod conformance;
mod deny;
mod docs;
mod fuzz;
mod install;
mod kernel_page;
mod python;
mod sanitize;
mod words;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a chore answers: nothing, or a sentence.
type Result<T> = std::result::Result<T, String>;

/// Chores of the Tenon project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Prepare a Python environment in target/ and run every test.
    Test {
        /// Skip the comparisons that need Python.
        #[arg(long)]
        without_python: bool,
        /// Passed on to `cargo test` (a filter, or `-p CRATE`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Export the full-size models into target/models (installs PyTorch into target/).
    Models {
        /// Only these.
        names: Vec<String>,
    },
    /// Measure Tenon beside onnxruntime and print the table (and write docs/benchmarks.md).
    Bench(bench::Options),
    /// Run other projects' operator tests on the backends: a line for each failure, then the
    /// counts.
    Conformance(conformance::Options),
    /// Write docs/operators.md and docs/kernels.md from the tables of the program.
    Docs,
    /// Lay out libnrt.so.1, its headers and its pkg-config file under a prefix.
    Install(install::Options),
    /// Fuzz one reader with libFuzzer.
    Fuzz(fuzz::Options),
    /// Run the property tests with many more cases, the long comparisons of netlists, and libnrt
    /// for a million executions.
    Soak {
        /// Cases a property.
        #[arg(long, default_value_t = 20_000)]
        cases: u32,
        /// Passed on to `cargo test` (a filter, or `-p CRATE`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run the tests of crates with unsafe code under Miri (nightly).
    Miri {
        /// Passed on to `cargo miri test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run tests of memory and threads under the sanitizers of the compiler (nightly).
    Sanitize(sanitize::Options),
    /// Check the lock-free parts of the executor in every interleaving (loom).
    Loom {
        /// Only models whose path contains this.
        #[arg(default_value = "model")]
        filter: String,
    },
    /// Build `tenon` from nothing and print the processor time of each crate; fails when ours grew.
    BuildTime(build_time::Options),
    /// Check licences, duplicate versions, sources and advisories of the dependencies (cargo-deny), and
    /// write the list of those that were checked.
    Deny,
    /// Print every use of a word that the project avoids (xtask/words.txt).
    Words {
        /// Only these files and folders.
        paths: Vec<String>,
    },
    /// Print the path of the Python interpreter that the tests use, preparing it first.
    Python,
}

fn main() -> ExitCode {
    if let Some(code) = build_time::as_compiler() {
        return code;
    }
    let done = match Arguments::parse().chore {
        Chore::Test {
            without_python,
            rest,
        } => test(without_python, &rest),
        Chore::Models { names } => models(&names).map(|_| ()),
        Chore::Bench(options) => bench::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Docs => docs::write(),
        Chore::Install(options) => install::run_with(&options),
        Chore::Fuzz(options) => fuzz::fuzz(&options),
        Chore::Soak { cases, rest } => soak(cases, &rest),
        Chore::Miri { rest } => miri(&rest),
        Chore::Sanitize(options) => sanitize::sanitize(&options),
        Chore::Loom { filter } => loom(&filter),
        Chore::BuildTime(options) => build_time::build_time(&options),
        Chore::Deny => deny::deny(),
        Chore::Words { paths } => words::words(&paths),
        Chore::Python => python::for_tests().map(|path| println!("{}", path.display())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn test(without_python: bool, rest: &[String]) -> Result<()> {
    let mut command = cargo();
    command.arg("test");
    if !rest
        .iter()
        .any(|argument| argument == "-p" || argument == "--package")
    {
        command.arg("--workspace");
    }
    command.args(rest);
    if !without_python {
        command.env("TENON_PYTHON", python::for_tests()?);
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

/// Runs the property tests, optimised, with `cases` a property; without a filter also the netlists
/// that the plain implementation takes long for, and executions through libnrt from several
/// threads, loading and unloading between, a million of them.
fn soak(cases: u32, rest: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release"]);
    command.env("PROPTEST_CASES", cases.to_string());
    if !rest.is_empty() {
        return run(command.args(rest));
    }
    run(command.args(PROPERTIES.iter().flat_map(|name| ["-p", name])))?;
    let mut command = cargo();
    command.args([
        "test",
        "--release",
        "-p",
        "tenon",
        "--test",
        "netlist_agreement",
    ]);
    run(command.args(["--", "--ignored", "--nocapture"]))?;
    let mut command = cargo();
    command.args([
        "test",
        "--release",
        "-p",
        "tenon-nrt",
        "--test",
        "interface",
    ]);
    command.args(["nothing_grows_and_nothing_is_lost", "--", "--nocapture"]);
    run(command.env("TENON_SOAK", "1000000"))
}

/// Runs the tests of memory that is shared or lent, and of the numbers that stand for it, under
/// Miri.
fn miri(rest: &[String]) -> Result<()> {
    let command = || {
        let mut command = Command::new("rustup");
        command
            .current_dir(root())
            .args(["run", "nightly", "cargo", "miri"])
            // Temporary files and clocks of the tests are the machine's own.
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
    // Everything is built anew with these flags: in a folder of its own, so that other builds stay.
    run(command.env("CARGO_TARGET_DIR", target().join("loom")))
}

/// Exports the full-size models that are not there yet; answers their folder.
fn models(names: &[String]) -> Result<PathBuf> {
    let folder = target().join("models");
    let missing = |name: &&String| !folder.join(format!("{name}.npz")).exists();
    let wanted: Vec<&String> = names.iter().filter(missing).collect();
    if names.is_empty() || !wanted.is_empty() {
        let python = python::for_models()?;
        let mut command = Command::new(python);
        command
            .arg(root().join("models/export.py"))
            .arg("full")
            .arg(&folder)
            .args(wanted);
        run(&mut command)?;
    }
    Ok(folder)
}

/// The cargo that runs us.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The target folder, wherever cargo was told to put it.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command to its end; its failure is ours.
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

/// Runs a command to its end and answers what it printed.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|error| format!("{command:?} printed no text: {error}"))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {:?}: {error}", command.get_program())
}
