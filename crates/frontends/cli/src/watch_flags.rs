//! Flags of the monitoring commands.

use clap::Args;
use std::path::PathBuf;

/// List this machine's device, its cores, and the processes that own them or run models.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon devices
  tenon devices --topology
  tenon devices --json-output       the list that clients of neuron-ls parse

Processes that use libnrt own cores; tenon commands run models without. TENON_CORES sets the \
core count, TENON_CORE_LOCKS the folder through which processes share cores and are found.")]
pub struct Devices {
    /// Show commands whole.
    #[arg(long, short)]
    pub wide: bool,
    /// Show processes that neither own a core nor have a model too.
    #[arg(long = "show-all-procs", short)]
    pub all: bool,
    /// Show how devices are connected.
    #[arg(long, short)]
    pub topology: bool,
    /// Print JSON.
    #[arg(long = "json-output", visible_alias = "json", short)]
    pub json: bool,
}

/// Print metrics of cores and processes, one JSON object each period, or serve them to Prometheus.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon monitor
  tenon monitor --period 1 --count 10
  tenon monitor -c monitor.json
  tenon monitor --prometheus 9100   /metrics; a build with feature prometheus

The objects have the shape of neuron-monitor's; docs/monitoring.md explains each metric.")]
pub struct Monitor {
    /// Read period, processes and metrics from a file.
    #[arg(long = "config-file", short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seconds between two objects; 5 unless the file says otherwise.
    #[arg(long, value_name = "S")]
    pub period: Option<f64>,
    /// Number of objects to print.
    #[arg(long, value_name = "N", conflicts_with = "prometheus")]
    pub count: Option<u64>,
    /// Serve the metrics on this port of 127.0.0.1 instead; 0 is any that is free.
    #[arg(long, value_name = "PORT")]
    pub prometheus: Option<u16>,
}

/// Show cores, executions, memory and latencies on a screen that redraws itself.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tenon top
  tenon top --period 0.5
  tenon top --once                  one page, without a terminal

Keys: q, escape or ctrl-c end it.")]
pub struct Top {
    /// Seconds between two pages.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub period: f64,
    /// Print one page and end.
    #[arg(long)]
    pub once: bool,
}
