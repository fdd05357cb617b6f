//! `tenon opt`

use crate::output;
use crate::program_flags::Opt;
use std::process::ExitCode;
use tenon::host_program::{PrintOptions, ProgramInput, RewriteOptions, rewrite};
use tenon::{Result, files};

pub fn run(flags: &Opt) -> Result<ExitCode> {
    let input = ProgramInput::open(&flags.input)?;
    let print = PrintOptions {
        generic: flags.generic,
        locations: flags.locations,
        ..PrintOptions::default()
    };
    let options = RewriteOptions::new()
        .split_input_file(flags.split_input_file)
        .verify_diagnostics(flags.verify_diagnostics)
        .allow_unregistered(flags.allow_unregistered)
        .inline(flags.inline)
        .canonicalize(flags.canonicalize)
        .print_streams(flags.print_streams)
        .print(print);
    let done = rewrite(&input, &options);
    output::diagnostics(&done.diagnostics);
    if done.succeeded {
        files::write(&flags.output, &done.output)?;
    }
    Ok(output::status(done.succeeded))
}
