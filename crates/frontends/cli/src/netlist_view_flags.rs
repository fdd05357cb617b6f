//! Flags of the commands that show and draw netlists.

use clap::Args;
use std::path::PathBuf;

/// Show the contents of a netlist: graphs, ops and their blocking, memory use, programs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon netlist show bert.yaml
  tenon netlist show bert.yaml --device wormhole_b0_n300
  tenon netlist show bert.yaml --json | jq '.graphs[].ops | length'

The cycles are an estimate of an ideal device that never waits for data: 16 cycles for each matmul \
of two tiles and pass of the math fidelity, 8 for an elementwise tile, 128 for a tile of a \
special function.")]
pub struct NetlistShow {
    /// The netlist; - is standard input.
    pub file: PathBuf,
    /// The device whose memories and cores it is shown on; that of its architecture otherwise (of
    /// several the one that ARCH_NAME names, else the first).
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Draw a netlist: its ops with their inputs, and their positions on the grid of cores. One SVG
/// picture for each set of graphs that run together.
#[derive(Args)]
#[command(after_help = "Example:\n  tenon netlist draw bert.yaml --output pictures")]
pub struct NetlistDraw {
    /// The netlist; - is standard input.
    pub file: PathBuf,
    /// Folder for the pictures, GRAPH.svg each; created if it does not exist.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    /// The device whose grid is drawn; that of its architecture otherwise (of several the one that
    /// ARCH_NAME names, else the first).
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
}
