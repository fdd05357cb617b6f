//! `cargo xtask bench`: Tenon compared with onnxruntime on the same models in the same run.

mod memory;
mod netlist;
mod operators;
mod page;

use crate::{Result, cargo, models, output, python, root, target};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tenon_base::{CPU_VARIABLE, CpuLevel};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Options {
    /// Only these models; with --ops, the cases whose names contain one of these texts.
    names: Vec<String>,
    /// Threads of either runtime.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds for each runtime in a round.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds; the runtimes alternate, the best median of each counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Use vector instructions up to this level on Tenon's side: baseline, avx2, avx512 or native.
    #[arg(long, value_name = "LEVEL", conflicts_with = "write")]
    cpu: Option<CpuLevel>,
    /// Write the table to docs/benchmarks.md as well.
    #[arg(long)]
    write: bool,
    /// Measure the executor instead, compared with oneTBB's flow graph.
    #[arg(long, conflicts_with = "names")]
    executor: bool,
    /// Compare the memory plans of the models with their lower bound instead.
    #[arg(long, conflicts_with = "executor")]
    memory: bool,
    /// Measure the placement of graphs instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "names"])]
    placement: bool,
    /// Measure the checker and the execution of netlists instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "names"])]
    netlist: bool,
    /// Measure one operator at a time instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "nrt"])]
    ops: bool,
    /// Measure calls of the C interface and the pipelining of nodes instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "names"])]
    nrt: bool,
}

/// A measured model and its latency target as a multiple of onnxruntime's.
const MODELS: &[(&str, Option<f64>)] = &[
    ("resnet50", Some(1.5)),
    ("bert", Some(1.5)),
    ("mobilenetv2", Some(2.0)),
    ("mlp", Some(1.0)),
    ("efficientnet-b0", None),
    ("detector", None),
    ("gpt2", None),
    ("lstm", None),
    ("resnet50-int8", None),
];

/// The fields of `tenon bench --json` in the table; `ort_bench.py` prints the same ones.
#[derive(Deserialize, Clone)]
struct Measurement {
    load_ms: f64,
    first_ms: f64,
    median_us: f64,
    p99_us: f64,
    peak_rss_kb: u64,
}

/// Processes timed in a round; the best of all rounds counts.
const STARTS: usize = 5;

struct Row {
    name: &'static str,
    limit: Option<f64>,
    tenon: Measurement,
    onnxruntime: Measurement,
    /// Wall time of a `tenon run` process, best of the rounds.
    process_ms: f64,
    /// Size of the constants read by an execution, plus the arena.
    memory_kb: u64,
    /// Largest difference from onnxruntime's outputs, relative to their largest magnitude.
    difference: f64,
}

/// Runs the selected benchmark and prints its table.
pub fn run(options: &Options) -> Result<()> {
    if options.executor {
        return report("Executor", &executor()?, options.write);
    }
    if options.memory {
        return report(
            "Memory plans",
            &memory::section(&options.names)?,
            options.write,
        );
    }
    if options.placement {
        return report("Placement", &placement()?, options.write);
    }
    if options.netlist {
        return report("Netlists", &netlist::section()?, options.write);
    }
    if options.nrt {
        return report("Runtime", &nrt()?, options.write);
    }
    crate::run(cargo().args(["build", "--release", "--package", "tenon-cli"]))?;
    let comparison = Comparison {
        tenon: &target().join("release/tenon"),
        python: &python::for_tests()?,
        options,
    };
    if options.ops {
        let text = operators::section(&comparison)?;
        return report("Operators", &text, options.write);
    }
    let chosen: Vec<_> = MODELS
        .iter()
        .filter(|(name, _)| options.names.is_empty() || options.names.iter().any(|n| n == name))
        .collect();
    let names: Vec<String> = chosen.iter().map(|(name, _)| (*name).to_owned()).collect();
    let folder = models(&names)?;
    let ceiling = ceiling(comparison.tenon)?;
    let mut rows = Vec::new();
    for (name, limit) in chosen {
        eprintln!("measuring {name}");
        rows.push(measure(&comparison, name, *limit, &folder)?);
    }
    let table = table(&rows, options, &ceiling)?;
    print!("{table}");
    if options.write {
        page::write_first(&table)?;
    }
    Ok(())
}

/// Prints a section of the page, and writes it to the page if `write`.
fn report(title: &str, text: &str, write: bool) -> Result<()> {
    println!("## {title}\n\n{text}");
    if write {
        page::write_section(title, text)?;
    }
    Ok(())
}

/// Measures the executor.
fn executor() -> Result<String> {
    let tables = tables("tenon-executor", "graphs")?;
    let (date, cpu) = (date()?, cpu());
    Ok(format!(
        "Made by `cargo xtask bench --executor --write`. Date {date}, CPU {cpu}. A kernel reads \
         the results of others and has one result; the program is decoded once. Figures are those of the best run.\n\n\
         {tables}"
    ))
}

/// Measures the placement of graphs, and the C interface of loaded backends.
fn placement() -> Result<String> {
    let graphs = tables("tenon-compiler", "placement")?;
    let interface = tables("tenon-backend-kit", "c_interface")?;
    let (date, cpu) = (date()?, cpu());
    Ok(format!(
        "Made by `cargo xtask bench --placement --write`. Date {date}, CPU {cpu}. Every node is offered to \
         CpuAcc, then CpuRef; the subgraphs of both are computed and passed to them. Figures are those of the \
         best run.\n\n{graphs}\nThe cost of the C interface of loaded backends:\n\n{interface}"
    ))
}

/// Measures libnrt and the graph walker.
fn nrt() -> Result<String> {
    let calls = tables("tenon-nrt", "calls")?;
    let pipeline = tables("tenon-runtime", "pipeline")?;
    let (date, cpu) = (date()?, cpu());
    Ok(format!(
        "Made by `cargo xtask bench --nrt --write`. Date {date}, CPU {cpu}. Compared measurements \
         alternate. Figures are medians.\n\n{calls}\n\
         A package of three nodes, executed by several threads on one core. {pipeline}"
    ))
}

/// The tables that a bench prints.
fn tables(package: &str, name: &str) -> Result<String> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", package, "--bench", name]);
    output(&mut command)
}

fn date() -> Result<String> {
    Ok(output(Command::new("date").arg("+%Y-%m-%d"))?
        .trim()
        .to_owned())
}

/// The processor's name.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = name.unwrap_or("unknown");
    name.trim_start_matches([' ', '\t', ':']).to_owned()
}

/// The two programs that are compared, and the options of their runs.
struct Comparison<'a> {
    tenon: &'a Path,
    python: &'a Path,
    options: &'a Options,
}

/// A model, its inputs, and the package of it.
struct Files {
    model: PathBuf,
    arrays: PathBuf,
    package: PathBuf,
}

impl Files {
    fn of(folder: &Path, name: &str) -> Self {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        Self {
            model: file("onnx"),
            arrays: file("npz"),
            package: file("neff"),
        }
    }
}

impl Comparison<'_> {
    /// Compiles the model and returns `tenon info --json` of the package.
    fn compile(&self, files: &Files) -> Result<serde_json::Value> {
        let mut compile = Command::new(self.tenon);
        compile.arg("compile").arg(&files.model);
        run_quietly(compile.arg("-o").arg(&files.package))?;
        let mut info = Command::new(self.tenon);
        let text = output(info.args(["info", "--json"]).arg(&files.package))?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Measures Tenon, then onnxruntime.
    fn round(&self, files: &Files) -> Result<[Measurement; 2]> {
        let Options {
            threads, seconds, ..
        } = self.options;
        let (threads, seconds) = (threads.to_string(), seconds.to_string());
        let mut ours = Command::new(self.tenon);
        ours.arg("bench").arg(&files.package).arg("--json");
        ours.arg("--input").arg(&files.arrays);
        ours.args(["--threads", &threads, "--seconds", &seconds]);
        if let Some(level) = self.options.cpu {
            ours.env(CPU_VARIABLE, level.name());
        }
        let mut theirs = Command::new(self.python);
        theirs.arg(root().join("xtask/python/ort_bench.py"));
        theirs.args([&files.model, &files.arrays]);
        theirs.args([&threads, &seconds]);
        let measured = |mut command: Command| {
            let text = output(&mut command)?;
            serde_json::from_str(&text).map_err(|error| format!("{command:?}: {error}: {text}"))
        };
        Ok([measured(ours)?, measured(theirs)?])
    }
}

fn measure(
    comparison: &Comparison<'_>,
    name: &'static str,
    limit: Option<f64>,
    folder: &Path,
) -> Result<Row> {
    let Comparison { tenon, options, .. } = *comparison;
    let files = Files::of(folder, name);
    let info = comparison.compile(&files)?;
    let threads = options.threads.to_string();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut process_ms = f64::INFINITY;
    for _ in 0..options.rounds {
        let [tenon_side, onnxruntime_side] = comparison.round(&files)?;
        ours.push(tenon_side);
        theirs.push(onnxruntime_side);
        for _ in 0..STARTS {
            let start = Instant::now();
            let mut once = Command::new(tenon);
            once.arg("run").arg(&files.package).arg("--quiet");
            once.arg("--input").arg(&files.arrays);
            run_quietly(once.args(["--threads", &threads]))?;
            process_ms = process_ms.min(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let difference = agreement(tenon, &files.package, &files.arrays)?;
    let bytes = |key: &str| info["sizes"][key].as_u64().unwrap_or(0);
    Ok(Row {
        name,
        limit,
        tenon: best(&ours).ok_or(NO_ROUND)?,
        onnxruntime: best(&theirs).ok_or(NO_ROUND)?,
        process_ms,
        memory_kb: (bytes("used_constant_bytes") + bytes("arena_bytes")) / 1024,
        difference,
    })
}

const NO_ROUND: &str = "no round was measured";

/// Runs once and compares with onnxruntime's outputs stored when the model was exported. Fails if the
/// most probable class differs.
fn agreement(tenon: &Path, package: &Path, arrays: &Path) -> Result<f64> {
    let mut command = Command::new(tenon);
    command
        .arg("run")
        .arg(package)
        .arg("--input")
        .arg(arrays)
        .arg("--compare")
        .arg(arrays);
    let text = output(command.args(["--tolerance", "1"]))?;
    let relative = |line: &str| {
        let rest = line
            .split_once(": largest difference ")?
            .1
            .split_once("relative ")?
            .1;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    let largest = text.lines().filter_map(relative).reduce(f64::max);
    largest.ok_or_else(|| format!("{command:?} compared nothing: {text}"))
}

/// The best round of each figure: noise of the machine only increases times.
fn best(rounds: &[Measurement]) -> Option<Measurement> {
    rounds.iter().cloned().reduce(|a, b| Measurement {
        load_ms: a.load_ms.min(b.load_ms),
        first_ms: a.first_ms.min(b.first_ms),
        median_us: a.median_us.min(b.median_us),
        p99_us: a.p99_us.min(b.p99_us),
        peak_rss_kb: a.peak_rss_kb.min(b.peak_rss_kb),
    })
}

fn run_quietly(command: &mut Command) -> Result<()> {
    crate::run(command.stdout(std::process::Stdio::null()))
}

/// Measures the GFLOP/s of f32 multiply-adds on one thread and on all.
fn ceiling(tenon: &Path) -> Result<serde_json::Value> {
    let text = output(Command::new(tenon).args(["bench", "--ceiling", "--json"]))?;
    serde_json::from_str(&text).map_err(|error| format!("tenon bench --ceiling: {error}"))
}

fn table(rows: &[Row], options: &Options, ceiling: &serde_json::Value) -> Result<String> {
    let (date, cpu) = (date()?, cpu());
    let gflops = |key: &str| ceiling[key].as_f64().unwrap_or(0.0);
    let Options {
        threads,
        seconds,
        rounds,
        ..
    } = options;
    let mut lines = vec![
        "# Benchmarks".into(),
        String::new(),
        format!(
            "Made by `cargo xtask bench --write --threads {threads} --seconds {seconds} --rounds {rounds}`."
        ),
        format!(
            "Date {}, CPU {cpu}, ceiling {:.0} GFLOP/s f32 on one thread and {:.0} on all \
             (`tenon bench --ceiling`).",
            date,
            gflops("one_thread_gflops"),
            gflops("all_threads_gflops")
        ),
        "onnxruntime 1.31.1 with the same number of threads, alternating. Figures are those of the best round."
            .into(),
        String::new(),
        "| model | Tenon median | p99 | onnxruntime median | p99 | ratio | target | met | difference |".into(),
        "|---|---|---|---|---|---|---|---|---|".into(),
    ];
    lines.extend(rows.iter().map(latency));
    lines.extend([
        String::new(),
        "Time to the first output. Tenon: a `tenon run` process on the package, reading the input file \
         included. onnxruntime: session creation and first run only, without the start of Python."
            .into(),
        "Target for ResNet-50: process at most its median + 15 ms and at most a third of onnxruntime's \
         creation and first run, memory at most constants + arena + 30 MB."
            .into(),
        String::new(),
        "| model | load | first run | process | minus median | onnxruntime | process ÷ onnxruntime | peak memory | constants + arena | over | met |".into(),
        "|---|---|---|---|---|---|---|---|---|---|---|".into(),
    ]);
    lines.extend(rows.iter().map(start));
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// The row of a model in the table of latencies.
fn latency(row: &Row) -> String {
    let ratio = row.tenon.median_us / row.onnxruntime.median_us;
    let (target, met) = match row.limit {
        Some(limit) => (format!("≤ {limit}"), met(ratio <= limit)),
        None => ("–".into(), "–"),
    };
    format!(
        "| {} | {} | {} | {} | {} | {ratio:.2} | {target} | {met} | {:.0e} |",
        row.name,
        time(row.tenon.median_us),
        time(row.tenon.p99_us),
        time(row.onnxruntime.median_us),
        time(row.onnxruntime.p99_us),
        row.difference
    )
}

/// The row of a model in the table of start-up times.
fn start(row: &Row) -> String {
    let onnxruntime = row.onnxruntime.load_ms + row.onnxruntime.first_ms;
    let beyond = row.process_ms - row.tenon.median_us / 1e3;
    let over_kb = row.tenon.peak_rss_kb.saturating_sub(row.memory_kb);
    let all = beyond <= 15.0 && row.process_ms * 3.0 <= onnxruntime && over_kb <= 30 * 1024;
    format!(
        "| {} | {:.1} ms | {:.1} ms | {:.1} ms | {beyond:.1} ms | {onnxruntime:.1} ms | {:.2} | {} MB | {} MB | {} MB | {} |",
        row.name,
        row.tenon.load_ms,
        row.tenon.first_ms,
        row.process_ms,
        row.process_ms / onnxruntime,
        row.tenon.peak_rss_kb / 1024,
        row.memory_kb / 1024,
        over_kb / 1024,
        if row.name == "resnet50" {
            met(all)
        } else {
            "–"
        }
    )
}

fn met(yes: bool) -> &'static str {
    if yes { "yes" } else { "**no**" }
}

/// A time in microseconds, or in milliseconds from 1 ms.
fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.1} µs")
    } else {
        format!("{:.2} ms", us / 1e3)
    }
}
