//! MLIR text of Modules: a printer, and a parser for the subset of bef 4.4.

mod attributes;
mod blocks;
mod check;
mod compiled;
mod custom;
mod dense;
mod expectations;
mod foreign;
mod forms;
mod functions;
mod locations;
mod names;
mod number;
mod operations;
mod parser;
mod print;
mod print_attributes;
mod print_foreign;
mod print_kernels;
mod references;
mod scope;
#[cfg(test)]
mod tests;
mod values;

use crate::{Module, Source};
use dense::MAX_SPLATS;
use parser::{Parser, Purpose};
use std::cell::Cell;
use std::fmt;
use tenon_base::Result;

#[cfg(test)]
pub(crate) use check::kernel_problems;
pub use expectations::ExpectedDiagnostics;
pub use print::PrintOptions;

/// The text of a verified `module`.
///
/// With locations, [`parse`] returns an equal Module (a region has the location of its kernel);
/// without, the locations of kernels are their positions in the text.
pub fn print(module: &Module, options: PrintOptions) -> String {
    print::Printer::new(module, options).print()
}

/// Parses and verifies `text`. `file` is its name in messages and locations.
///
/// # Errors
/// All problems at once, each with line, column and the source line.
///
/// ```
/// let text = "func.func @main() -> i32 {
///   %0 = tfrt.constant.i32 7
///   tfrt.return %0 : i32
/// }
/// ";
/// let module = tenon_bef::parse(text, "main.mlir").unwrap();
/// assert_eq!(module.to_string(), text);
///
/// let error = tenon_bef::parse("func.func @f() {\n  %0 = one\n}", "f.mlir").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "f.mlir:2:8: custom op 'one' is unknown\n  %0 = one\n       ^"
/// );
/// ```
pub fn parse(text: &str, file: &str) -> Result<Module> {
    parse_source(Source::new(text, file))
}

/// As [`parse`], for a part of a file.
///
/// # Errors
/// As [`parse`].
pub fn parse_source(source: Source<'_>) -> Result<Module> {
    Parser::new(source, Purpose::Bef, &Cell::new(MAX_SPLATS)).parse()
}

/// As [`parse_source`], for a text that is rewritten and printed, not encoded as BEF: it may
/// contain attributes that BEF cannot encode ([`Attribute::Foreign`](crate::Attribute)), declared
/// functions, and references to undefined functions. Operations of unknown dialects are refused
/// unless `allow_unregistered`.
///
/// # Errors
/// As [`parse`].
pub fn parse_for_rewriting(source: Source<'_>, allow_unregistered: bool) -> Result<Module> {
    let purpose = Purpose::Rewriting { allow_unregistered };
    Parser::new(source, purpose, &Cell::new(MAX_SPLATS)).parse()
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, PrintOptions::default()))
    }
}
