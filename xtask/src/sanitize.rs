//! `cargo xtask sanitize`: tests under AddressSanitizer and ThreadSanitizer.

use crate::{Result, output, root, run, target};
use clap::{Args, ValueEnum};
use std::process::Command;

/// Options of `cargo xtask sanitize`.
#[derive(Args)]
pub struct Options {
    /// Run only this sanitizer.
    #[arg(value_enum)]
    only: Option<Sanitizer>,
    /// Passed on to `cargo test` in place of the default crates (a filter, or `-p CRATE`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sanitizer {
    /// AddressSanitizer: use after free, accesses out of bounds, leaks.
    Address,
    /// ThreadSanitizer: data races.
    Thread,
}

/// The tests, without doc tests, which rustdoc builds without a sanitizer. The C library is tested by
/// `threads` alone: C programs built without a sanitizer cannot load a library built with one.
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
        .ok_or("the output of rustc -vV has no host")?;
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
    /// `cargo test` with this sanitizer, in a separate target folder.
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
