//! Flags of the commands for netlists.

use crate::netlist_view_flags::{NetlistDraw, NetlistShow};
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Read and check netlists: graphs of ops on grids of cores, and their programs.
#[derive(Args)]
pub struct Netlist {
    #[command(subcommand)]
    pub command: NetlistCommand,
}

#[derive(Subcommand)]
pub enum NetlistCommand {
    Check(NetlistCheck),
    Run(NetlistRun),
    Test(NetlistTest),
    Fmt(NetlistFmt),
    Show(NetlistShow),
    Draw(NetlistDraw),
}

/// Check netlists against every rule; all findings at once, each with its line.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon netlist check matmul.yaml
  tenon netlist check tests/*.yaml --quiet           errors alone
  tenon netlist check bert.yaml --strict grayskull   can the device hold it
  tenon netlist check bert.yaml --strict board.yaml --json
  tenon netlist check --rules                        what is checked

Devices: grayskull, wormhole, wormhole_b0 (also _harvested, _n300, _4x6, _1x1), blackhole (also \
_80, _8x10, _10x14), or a file that describes one. ARCH_NAME names the architecture where --arch \
and --strict do not and a netlist has several. Exit status: 0 no errors, 1 errors, 2 wrong usage.")]
pub struct NetlistCheck {
    /// The netlists; - is standard input.
    #[arg(value_name = "FILE", required_unless_present = "rules")]
    pub files: Vec<PathBuf>,
    /// Check too whether this device can hold and run them.
    #[arg(long, value_name = "DEVICE")]
    pub strict: Option<String>,
    /// Check for this architecture only, of those that the netlist names.
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// List the rules.
    #[arg(long, conflicts_with_all = ["files", "strict", "arch"])]
    pub rules: bool,
    /// Tell errors only.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print a netlist in one stable layout that reads back equal. Comments stay by what they stood by.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon netlist fmt matmul.yaml > tidy.yaml")]
pub struct NetlistFmt {
    /// The netlist; - is standard input.
    pub file: PathBuf,
}

/// Run the programs of a netlist: its ops on this machine's CPU, its queues in memory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon netlist run matmul.yaml          on made data, all programs
  tenon netlist run bert.yaml --program run_fwd --param '$p_loop_count=4'
  tenon netlist run matmul.yaml --inputs in.npz --outputs out.npz

Arrays are [n, t, rows, columns] of f32, in elements, one a queue. Entries of a host queue are \
pushed in order whenever it has room, from the start again when they are used up; slots of rams \
are set before. What is not given follows the netlist's stimulus-config, else it is uniform from \
.001 to 1. Outputs are every entry pushed to a queue that no op reads, and the last contents of \
rams that ops fill.

Exit status: 0 ran, 1 failed, or a number of the netlist's performance-check that is measured \
here is not met; 2 wrong usage. ARCH_NAME names the architecture where --arch does not and the \
netlist has several.")]
pub struct NetlistRun {
    /// The netlist; - is standard input.
    pub file: PathBuf,
    /// Run this program only; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub program: Vec<String>,
    /// Give a program's parameter its value; repeat for several.
    #[arg(long = "param", value_name = "$NAME=N", value_parser = param)]
    pub params: Vec<(String, i32)>,
    /// Arrays of host queues and of rams, by name.
    #[arg(long, value_name = "FILE.npz")]
    pub inputs: Option<PathBuf>,
    /// Where to write the outputs; - is standard output.
    #[arg(long, value_name = "FILE.npz")]
    pub outputs: Option<PathBuf>,
    /// Where numbers are rounded.
    #[arg(long, value_enum, default_value_t = NetlistMode::Golden)]
    pub mode: NetlistMode,
    /// What made data follow from.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub seed: u64,
    /// Run all programs so many times.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: u32,
    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Give up after so many instructions and inputs of one program.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Fill rams that ops write with random numbers first, not with zeros.
    #[arg(long)]
    pub init_rams: bool,
    /// Run for this architecture, of those that the netlist names.
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Round outputs to the format of their queue.
    #[arg(long)]
    pub readback: bool,
    /// Threads that ops run on; all CPUs when not given.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// No table of ops.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Run netlists twice on the same data, by the kernels and plainly, element by element, and
/// compare what both put into the queues that no op reads and into rams.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon netlist test matmul.yaml
  tenon netlist test netlists/*.yaml --timeout 60 --json

Compared is as the netlist's comparison-config says, else by AllCloseHw with atol 0.01 and rtol \
0.15. The exit status is 1 when something differs or cannot be run.")]
pub struct NetlistTest {
    /// The netlists; - is standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Run this program only; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub program: Vec<String>,
    /// Give a program's parameter its value; repeat for several.
    #[arg(long = "param", value_name = "$NAME=N", value_parser = param)]
    pub params: Vec<(String, i32)>,
    /// What the inputs follow from.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub seed: u64,
    /// Run all programs so many times.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: u32,
    /// Give up on a netlist after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Run for this architecture, of those that the netlists name.
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// How a netlist becomes a package.
#[derive(Args)]
pub struct NetlistCompile {
    /// Run this program of a netlist only; repeat for several.
    #[arg(long, value_name = "NAME", help_heading = "Netlists")]
    pub program: Vec<String>,
    /// Give a parameter of a netlist's programs its value; repeat for several.
    #[arg(long = "param", value_name = "$NAME=N", value_parser = param, help_heading = "Netlists")]
    pub params: Vec<(String, i32)>,
    /// What rams of a netlist hold at first, by name; others are made.
    #[arg(long, value_name = "FILE.npz", help_heading = "Netlists")]
    pub rams: Option<PathBuf>,
    /// Where numbers of a netlist are rounded.
    #[arg(long, value_enum, default_value_t = NetlistMode::Golden, help_heading = "Netlists")]
    pub mode: NetlistMode,
    /// Give up after so many seconds: a netlist's programs are run once to learn what they push.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, help_heading = "Netlists")]
    pub timeout: Option<f64>,
    /// Compile a netlist for this architecture, of those that it names.
    #[arg(long, value_name = "ARCH", help_heading = "Netlists")]
    pub arch: Option<String>,
}

/// Where numbers are rounded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetlistMode {
    /// As the original's golden model does: f32, which acc_df and math_fidelity have no effect on.
    Golden,
    /// Every tensor to its declared format, what is computed to acc_df first; math_fidelity has no
    /// effect.
    Formats,
}

fn param(text: &str) -> Result<(String, i32), String> {
    let (name, value) = text.split_once('=').ok_or("expected $NAME=N")?;
    let value = value
        .parse()
        .map_err(|_| format!("'{value}' is no integer of 32 bits"))?;
    match name.trim_start_matches('$') {
        "" => Err("expected a name before '='".to_owned()),
        name => Ok((format!("${name}"), value)),
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, 0 to 1e9".to_owned())
}
