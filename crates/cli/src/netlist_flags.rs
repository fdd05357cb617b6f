//! Flags of the commands for netlists.

use clap::{Args, Subcommand};
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
    Fmt(NetlistFmt),
}

/// Check netlists against every rule; all findings at once, each with its line.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon netlist check matmul.yaml
  tenon netlist check tests/*.yaml --quiet          only what is wrong, no notes and warnings
  tenon netlist check bert.yaml --strict grayskull  also whether the device can hold it
  tenon netlist check bert.yaml --strict board.yaml --json
  tenon netlist check --rules                       what is checked, and where it comes from

Devices: grayskull, wormhole, wormhole_b0 (also _harvested, _n300, _4x6, _1x1), blackhole, blackhole_8x10,
blackhole_10x14, or a file that describes one. Exit status: 0 no errors, 1 errors, 2 wrong usage.")]
pub struct NetlistCheck {
    /// The netlists.
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

/// Print a netlist in one stable layout that reads back equal. Comments are not kept.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon netlist fmt matmul.yaml > tidy.yaml")]
pub struct NetlistFmt {
    /// The netlist.
    pub file: PathBuf,
}
