//! The `tenon` command: flags and glue; the work is in the crate `tenon`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "errors are told there")]

mod commands;
mod flags;
mod output;
mod progress;
mod table;

use clap::Parser;
use flags::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Compile(flags) => commands::compile::run(&flags),
        Command::Run(flags) => commands::run::run(&flags),
        Command::Bench(flags) => commands::bench::run(&flags),
        Command::Info(flags) => commands::info::run(&flags),
        Command::Disasm(flags) => commands::disasm::run(&flags),
        Command::Backends(flags) => commands::backends::run(&flags),
        Command::Completions(flags) => commands::manual::completions(&flags),
        Command::Man(_) => commands::manual::man(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A reader such as `head` that has enough is no failure.
        Err(error) if broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            for problem in error.all() {
                eprintln!("error: {}", problem.alone());
            }
            ExitCode::from(error.kind().exit_status())
        }
    }
}

fn broken_pipe(error: &tenon::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
