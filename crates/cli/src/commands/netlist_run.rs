//! `tenon netlist run`

use crate::netlist_flags::{NetlistCompile, NetlistMode, NetlistRun};
use crate::output::say;
use crate::table::{Table, duration};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tenon::netlist::Arch;
use tenon::{
    Control, MachineLimits, NetlistJob, NetlistLoad, NetlistOutcome, NumericMode, OpRow, Result,
    Tensor, netlist_source, npy, run_netlist,
};

pub fn run(flags: &NetlistRun) -> Result<ExitCode> {
    let source = netlist_source(&flags.file)?;
    let control = match flags.timeout {
        Some(seconds) => Control::with_deadline(Instant::now() + Duration::from_secs_f64(seconds)),
        None => Control::new(),
    };
    let start = Instant::now();
    let outcome = run_netlist(&source, &job(flags)?, &control)?;
    let took = start.elapsed();
    for warning in outcome.session.warnings() {
        eprintln!("warning: {warning}");
    }
    if let Some(path) = &flags.outputs {
        let arrays: Vec<(&str, &Tensor)> = outcome
            .outputs
            .iter()
            .map(|(name, array)| (name.as_str(), array))
            .collect();
        npy::write_npz(path, &arrays)?;
    }
    let rows = outcome.session.op_rows();
    match flags.json {
        true => say!("{}", as_json(&outcome, &rows, took))?,
        false => print(&outcome, &rows, took, flags.quiet)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is a netlist, by its name.
pub fn is_netlist(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["yaml", "yml"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// What a package of a netlist is made of.
pub fn compile_job(flags: &NetlistCompile) -> Result<NetlistJob> {
    Ok(NetlistJob {
        load: NetlistLoad {
            mode: mode(flags.mode),
            arch: arch(flags.arch.as_deref())?,
            ..NetlistLoad::default()
        },
        programs: flags.program.clone(),
        params: flags.params.iter().cloned().collect(),
        inputs: arrays(flags.rams.as_deref())?,
        ..NetlistJob::default()
    })
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

fn job(flags: &NetlistRun) -> Result<NetlistJob> {
    let limits = MachineLimits {
        steps: flags.max_steps.unwrap_or(MachineLimits::default().steps),
        ..MachineLimits::default()
    };
    Ok(NetlistJob {
        load: NetlistLoad {
            mode: mode(flags.mode),
            arch: arch(flags.arch.as_deref())?,
            limits,
            threads: flags.threads,
        },
        programs: flags.program.clone(),
        params: flags.params.iter().cloned().collect(),
        inputs: arrays(flags.inputs.as_deref())?,
        seed: flags.seed,
        loops: flags.loops,
        init_rams: flags.init_rams,
        readback: flags.readback,
    })
}

fn print(outcome: &NetlistOutcome, rows: &[OpRow], took: Duration, quiet: bool) -> Result<()> {
    if !quiet {
        let mut table = Table::new(&["graph", "op", "type", "runs", "time", "GFLOP/s"]);
        for row in rows {
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
    }
    let work: Duration = rows.iter().map(|row| row.time).sum();
    say!("ran in {}, {} of it in ops", duration(took), duration(work))
}

/// Arithmetic in a nanosecond, where there is any to count.
fn rate(row: &OpRow) -> Option<f64> {
    let seconds = row.time.as_secs_f64();
    (row.flops > 0 && seconds > 0.0).then(|| row.flops as f64 * row.runs as f64 / seconds / 1e9)
}

fn as_json(outcome: &NetlistOutcome, rows: &[OpRow], took: Duration) -> Value {
    let op = |row: &OpRow| {
        json!({
            "graph": row.graph, "op": row.op, "type": row.kind.name(), "runs": row.runs,
            "seconds": row.time.as_secs_f64(), "flops": row.flops, "gflops": rate(row),
        })
    };
    let outputs = outcome.outputs.iter();
    let outputs: BTreeMap<&str, Value> = outputs
        .map(|(name, array)| (name.as_str(), json!(array.shape().to_vec())))
        .collect();
    json!({
        "seconds": took.as_secs_f64(),
        "ops": rows.iter().map(op).collect::<Vec<_>>(),
        "outputs": outputs,
    })
}
