//! Flags of the commands for host programs. The original tools' flags keep their names, and may
//! have one dash or two ([`crate::dashes`]).

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Translate a host program: MLIR text to BEF bytes, or back.
#[derive(Args)]
#[command(
    group(ArgGroup::new("direction").required(true).args(["mlir_to_bef", "bef_to_mlir"])),
    after_help = "\
Examples:
  tenon translate -mlir-to-bef program.mlir -o program.bef
  tenon translate -bef-to-mlir program.bef
  tenon translate -mlir-to-bef program.mlir | tenon exec
  tenon translate -mlir-to-bef -split-input-file -verify-diagnostics mistakes.mlir

Flags may have one dash or two. Exit status: 0 translated, or failed as the text expected; 1 failed;
2 wrong usage."
)]
pub struct Translate {
    /// The program; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub input: PathBuf,
    /// From MLIR text to BEF bytes.
    #[arg(long = "mlir-to-bef")]
    pub mlir_to_bef: bool,
    /// From BEF bytes to MLIR text.
    #[arg(long = "bef-to-mlir")]
    pub bef_to_mlir: bool,
    /// Where the result goes, written as a whole or not at all; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Take each part of the text between lines `// -----` for an input of its own; their results
    /// follow each other.
    #[arg(long = "split-input-file", requires = "mlir_to_bef")]
    pub split_input_file: bool,
    /// Compare what is wrong with the text's own comments `// expected-error {{words}}`.
    #[arg(long = "verify-diagnostics", requires = "mlir_to_bef")]
    pub verify_diagnostics: bool,
    /// Write no types and names of attributes and no types of registers: enough to execute.
    #[arg(long = "disable-optional-sections", requires = "mlir_to_bef")]
    pub disable_optional_sections: bool,
    /// Print every operation in the generic form.
    #[arg(long = "mlir-print-op-generic", requires = "bef_to_mlir")]
    pub generic: bool,
}
