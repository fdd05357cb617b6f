//! `cargo xtask sanitize`: tests of memory and threads under the compiler's sanitizers.

use crate::{Result, output, root, run, target};
use clap::{Args, ValueEnum};
use std::process::Command;

/// What is run under which sanitizer.
#[derive(Args)]
pub struct Options {
    /// Only this one.
    #[arg(value_enum)]
    only: Option<Sanitizer>,
    /// Passed on to `cargo test` instead of the usual crates (a filter, or `-p CRATE`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sanitizer {
    /// Memory that is used after its end or beyond its bounds, and what is never freed.
    Address,
    /// Threads that use the same memory without order.
    Thread,
}

/// What is tested, but no examples of documentation, which are built without a sanitizer. The library
/// of C has a test of its own, for C programs of another compiler cannot use one with a sanitizer.
const TESTS: [&[&str]; 3] = [
    &["-p", "tenon-base", "-p", "tenon-tensor", "--lib"],
    &["-p", "tenon-runtime", "--tests"],
    &["-p", "tenon-nrt", "--lib", "--test", "threads"],
];

/// Builds the tests, and the standard library, with each sanitizer and runs them.
pub fn sanitize(options: &Options) -> Result<()> {
    let version = output(Command::new("rustup").args(["run", "nightly", "rustc", "-vV"])).map_err(
        |error| format!("{error}: rustup toolchain install nightly --component rust-src"),
    )?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc -vV tells no host")?;
    let sanitizers = match options.only {
        Some(sanitizer) => vec![sanitizer],
        None => vec![Sanitizer::Address, Sanitizer::Thread],
    };
    for sanitizer in sanitizers {
        if options.rest.is_empty() {
            for tests in TESTS {
                run(sanitizer.command(host).args(tests))?;
            }
        } else {
            run(sanitizer.command(host).args(&options.rest))?;
        }
    }
    Ok(())
}

impl Sanitizer {
    /// `cargo test` with it, in a target folder of its own.
    fn command(self, host: &str) -> Command {
        let name = match self {
            Self::Address => "address",
            Self::Thread => "thread",
        };
        let mut command = Command::new("rustup");
        command
            .current_dir(root())
            .args(["run", "nightly", "cargo", "test", "-Zbuild-std"])
            .args(["--target", host])
            .env("RUSTFLAGS", format!("-Zsanitizer={name}"))
            .env("CARGO_TARGET_DIR", target().join(name));
        command
    }
}
