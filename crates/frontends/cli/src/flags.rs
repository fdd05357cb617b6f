//! The flags of the command, from which help, man page and shell completions are generated.

use crate::model_flags::{
    BucketFlags, CompileFlags, DimensionSize, InputFlags, ModelFlags, dimension,
};
use crate::package_flags::{Cat, Diff, Dma, LimitFlags, Ls, Pack, Strip, Unpack, Verify};
use crate::plugin_flags::{BackendFlags, Cache, Plugin};
use crate::program_flags::{Exec, Opt, Translate};
use crate::session_flags::SessionFlags;
use crate::thread_flags::ThreadFlags;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Compile a machine-learning model into one file, and run it.
#[derive(Parser)]
#[command(
    name = "tenon",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  tenon run model.onnx --input picture.png    compile and run in one go
  tenon compile model.onnx -o model.neff      compile into one package
  tenon run model.neff -i x=x.npy -o out      run it, write out/NAME.npy
  tenon bench model.neff --threads 2          measure it
  tenon info model.neff                       its contents

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Compile(Compile),
    Quantize(crate::quantize_flags::Quantize),
    Run(Run),
    Map(Box<crate::map_flags::Map>),
    Compare(Compare),
    Bench(Bench),
    #[cfg(feature = "serve")]
    Serve(crate::serve_flags::Serve),
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
    Cache(Cache),
    Completions(Completions),
    Man(Man),
}

/// Compile a model into one package.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon compile model.onnx -o model.neff
  tenon compile bert.onnx -o bert.neff --dim batch=1 --dim sequence=128
  tenon compile model.onnx --bucket sequence=64,128 --pad ids=0 --pad mask=0
  tenon compile model.onnx -o model.neff --backends CpuRef   plain and exact
  tenon compile model.onnx --place 'head/*=CpuRef' --placement
  tenon compile model.onnx --precision fast --precision 'head*=f32'
  tenon compile gpt2.onnx --dim batch=1 --auto-state   the cache grows in place
  tenon compile model.onnx --cpu-node Resize_7=libown.so:resize
  tenon compile snapshots/1/model.onnx --allow-links blobs
  tenon compile model.onnx --weights w.safetensors   by names of initialisers
  tenon compile model.tflite --signature encode
  tenon compile matmul.yaml -o matmul.neff --param '$p_loop_count=4'")]
pub struct Compile {
    /// The ONNX or LiteRT model, or a netlist (.yaml); - is standard input, a model.
    pub model: PathBuf,
    /// Where the package goes; replaced as a whole or not at all; - is standard output. Default:
    /// MODEL.neff.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub compiling: CompileFlags,
    #[command(flatten)]
    pub buckets: BucketFlags,
    #[command(flatten)]
    pub netlist: crate::netlist_flags::NetlistCompile,
    /// Print the graph after all passes instead of writing a package; with --json as the field
    /// graph.
    #[arg(long)]
    pub emit_graph: bool,
    /// Print every node's backend, and why others refused it.
    #[arg(long)]
    pub placement: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Run a model or a package once and print its outputs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon run digits.onnx --input seven.png
  tenon run model.neff --input ids=ids.npy --input mask=mask.npy --output out
  tenon run model.onnx --dim batch=1 --random 0 --profile
  tenon run model.neff --input data.npz --compare data.npz
  tenon run model.neff --random 0 --tap 'layer1*' --tap-dir taps
  tenon run gpt2.onnx --prompt 464,3290,318 --steps 32
  tenon run decoder.onnx --state 'present.*=past.*' -i ids=ids.npy --steps 64
  tenon compile model.onnx -o - | tenon run - --random 0

In JSON, elements of outputs have as many digits as their type needs, and booleans are true or \
false; NaN and infinities, which JSON lacks, are the strings \"NaN\", \"inf\" and \"-inf\".")]
pub struct Run {
    /// The ONNX or LiteRT model or package; - is standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Write each output as DIR/NAME.npy (with --steps the tokens of a decoder); characters that a file name cannot have become _, and
    /// names that are taken get a number. With - all of them go to standard output as one .npz.
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Compare outputs with the arrays of this .npz (named as the outputs, or `out.NAME`).
    #[arg(long, value_name = "FILE.npz")]
    pub compare: Option<PathBuf>,
    /// Largest relative error that --compare accepts.
    #[arg(long, value_name = "E", default_value_t = 1e-3, requires = "compare", value_parser = tolerance)]
    pub tolerance: f64,
    /// Write intermediate values as .npy files: those whose own name or whose node's name matches;
    /// * matches any characters, ? one. Repeat for several.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["states", "auto_state"])]
    pub tap: Vec<String>,
    /// Where the values of --tap go, each as DIR/NAME.npy.
    #[arg(long, value_name = "DIR", default_value = "taps", requires = "tap")]
    pub tap_dir: PathBuf,
    /// Print time and bytes of every kernel.
    #[arg(long, conflicts_with_all = ["states", "auto_state"])]
    pub profile: bool,
    /// How many classes to print, by default 5 of an output that has labels or probabilities. If
    /// given, the largest elements of every vector are printed.
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Verify the package's digests: metadata when loading, constants before their first use.
    #[arg(long)]
    pub check_digests: bool,
    #[command(flatten)]
    pub session: SessionFlags,
    #[command(flatten)]
    pub threading: ThreadFlags,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print outputs and times as JSON.
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    #[command(flatten)]
    pub model: ModelFlags,
}

/// Run a model on two backends, operator by operator, and stop where they differ.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon compare model.onnx --backends CpuAcc,CpuRef --random 0
  tenon compare model.neff --input x.npz --tolerance 1e-5
  tenon compare model.onnx --random 0 --output found

Every operator runs on both backends with the same inputs; the outputs of the second one are the \
expected ones. The run ends at the first operator outside the tolerance and writes a package of \
that operator, and its exact inputs. A package is compared as it is: operators that run on one \
of the two backends are also computed on the other.

Exit status: 0 they agree, 1 they differ, 2 wrong usage.")]
pub struct Compare {
    /// The ONNX or LiteRT model or package; - is standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Floats: largest difference, relative to the largest element of the tensor [default: that which the
    /// backends state for the type, else 0.001].
    #[arg(long, value_name = "E", value_parser = tolerance)]
    pub tolerance: Option<f64>,
    /// Floats: largest absolute difference that is always accepted [default: as stated, else 0.000001].
    #[arg(long, value_name = "E", value_parser = tolerance)]
    pub absolute: Option<f64>,
    /// Integers of 8 and 16 bits: largest difference; wider ones must be equal [default: as stated, else 1].
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
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
    pub model: ModelFlags,
}

/// Measure load time, first run, latency and peak memory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon bench model.neff
  tenon bench model.neff --threads 1 --seconds 10 --json
  tenon bench --ceiling          the peak of the CPU

Inputs that are not given are random. JSON fields: load_ms, first_ms, median_us, p99_us, min_us, \
runs, threads, peak_rss_kb.")]
pub struct Bench {
    /// The ONNX or LiteRT model or package; - is standard input.
    #[arg(required_unless_present = "ceiling")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub inputs: InputFlags,
    #[command(flatten)]
    pub threading: ThreadFlags,
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
    pub model: ModelFlags,
}

/// Profile a model: time and rates of each node, and their share of the machine's peak.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon profile model.neff
  tenon profile model.onnx --dim batch=1 --runs 100
  tenon profile model.neff --trace model.json   open the file at ui.perfetto.dev
  tenon profile model.neff --json

GFLOP/s and GB/s are computed from the node's shapes: a multiply-add is two operations, each \
operand is read once. The ceiling is measured before: multiply-adds of f32, and copies in \
memory. A node's share of it is the least time that either allows, divided by its time; more \
than 100 % means that its data came from caches. Below a node are the parts of its workload, if \
its backend times them. JSON fields of a node: node, operator, backend, us, share, flops, bytes, \
gflops, gigabytes, of_ceiling, parts.")]
pub struct Profile {
    /// The ONNX or LiteRT model or package; - is standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub inputs: InputFlags,
    /// Executions to take the mean of, after some to warm up.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Write one execution as a trace: functions, nodes, data movement, threads, memory; - is
    /// standard output.
    #[arg(long, value_name = "OUT.json")]
    pub trace: Option<PathBuf>,
    /// How many nodes to print, the longest first.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub top: usize,
    #[command(flatten)]
    pub threading: ThreadFlags,
    /// Print JSON, nodes in the program's order.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub model: ModelFlags,
}

/// Show the contents of a model or package.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon info model.neff
  tenon info model.onnx                 inputs, dimensions, operators and counts
  tenon info model.neff --wide          also the NEFF header, the table of nodes
  tenon info model.neff --placement     each node's backend, and why not others
  tenon info model.neff --memory --svg memory.svg   the memory plan, drawn
  tenon info model.neff --memory --dim seq=128      the plan for a size
  tenon info m.neff --memory --backend-path /opt/backends   also of devices
  tenon info model.neff --json")]
pub struct Info {
    /// The ONNX or LiteRT model or package; - is standard input.
    pub file: PathBuf,
    /// Of a LiteRT model, show this signature instead of its first one.
    #[arg(long, value_name = "NAME")]
    pub signature: Option<String>,
    /// Of a package, show the whole NEFF header and the table of nodes too, as packagers do; of
    /// another compiler's package they are shown always.
    #[arg(long, short)]
    pub wide: bool,
    /// Of a package, print the placement report instead: the backend of every node, why others
    /// refused it, and the values that pass between backends.
    #[arg(long)]
    pub placement: bool,
    /// Of a package, print the memory plan instead: each intermediate value with its offset in
    /// the arena and the kernels between which it is live; and the memory of backends that have
    /// their own.
    #[arg(long)]
    pub memory: bool,
    /// Write the memory plan as a picture; - is standard output.
    #[arg(long, value_name = "FILE", requires = "memory")]
    pub svg: Option<PathBuf>,
    /// Give a symbolic dimension of the package the size for which memory is planned; repeat for several.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension, requires = "memory")]
    pub dims: Vec<(String, DimensionSize)>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
    #[command(flatten)]
    pub loading: BackendFlags,
}

/// Print the host program of a package as MLIR text.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon disasm model.neff")]
pub struct Disasm {
    /// The package; - is standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub limits: LimitFlags,
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

#[cfg(test)]
mod tests;
