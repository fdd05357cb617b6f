//! `tenon translate`

use crate::output;
use crate::program_flags::Translate;
use std::process::ExitCode;
use tenon::host_program::{Direction, PrintOptions, ProgramInput, TranslateOptions, translate};
use tenon::{Result, files};

pub fn run(flags: &Translate) -> Result<ExitCode> {
    flags.check()?;
    let input = ProgramInput::open(&flags.input)?;
    let direction = if flags.bef_to_mlir {
        Direction::BefToMlir
    } else {
        Direction::MlirToBef
    };
    let print = PrintOptions {
        generic: flags.generic,
        locations: flags.locations,
        ..PrintOptions::default()
    };
    let options = TranslateOptions::new(direction)
        .split_input_file(flags.split_input_file)
        .verify_diagnostics(flags.verify_diagnostics)
        .optional_sections(!flags.disable_optional_sections)
        .print(print);
    let done = translate(&input, &options);
    output::diagnostics(&done.diagnostics);
    if done.succeeded {
        files::write(&flags.output, &done.output)?;
    }
    Ok(output::status(done.succeeded))
}
