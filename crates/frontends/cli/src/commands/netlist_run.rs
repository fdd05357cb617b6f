//! `tenon netlist run`

use super::input_files::once;
use super::load;
use crate::netlist_flags::{NetlistCompile, NetlistMode, NetlistRun};
use crate::output::{self, say};
use crate::progress;
use crate::table::{Table, duration};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenon::activity::Activity;
use tenon::files::write_through;
use tenon::netlist::Arch;
use tenon::netlist::{
    GraphRow, Job, JobOutcome, MachineLimits, MetricRow, NumericMode, OpRow, SessionOptions,
    choose_arch, find_device, read_source,
};
use tenon::tensor::{atomic_file, npy};
use tenon::{Control, Result, Tensor};

pub fn run(flags: &NetlistRun) -> Result<ExitCode> {
    let source = read_source(&flags.file)?;
    let control = progress::control_within(flags.timeout);
    if let Some(path) = &flags.outputs {
        output::reserve(path, flags.json)?;
        write_through(path, |path| atomic_file::check_writable(path))?;
    }
    let start = Instant::now();
    let job = job(flags, control)?;
    let program = load::active_program(&Activity::published(), &flags.file);
    let outcome = program.execute(|| job.run(&source))?;
    let took = start.elapsed();
    for warning in outcome.session.warnings() {
        output::complain(format_args!("warning: {warning}"));
    }
    if let Some(path) = &flags.outputs {
        let arrays: Vec<(&str, &Tensor)> = outcome
            .outputs
            .iter()
            .map(|(name, array)| (name.as_str(), array))
            .collect();
        write_through(path, |path| npy::write_npz(path, &arrays))?;
    }
    let report = RunReport::new(&outcome, arch(flags.arch.as_deref())?, took)?;
    if flags.json {
        output::json(as_json(&outcome, &report))?;
    } else {
        print(&outcome, &report, flags.quiet)?;
    }
    let missed = report.missed();
    if !missed.is_empty() {
        let checked = report
            .metrics
            .iter()
            .filter(|row| row.outcome.within.is_some());
        output::complain(format_args!(
            "error: {}: performance-check: {} of {} not met: {}",
            flags.file.display(),
            missed.len(),
            output::count(checked.count(), "metric"),
            missed.join(", ")
        ));
    }
    Ok(output::status(missed.is_empty()))
}

/// The report of a run.
struct RunReport {
    took: Duration,
    ops: Vec<OpRow>,
    graphs: Vec<GraphRow>,
    metrics: Vec<MetricRow>,
    /// The device that estimates are of.
    device: String,
}

impl RunReport {
    fn new(outcome: &JobOutcome, arch: Option<Arch>, took: Duration) -> Result<Self> {
        let session = &outcome.session;
        let own = session.netlist().arch.first().map(|arch| arch.value);
        let arch = choose_arch(session.netlist(), arch)?.or(own);
        let device = find_device(arch.unwrap_or(Arch::Grayskull).name())?;
        Ok(Self {
            took,
            ops: session.op_rows(),
            graphs: session.graph_rows(&device),
            metrics: session.metric_rows(),
            device: device.name,
        })
    }

    /// The metrics of performance-check that this machine does not meet.
    fn missed(&self) -> Vec<String> {
        let missed = |row: &&MetricRow| row.outcome.within == Some(false);
        let rows = self.metrics.iter().filter(missed);
        rows.map(|row| format!("{}.{}", row.block, row.outcome.metric.name))
            .collect()
    }
}

/// Whether a file is a netlist, by its name.
pub fn is_netlist(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["yaml", "yml"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// The job that compiles a netlist.
pub fn compile_job(flags: &NetlistCompile, control: Control) -> Result<Job> {
    let session = SessionOptions::new()
        .mode(mode(flags.mode))
        .arch(arch(flags.arch.as_deref())?);
    Ok(Job::new()
        .session(session)
        .programs(flags.program.clone())
        .params(once("--param", &flags.params)?)
        .inputs(arrays(flags.rams.as_deref())?)
        .control(control))
}

pub(super) fn arch(name: Option<&str>) -> Result<Option<Arch>> {
    name.map(super::netlist::architecture).transpose()
}

fn mode(mode: NetlistMode) -> NumericMode {
    match mode {
        NetlistMode::Golden => NumericMode::Golden,
        NetlistMode::Formats => NumericMode::Formats,
    }
}

fn arrays(path: Option<&Path>) -> Result<BTreeMap<String, Tensor>> {
    let arrays = path.map(npy::read_npz).transpose()?;
    Ok(arrays.into_iter().flatten().collect())
}

fn job(flags: &NetlistRun, control: Control) -> Result<Job> {
    let limits = MachineLimits {
        steps: flags.max_steps.unwrap_or(MachineLimits::default().steps),
        ..MachineLimits::default()
    };
    let session = SessionOptions::new()
        .mode(mode(flags.mode))
        .arch(arch(flags.arch.as_deref())?)
        .limits(limits)
        .threads(flags.threading.threads.and_then(NonZeroUsize::new));
    Ok(Job::new()
        .session(session)
        .programs(flags.program.clone())
        .params(once("--param", &flags.params)?)
        .inputs(arrays(flags.inputs.as_deref())?)
        .seed(flags.seed)
        .loops(flags.loops)
        .init_rams(flags.init_rams)
        .readback(flags.readback)
        .control(control))
}

fn print(outcome: &JobOutcome, report: &RunReport, quiet: bool) -> Result<()> {
    if !quiet {
        let mut table = Table::new(&["graph", "op", "type", "runs", "time", "GFLOP/s"]);
        for row in &report.ops {
            table.row([
                row.graph.clone(),
                row.op.clone(),
                row.kind.to_string(),
                row.runs.to_string(),
                duration(row.time),
                rate(row).map_or(String::new(), |rate| format!("{rate:.1}")),
            ]);
        }
        say!("{table}")?;
        for (name, array) in &outcome.outputs {
            say!("{name}: {}", array.ty())?;
        }
        print_graphs(report)?;
        print_metrics(report)?;
    }
    let work: Duration = report.ops.iter().map(|row| row.time).sum();
    let took = duration(report.took);
    say!("ran in {took}, {} of it in ops", duration(work))
}

fn print_graphs(report: &RunReport) -> Result<()> {
    let device = &report.device;
    say!("\non this machine, and an estimate of an ideal {device} that never waits for data")?;
    let mut table = Table::new(&[
        "graph",
        "inputs",
        "time",
        "inputs/s",
        "cycles",
        "cores in use",
    ]);
    for row in &report.graphs {
        let used = row.estimated_utilisation;
        table.row([
            row.graph.clone(),
            row.inputs.to_string(),
            duration(row.time),
            per_second(row).map_or(String::new(), |rate| format!("{rate:.1}")),
            row.estimated_cycles.to_string(),
            used.map_or(String::new(), |part| format!("{:.1} %", part * 100.0)),
        ]);
    }
    say!("{table}\n")
}

fn print_metrics(report: &RunReport) -> Result<()> {
    if report.metrics.is_empty() {
        return Ok(());
    }
    say!("what performance-check expects of a device, and what this machine reached")?;
    let mut table = Table::new(&["block", "metric", "expected", "within", "here", "verdict"]);
    for MetricRow { block, outcome } in &report.metrics {
        let metric = &outcome.metric;
        let verdict = match (outcome.measured, outcome.within) {
            (None, _) => "only a device has it",
            (Some(_), None) => "nothing is expected",
            (Some(_), Some(true)) => "met here",
            (Some(_), Some(false)) => "not met here",
        };
        table.row([
            block.clone(),
            metric.name.clone(),
            metric.expected.to_string(),
            format!("{} %", metric.rtol * 100.0),
            outcome
                .measured
                .map_or(String::new(), |here| format!("{here:.1}")),
            verdict.to_owned(),
        ]);
    }
    say!("{table}\n")
}

/// Inputs of a graph in a second.
fn per_second(row: &GraphRow) -> Option<f64> {
    let seconds = row.time.as_secs_f64();
    (seconds > 0.0).then(|| row.inputs as f64 / seconds)
}

/// Arithmetic in a nanosecond, where there is any to count.
fn rate(row: &OpRow) -> Option<f64> {
    let seconds = row.time.as_secs_f64();
    (row.flops > 0 && seconds > 0.0).then(|| row.flops as f64 * row.runs as f64 / seconds / 1e9)
}

fn as_json(outcome: &JobOutcome, report: &RunReport) -> Value {
    let op = |row: &OpRow| {
        json!({
            "graph": row.graph, "op": row.op, "type": row.kind.name(), "runs": row.runs,
            "seconds": row.time.as_secs_f64(), "flops": row.flops, "gflops": rate(row),
        })
    };
    let graph = |row: &GraphRow| {
        json!({
            "graph": row.graph, "inputs": row.inputs, "seconds": row.time.as_secs_f64(),
            "estimated_cycles": row.estimated_cycles,
            "estimated_utilisation": row.estimated_utilisation,
        })
    };
    let metric = |MetricRow { block, outcome }: &MetricRow| {
        let metric = &outcome.metric;
        json!({
            "block": block, "metric": metric.name, "expected": metric.expected,
            "rtol": metric.rtol, "measured_here": outcome.measured, "within": outcome.within,
        })
    };
    let outputs = outcome.outputs.iter();
    let outputs: BTreeMap<&str, Value> = outputs
        .map(|(name, array)| (name.as_str(), json!(array.shape().to_vec())))
        .collect();
    json!({
        "seconds": report.took.as_secs_f64(),
        "ops": report.ops.iter().map(op).collect::<Vec<_>>(),
        "graphs": report.graphs.iter().map(graph).collect::<Vec<_>>(),
        "estimates_of": report.device,
        "performance_check": report.metrics.iter().map(metric).collect::<Vec<_>>(),
        "outputs": outputs,
    })
}
