//! Flags of the commands for host programs. The original tools' flags keep their names, and may
//! have one dash or two ([`crate::dashes`]).

use crate::netlist_flags::seconds;
use clap::{Arg, ArgAction, ArgGroup, Args, ValueEnum};
use std::path::PathBuf;

/// The original's directions are modes, which take no value.
const MODES: [&str; 2] = ["mlir_to_bef", "bef_to_mlir"];

/// Boolean flags take `=true` and `=false` as well, as those of the original tools do.
fn boolean(flag: Arg) -> Arg {
    let is_mode = MODES.contains(&flag.get_id().as_str());
    if is_mode || !matches!(flag.get_action(), ArgAction::SetTrue) {
        return flag;
    }
    flag.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_name("true|false")
        .value_parser(boolean_value)
        .default_value("false")
        .default_missing_value("true")
        .hide_default_value(true)
}

/// The values that the original tools know.
fn boolean_value(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "TRUE" | "True" | "1" => Ok(true),
        "false" | "FALSE" | "False" | "0" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// Translate a host program: MLIR text to BEF bytes, or back.
#[derive(Args)]
#[command(
    group(ArgGroup::new("direction").required(true).args(MODES)),
    mut_args(boolean),
    after_help = "\
Examples:
  tenon translate -mlir-to-bef program.mlir -o program.bef
  tenon translate -bef-to-mlir program.bef
  tenon translate -mlir-to-bef program.mlir | tenon exec
  tenon translate -mlir-to-bef -verify-diagnostics mistakes.mlir

Flags may have one dash or two; boolean flags take =true and =false. Exit status: 0 translated, \
or failed as the text expected; 1 failed; 2 wrong usage."
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
    /// Treat each part of the text between lines `// -----` as a separate input; the outputs are
    /// concatenated.
    #[arg(long = "split-input-file")]
    pub split_input_file: bool,
    /// Compare the errors with the comments `// expected-error {{words}}` of the text.
    #[arg(long = "verify-diagnostics")]
    pub verify_diagnostics: bool,
    /// Leave out the types and names of attributes and the types of registers. The file is smaller,
    /// and cannot be translated back completely.
    #[arg(long = "disable-optional-sections")]
    pub disable_optional_sections: bool,
    /// Print every operation in the generic form.
    #[arg(long = "mlir-print-op-generic")]
    pub generic: bool,
    /// Print the source position of every function and operation.
    #[arg(long = "mlir-print-debuginfo")]
    pub locations: bool,
}

impl Translate {
    /// Refuses flags that mean nothing in the direction that was chosen.
    pub fn check(&self) -> tenon::Result<()> {
        let optional = self.disable_optional_sections;
        let (direction, others) = if self.bef_to_mlir {
            let split = ("--split-input-file", self.split_input_file);
            let compare = ("--verify-diagnostics", self.verify_diagnostics);
            let shorten = ("--disable-optional-sections", optional);
            ("--bef-to-mlir", vec![split, compare, shorten])
        } else {
            let generic = ("--mlir-print-op-generic", self.generic);
            (
                "--mlir-to-bef",
                vec![generic, ("--mlir-print-debuginfo", self.locations)],
            )
        };
        let set = others.into_iter().find(|(_, is_set)| *is_set);
        set.map_or(Ok(()), |(flag, _)| Err(conflict(flag, direction)))
    }
}

impl Exec {
    /// Refuses drivers that exclude each other.
    pub fn check(&self) -> tenon::Result<()> {
        if self.lite && self.code_size {
            return Err(conflict("--code_size", "--lite"));
        }
        Ok(())
    }
}

/// The words of clap, whose own check sees that a flag is present and not that it is `=false`.
fn conflict(one: &str, other: &str) -> tenon::Error {
    let message = format!("the argument '{one}' cannot be used with '{other}'");
    tenon::Error::new(tenon::ErrorKind::Usage, message)
}

/// Check a host program's MLIR text, rewrite and print it.
#[derive(Args)]
#[command(
    mut_args(boolean),
    after_help = "\
Examples:
  tenon opt program.mlir
  tenon opt -inline -canonicalize program.mlir -o simpler.mlir
  tenon opt -tfrt-print-stream program.mlir      the stream of each kernel
  tenon opt -split-input-file -verify-diagnostics mistakes.mlir

Calls are inlined first, then the program is simplified, then streams are printed, whatever the \
order of the flags. Flags may have one dash or two; boolean flags take =true and =false. Exit \
status: 0 right, or wrong as the text expected; 1 wrong; 2 wrong usage."
)]
pub struct Opt {
    /// The text; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub input: PathBuf,
    /// Where the result goes, written as a whole or not at all; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Inline calls.
    #[arg(long)]
    pub inline: bool,
    /// Remove unused operations and fold constants.
    #[arg(long)]
    pub canonicalize: bool,
    /// Print the stream of every function and operation as a remark.
    #[arg(long = "tfrt-print-stream")]
    pub print_streams: bool,
    /// Accept operations of unregistered dialects.
    #[arg(long = "allow-unregistered-dialect")]
    pub allow_unregistered: bool,
    /// Treat each part of the text between lines `// -----` as a separate input.
    #[arg(long = "split-input-file")]
    pub split_input_file: bool,
    /// Compare the diagnostics with the comments `// expected-error {{words}}` of the text.
    #[arg(long = "verify-diagnostics")]
    pub verify_diagnostics: bool,
    /// Print every operation in the generic form.
    #[arg(long = "mlir-print-op-generic")]
    pub generic: bool,
    /// Print the source position of every function and operation.
    #[arg(long = "mlir-print-debuginfo")]
    pub locations: bool,
}

/// Run the functions of a host program, BEF bytes or MLIR text, and print their results.
#[derive(Args)]
#[command(
    mut_args(boolean),
    after_help = "\
Examples:
  tenon exec program.mlir
  tenon translate -mlir-to-bef program.mlir | tenon exec
  tenon exec --functions=main,other --work_queue_type=mstd:4 program.bef
  tenon exec --trace trace.json program.mlir      open trace.json in Perfetto
  tenon exec --shared_libs libmine.so program.mlir

Functions that take arguments are named and not run. An error of a kernel must be expected by a \
comment `// expected-error {{words}}` at its line. Flags may have one dash or two; boolean flags \
take =true and =false.

Exit status: 0 every error was expected and came, 1 not so, or memory leaked, or the program \
cannot be read or did not end in time; 2 wrong usage."
)]
pub struct Exec {
    /// The program; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub input: PathBuf,
    /// Run these functions in this order instead of all.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub functions: Vec<String>,
    /// Run this function before all others, if the program has it.
    #[arg(long = "test_init_function", value_name = "NAME")]
    pub init_function: Option<String>,
    /// Where tasks run: s on this thread, mstd:N,M on N threads and M more for work that blocks
    /// (mstd and mstd:N have defaults).
    #[arg(long = "work_queue_type", value_name = "TYPE", default_value = "s")]
    pub work_queue: String,
    /// The allocator.
    #[arg(long = "host_allocator_type", value_enum, default_value_t = Allocator::LeakCheck)]
    pub allocator: Allocator,
    /// Print the code of an error besides its words.
    #[arg(long = "print_error_code")]
    pub error_codes: bool,
    /// Print the scopes that were traced, after everything else.
    #[arg(long = "enable_tracing")]
    pub enable_tracing: bool,
    /// Which scopes are traced.
    #[arg(long = "tracing_level", value_enum, default_value_t = TracingLevel::Default)]
    pub tracing_level: TracingLevel,
    /// Write the scopes that were traced as JSON that Perfetto opens; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Libraries of kernels to load, made by include/tenon/kernels.h; their code runs in this
    /// process.
    #[arg(long = "shared_libs", value_name = "A,B", value_delimiter = ',')]
    pub shared_libs: Vec<PathBuf>,
    /// Time limit in seconds, also for a program with an endless loop.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        allow_negative_numbers = true // words: allow
    )]
    pub timeout: Option<f64>,
    /// Only the kernels of the dialect tfrt: no shapes, no tensors, no kernels for tests.
    #[arg(long)]
    pub lite: bool,
    /// Behave as the original's smallest driver: kernels for integers and control flow only, no
    /// announcements, no expected errors, no resources shared between kernels.
    #[arg(long = "code_size")]
    pub code_size: bool,
}

/// The allocator of the host.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Allocator {
    /// The system.
    Malloc,
    /// 1024 bytes, for tests; logs each allocation.
    #[value(name = "test_fixed_size_1k")]
    FixedSize,
    /// The system; prints statistics at the end.
    #[value(name = "profiled_allocator")]
    Profiled,
    /// The system; memory that is not freed is a failure.
    #[value(name = "leak_check_allocator")]
    LeakCheck,
}

/// Which scopes are traced.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TracingLevel {
    /// The run and its functions.
    Default,
    /// As default.
    Verbose,
    /// Kernels, too.
    Debug,
}
