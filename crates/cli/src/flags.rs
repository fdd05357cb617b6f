//! Every flag of the command, once: help, man page and shell completions are made from these.

use crate::package_flags::{Cat, Diff, Dma, Ls, Pack, Strip, Unpack, Verify};
use crate::plugin_flags::{BackendFlags, Plugin};
use crate::program_flags::{Exec, Opt, Translate};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tenon::{BackendId, Hint, MemoryStrategy, Pattern};

/// Compile a machine-learning model into one file, and run it.
#[derive(Parser)]
#[command(
    name = "tenon",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  tenon run model.onnx --input picture.png          compile and run in one go
  tenon compile model.onnx -o model.neff            compile into one package
  tenon run model.neff --input x=x.npy --output out run it, write each output as out/NAME.npy
  tenon bench model.neff --threads 2                measure it
  tenon info model.neff                             what is inside

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Compile(Compile),
    Run(Run),
    Compare(Compare),
    Bench(Bench),
    Profile(Profile),
    Info(Info),
    Unpack(Unpack),
    Pack(Pack),
    Strip(Strip),
    Verify(Verify),
    Diff(Diff),
    Ls(Ls),
    Cat(Cat),
    Dma(Dma),
    Disasm(Disasm),
    Netlist(crate::netlist_flags::Netlist),
    Translate(Translate),
    Exec(Exec),
    Opt(Opt),
    Backends(Backends),
    Devices(crate::watch_flags::Devices),
    Monitor(crate::watch_flags::Monitor),
    Top(crate::watch_flags::Top),
    Plugin(Plugin),
    Completions(Completions),
    Man(Man),
}

/// How a model becomes a package; read when the file is an ONNX model.
#[derive(Args, Clone)]
pub struct CompileFlags {
    /// Give a symbolic dimension its size; repeat for several.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension, help_heading = "Compiling")]
    pub dims: Vec<(String, usize)>,
    /// Give an input its value when compiling (needed where it decides shapes); it is no input of
    /// the package then. FILE as for --input.
    #[arg(long = "const", value_name = "NAME=FILE", value_parser = named_file, help_heading = "Compiling")]
    pub constants: Vec<(String, PathBuf)>,
    /// Backends in order of preference.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "Compiling"
    )]
    pub backends: Vec<String>,
    /// Offer the nodes of this name to a backend before all others; * stands for any characters,
    /// ? for one. Repeat for several; the first one of a node's name counts.
    #[arg(long, value_name = "PATTERN=BACKEND", value_parser = hint, help_heading = "Compiling")]
    pub place: Vec<Hint>,
    /// What prepared constants may rely on.
    #[arg(long, value_enum, default_value_t = Cpu::Baseline, help_heading = "Compiling")]
    pub cpu: Cpu,
    /// Keep the plain copy of constants beside the form that a backend has prepared (twice the size).
    #[arg(long, help_heading = "Compiling")]
    pub keep_plain: bool,
    /// How intermediate values share memory: packed (along both axes, the default),
    /// single-axis-priority (one value at a time in each range) or constant (nothing shared).
    #[arg(long, value_name = "NAME", value_parser = memory_strategy, help_heading = "Compiling")]
    pub memory_strategy: Option<&'static dyn MemoryStrategy>,
    /// Let a function of a library compute a node, in the thread that runs the model; the library
    /// becomes part of the package (include/tenon/cpu_node.h). Repeat for several.
    #[arg(long = "cpu-node", value_name = "NODE=LIB.so:SYMBOL", value_parser = cpu_node, help_heading = "Compiling")]
    pub cpu_nodes: Vec<CpuNode>,
    #[command(flatten)]
    pub loading: BackendFlags,
}

/// A node that a function of a library computes.
#[derive(Clone)]
pub struct CpuNode {
    pub node: String,
    pub library: PathBuf,
    pub symbol: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cpu {
    /// What every CPU of the architecture has.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
    /// What this machine has.
    Native,
}

/// What a run is fed with.
#[derive(Args, Clone)]
pub struct InputFlags {
    /// An input's file: .npy, .npz, .bin (raw little-endian), .csv, .png or .jpg. Without NAME=,
    /// the only input that is left; an .npz names its own.
    #[arg(
        long = "input",
        short = 'i',
        value_name = "[NAME=]FILE",
        help_heading = "Inputs"
    )]
    pub inputs: Vec<String>,
    /// Fill inputs that are not given with random numbers from this seed: floats in 0..1,
    /// integers 0 or 1.
    #[arg(long, value_name = "SEED", help_heading = "Inputs")]
    pub random: Option<u64>,
    /// For pictures: subtracted from each value 0..255; one number or one a channel. Without it the
    /// model's own, else 0.
    #[arg(
        long,
        value_name = "M[,M,M]",
        value_delimiter = ',',
        help_heading = "Inputs",
        allow_hyphen_values = true
    )]
    pub mean: Vec<f32>,
    /// For pictures: what the difference is multiplied by; one number or one a channel. Without it
    /// the model's own, else 1.
    #[arg(
        long,
        value_name = "S[,S,S]",
        value_delimiter = ',',
        help_heading = "Inputs",
        allow_hyphen_values = true
    )]
    pub scale: Vec<f32>,
}

/// Compile a model into one package.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon compile model.onnx -o model.neff
  tenon compile bert.onnx -o bert.neff --dim batch=1 --dim sequence=128
  tenon compile model.onnx -o model.neff --backends CpuRef   plain and exact
  tenon compile model.onnx --place 'head/*=CpuRef' --placement   where each node runs, and why
  tenon compile model.onnx --cpu-node Resize_7=libown.so:resize
  tenon compile matmul.yaml -o matmul.neff --param '$p_loop_count=4'   a netlist")]
pub struct Compile {
    /// The ONNX model, or a netlist (.yaml).
    pub model: PathBuf,
    /// Where the package goes; replaced as a whole or not at all. Default: MODEL.neff.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub compiling: CompileFlags,
    #[command(flatten)]
    pub netlist: crate::netlist_flags::NetlistCompile,
    /// Print the graph after all passes instead of writing a package.
    #[arg(long)]
    pub emit_graph: bool,
    /// Print every node's backend, and why others refused it.
    #[arg(long)]
    pub placement: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Run a model or a package once and print its answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon run digits.onnx --input seven.png
  tenon run model.neff --input ids=ids.npy --input mask=mask.npy --output out
  tenon run model.onnx --dim batch=1 --random 0 --profile
  tenon run model.neff --input data.npz --compare data.npz
  tenon run model.neff --random 0 --tap 'layer1*' --tap-dir taps   values inside of the model")]
pub struct Run {
    /// The ONNX model or package.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Write each output as DIR/NAME.npy.
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Compare outputs with the arrays of this .npz (named as the outputs, or `out.NAME`).
    #[arg(long, value_name = "FILE.npz")]
    pub compare: Option<PathBuf>,
    /// Largest relative error that --compare accepts.
    #[arg(long, value_name = "E", default_value_t = 1e-3, requires = "compare", value_parser = tolerance)]
    pub tolerance: f64,
    /// Write the values inside of the model that are called so, or made by nodes called so, as
    /// .npy files; * stands for any characters, ? for one. Repeat for several.
    #[arg(long, value_name = "PATTERN")]
    pub tap: Vec<String>,
    /// Where the values of --tap go, each as DIR/NAME.npy.
    #[arg(long, value_name = "DIR", default_value = "taps", requires = "tap")]
    pub tap_dir: PathBuf,
    /// Print time and bytes of every kernel.
    #[arg(long)]
    pub profile: bool,
    /// How many classes to print.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub top: usize,
    /// Compare the package with its digests: what loading reads, and constants before they are used.
    #[arg(long)]
    pub check_digests: bool,
    /// Threads to use; all CPUs by default.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print outputs and times as JSON.
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    #[command(flatten)]
    pub compiling: CompileFlags,
}

/// Run a model on two backends in lock step and stop where they differ.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon compare model.onnx --backends CpuAcc,CpuRef --random 0
  tenon compare model.neff --input x.npz --tolerance 1e-5
  tenon compare model.onnx --random 0 --output found   where NODE.neff and NODE.npz go

Every operator runs on both backends with the same inputs; the second one's results are what is
expected. At the first operator that differs too much it stops and writes a package of that one
operator, and its exact inputs. A package is compared as it is: where it runs one of the two, the
other computes too.

Exit status: 0 they agree, 1 they differ, 2 wrong usage.")]
pub struct Compare {
    /// The ONNX model or package.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Numbers with a fraction: largest difference, relative to the largest number of the tensor.
    #[arg(long, value_name = "E", default_value_t = 1e-3, value_parser = tolerance)]
    pub tolerance: f64,
    /// Numbers with a fraction: differences up to this one do not count.
    #[arg(long, value_name = "E", default_value_t = 1e-6, value_parser = tolerance)]
    pub absolute: f64,
    /// Integers of 8 and 16 bits: how far they may be apart; wider ones must be equal.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub steps: u32,
    /// Where the package of the operator that differs goes.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    /// Print a line for every operator.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "all")]
    pub json: bool,
    #[command(flatten)]
    pub compiling: CompileFlags,
}

/// Measure load time, first run, latency and peak memory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon bench model.neff
  tenon bench model.neff --threads 1 --seconds 10 --json
  tenon bench --ceiling          what the CPU can do at most

Inputs that are not given are random. JSON fields: load_ms, first_ms, median_us, p99_us, min_us,
runs, threads, peak_rss_kb.")]
pub struct Bench {
    /// The ONNX model or package.
    #[arg(required_unless_present = "ceiling")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Threads to use; all CPUs by default.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// How long to measure, after warm-up.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub seconds: f64,
    /// Measure multiply-adds of f32 a second instead, on one thread and on all.
    #[arg(long, conflicts_with = "file")]
    pub ceiling: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub compiling: CompileFlags,
}

/// Show where the time goes: each node's time, rates, and share of what the machine could do.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon profile model.neff
  tenon profile model.onnx --dim batch=1 --runs 100
  tenon profile model.neff --trace model.json   open the file at ui.perfetto.dev
  tenon profile model.neff --json

GFLOP/s and GB/s are those that the node's shapes need: a multiply-add is two operations, operands
pass once. The ceiling is measured on the spot: multiply-adds of f32, and copies in memory. A node's
share of it is the least time that either allows, divided by its time; more than 100 % means that its
data came from caches. JSON fields of a node: node, operator, backend, us, share, flops, bytes,
gflops, gigabytes, of_ceiling.")]
pub struct Profile {
    /// The ONNX model or package.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Executions to take the mean of, after some to warm up.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Write one execution as a trace: functions, nodes, data movement, threads, memory.
    #[arg(long, value_name = "OUT.json")]
    pub trace: Option<PathBuf>,
    /// How many nodes to print, the longest first.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub top: usize,
    /// Threads to use; all CPUs by default.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Print JSON, nodes in the program's order.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub compiling: CompileFlags,
}

/// Show what is inside a model or package.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon info model.neff
  tenon info model.onnx          inputs with their symbolic dimensions, operators and counts
  tenon info model.neff --wide   also the NEFF header and the table of nodes
  tenon info model.neff --placement     the backend of each node, and why others refused it
  tenon info model.neff --memory --svg memory.svg   lifetimes and places of intermediate values
  tenon info model.neff --json")]
pub struct Info {
    /// The ONNX model or package.
    pub file: PathBuf,
    /// Of a package, show the whole NEFF header and the table of nodes too, as packagers do; of
    /// another compiler's package they are shown always.
    #[arg(long, short)]
    pub wide: bool,
    /// Of a package, print the placement report instead: the backend of every node, why others
    /// refused it, and what passes between backends.
    #[arg(long)]
    pub placement: bool,
    /// Of a package, print the memory plan instead: each intermediate value with its place in the
    /// arena and the kernels between which it is alive.
    #[arg(long)]
    pub memory: bool,
    /// Write the memory plan as a picture.
    #[arg(long, value_name = "FILE", requires = "memory")]
    pub svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print the host program of a package as MLIR text.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon disasm model.neff")]
pub struct Disasm {
    /// The package.
    pub file: PathBuf,
}

/// List the backends and what they can do.
#[derive(Args)]
#[command(after_help = "Examples:\n  tenon backends\n  tenon backends --json")]
pub struct Backends {
    #[command(flatten)]
    pub loading: BackendFlags,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print completions for a shell.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon completions bash > /etc/bash_completion.d/tenon")]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Print the manual page.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon man | man -l -")]
pub struct Man {}

fn dimension(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.split_once('=').ok_or("expected NAME=N")?;
    let size = size
        .parse()
        .map_err(|_| format!("'{size}' is not a size"))?;
    Ok((name.to_owned(), size))
}

fn cpu_node(text: &str) -> Result<CpuNode, String> {
    let parts = || {
        let (node, rest) = text.split_once('=')?;
        let (library, symbol) = rest.rsplit_once(':')?;
        Some(CpuNode {
            node: node.to_owned(),
            library: library.into(),
            symbol: symbol.to_owned(),
        })
    };
    parts().ok_or_else(|| "expected NODE=LIB.so:SYMBOL".into())
}

fn hint(text: &str) -> Result<Hint, String> {
    // A node's name may hold '=', a backend's hardly ever.
    let (pattern, backend) = text.rsplit_once('=').ok_or("expected PATTERN=BACKEND")?;
    Ok(Hint {
        pattern: Pattern::new(pattern),
        backend: BackendId::from(backend.to_owned()),
    })
}

fn memory_strategy(name: &str) -> Result<&'static dyn MemoryStrategy, String> {
    tenon::memory_strategy(name).map_err(|error| error.to_string())
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one thread is needed".into()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("'{text}' is not a number of threads")),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    if value >= 0.0 {
        Ok(value)
    } else {
        Err("a tolerance is 0 or more".into())
    }
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
    Ok((name.to_owned(), file.into()))
}
