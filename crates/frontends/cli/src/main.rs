//! The `tenon` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tenon_cli::main(std::env::args_os())
}
