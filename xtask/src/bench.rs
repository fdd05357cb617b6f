//! `cargo xtask bench`: Tenon compared with other runtimes on the same models in the same run.

mod bf16;
mod dynamic;
mod half;
mod level;
mod limits;
mod memory;
mod netlist;
mod operators;
mod python;
mod serve;
mod table;
mod trees;

pub(crate) use table::time;

use crate::python as environments;
use crate::section::with_section;
use crate::{Result, cargo, models, output, root, target};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tenon_base::CpuLevel;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Options {
    /// Only these models; with --ops, the cases whose names contain one of these texts.
    names: Vec<String>,
    /// Threads of each runtime; several counts, separated by commas, are measured one after the other.
    /// With --ops the first one counts.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Seconds for each runtime in a round.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds; the runtimes alternate, the best median of each counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Hide vector instructions above this level from Tenon and all that it is compared with: baseline, avx2, avx512 or
    /// native. The CPU must have the flag cpuid_fault.
    #[arg(long, value_name = "LEVEL")]
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
    /// Measure models whose sizes are known only when they run instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "nrt"])]
    dynamic: bool,
    /// Measure models in half precision instead, beside the same models in f32.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "nrt"])]
    half: bool,
    /// Measure models with weights of bf16 instead, beside the same models in f32 and OpenVINO's default.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "half", "nrt"])]
    bf16: bool,
    /// Print the time of each model beside the least that the machine allows instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "half", "bf16", "nrt"])]
    limits: bool,
    /// Measure calls from Python instead, compared with Rust and onnxruntime.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "half", "bf16", "limits", "nrt", "names"])]
    python: bool,
    /// Measure ensembles of decision trees instead, compared with onnxruntime, treelite and lleaves.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "half", "bf16", "limits", "python", "nrt"])]
    trees: bool,
    /// Measure `tenon serve` instead, compared with servers in Python.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "netlist", "ops", "dynamic", "half", "bf16", "limits", "python", "trees", "nrt", "names"])]
    serve: bool,
    /// Measure calls of the C interface and the pipelining of nodes instead.
    #[arg(long, conflicts_with_all = ["executor", "memory", "placement", "names"])]
    nrt: bool,
}

impl Options {
    /// Whether the model of this name is measured.
    fn chooses(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|chosen| chosen == name)
    }

    /// The chosen models.
    fn models(&self) -> impl Iterator<Item = &'static (&'static str, Option<f64>)> {
        MODELS.iter().filter(|(name, _)| self.chooses(name))
    }

    /// The chosen models of f32.
    fn float_models(&self) -> Vec<&'static str> {
        let floats = self.models().filter(|(_, limit)| limit.is_some());
        floats.map(|(name, _)| *name).collect()
    }
}

/// A measured model, and its largest latency as a multiple of the best peer's.
const MODELS: &[(&str, Option<f64>)] = &[
    ("resnet50", Some(1.0)),
    ("mobilenetv2", Some(1.0)),
    ("efficientnet-b0", Some(1.0)),
    ("detector", Some(1.0)),
    ("bert", Some(1.0)),
    ("gpt2", Some(1.0)),
    ("gpt2-prefill", Some(1.0)),
    ("lstm", Some(1.0)),
    ("mlp", Some(1.0)),
    ("nodes-2000", Some(1.0)),
    ("resnet50-int8", None),
    ("bert-int8", None),
    ("gpt2-int4", None),
];

/// Models that quantise rows when they run: an element on the border of two steps changes a scale or a step, and then others.
/// Outputs of onnxruntime with and without its optimisations differ as much as from Tenon's (0.081 and 0.079 of bert-int8),
/// so that the greatest element may be another one.
const DYNAMIC_STEPS: &[&str] = &["bert-int8"];

/// Largest compile times in seconds.
const COMPILE_SECONDS: &[(&str, f64)] = &[("bert", 1.5), ("resnet50", 0.7)];

/// Largest peak memory of compiling as a multiple of the model file, for the models with a time.
const COMPILE_MEMORY: f64 = 2.2;

/// A runtime that Tenon is compared with: its name, and the script that measures it.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    script: &'static str,
    /// Arguments after those of all scripts.
    arguments: &'static [&'static str],
}

pub(crate) const ONNXRUNTIME: Peer = Peer {
    name: "onnxruntime 1.31.1",
    script: "onnxruntime_bench.py",
    arguments: &[],
};

const OPENVINO: Peer = Peer {
    name: "OpenVINO 2026.4.1",
    script: "openvino_bench.py",
    arguments: &["f32"],
};

/// The same with the precision that it selects itself.
const OPENVINO_DEFAULT: Peer = Peer {
    arguments: &[],
    ..OPENVINO
};

/// The peers of whole models. onnxruntime is the first one.
const PEERS: &[Peer] = &[ONNXRUNTIME, OPENVINO];

/// The fields of `tenon bench --json` in the table; the scripts of the peers print the same ones.
#[derive(Deserialize, Clone)]
struct Measurement {
    load_ms: f64,
    first_ms: f64,
    median_us: f64,
    p99_us: f64,
    peak_rss_kb: u64,
}

/// What `timed.py` prints.
#[derive(Deserialize, Clone, Copy)]
struct Resources {
    seconds: f64,
    peak_rss_kb: u64,
}

/// Processes timed in a round; the best of all rounds counts.
const STARTS: usize = 5;

/// The measurements of a model.
struct Row {
    name: &'static str,
    limit: Option<f64>,
    /// One for each number of threads.
    latencies: Vec<Latency>,
    /// Wall time of a `tenon run` process with the most threads, best of the rounds.
    process_ms: f64,
    /// Size of the constants read by an execution, plus the arena.
    memory_kb: u64,
    /// Largest difference from onnxruntime's outputs, relative to their largest magnitude.
    difference: f64,
    /// The resources of `tenon compile`, best of the rounds.
    compile: Resources,
    model_kb: u64,
}

/// The measurements of a model with a number of threads.
struct Latency {
    threads: usize,
    tenon: Measurement,
    /// In the order of [`PEERS`].
    peers: Vec<Measurement>,
}

impl Latency {
    /// Tenon's median as a multiple of the best peer's.
    fn ratio(&self) -> f64 {
        let medians = self.peers.iter().map(|peer| peer.median_us);
        self.tenon.median_us / medians.fold(f64::INFINITY, f64::min)
    }
}

/// Runs the selected benchmark and prints its table.
pub fn run(options: &Options) -> Result<()> {
    if let Some(level) = options.cpu
        && level::run_below(level)?
    {
        return Ok(());
    }
    if options.executor {
        return report("Executor", &executor()?, options.write);
    }
    if options.memory {
        return report("Memory plans", &memory::section(options)?, options.write);
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
        python: &environments::for_benches()?,
        options,
    };
    let (title, text) = if options.ops {
        (of_level("Operators"), operators::section(&comparison)?)
    } else if options.dynamic {
        let text = dynamic::section(&comparison)?;
        ("Sizes known at run time".to_owned(), text)
    } else if options.python {
        let text = python::section(&comparison)?;
        ("Calls from Python".to_owned(), text)
    } else if options.trees {
        (of_level("Trees"), trees::section(&comparison)?)
    } else if options.serve {
        ("Serving".to_owned(), serve::section(&comparison)?)
    } else if options.half {
        (of_level("Half precision"), half::section(&comparison)?)
    } else if options.bf16 {
        (of_level("bf16"), bf16::section(&comparison)?)
    } else if options.limits {
        (of_level("Limits"), limits::section(&comparison)?)
    } else {
        (of_level("Models"), whole_models(&comparison)?)
    };
    report(&title, &text, options.write)
}

/// Measures whole models.
fn whole_models(comparison: &Comparison<'_>) -> Result<String> {
    let options = comparison.options;
    let names: Vec<String> = options.models().map(|(name, _)| name.to_string()).collect();
    let folder = models(&names)?;
    let ceiling = ceiling(comparison.tenon)?;
    let mut rows = Vec::new();
    for (name, limit) in options.models() {
        eprintln!("measuring {name}");
        rows.push(measure(comparison, name, *limit, &folder)?);
    }
    table::table(&rows, options, &ceiling)
}

/// The title of a section with figures of a level of vector instructions: `Models, AVX2`.
fn of_level(title: &str) -> String {
    let level = match CpuLevel::native() {
        CpuLevel::Baseline => "baseline",
        CpuLevel::Avx2 => "AVX2",
        CpuLevel::Avx512 => "AVX-512",
    };
    format!("{title}, {level}")
}

/// Prints a section of the page, and writes it to the page if `write`.
fn report(title: &str, text: &str, write: bool) -> Result<()> {
    println!("## {title}\n\n{text}");
    if write {
        let path = root().join("docs/benchmarks.md");
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, with_section(&page, title, text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Measures the executor.
fn executor() -> Result<String> {
    let tables = tables("tenon-executor", "graphs")?;
    Ok(format!(
        "{}. A kernel reads the results of others and has one result; the program is decoded once. Figures are those of \
         the best run.\n\n{tables}",
        made("--executor --write")?
    ))
}

/// Measures the placement of graphs, and the C interface of loaded backends.
fn placement() -> Result<String> {
    let graphs = tables("tenon-compiler", "placement")?;
    let interface = tables("tenon-backend-kit", "c_interface")?;
    Ok(format!(
        "{}. Every node is offered to \
         CpuAcc, then CpuRef; the subgraphs of both are computed and passed to them. Figures are those of the \
         best run.\n\n{graphs}\nThe cost of the C interface of loaded backends:\n\n{interface}",
        made("--placement --write")?
    ))
}

/// Measures libnrt and the graph walker.
fn nrt() -> Result<String> {
    let calls = tables("tenon-nrt", "calls")?;
    let pipeline = tables("tenon-runtime", "pipeline")?;
    Ok(format!(
        "{}. Compared measurements alternate. Figures are medians.\n\n{calls}\n\
         A package of three nodes, executed by several threads on one core. {pipeline}",
        made("--nrt --write")?
    ))
}

/// The beginning of a section: the command that makes it, the date, the CPU.
fn made(flags: &str) -> Result<String> {
    Ok(format!(
        "Made by `cargo xtask bench {flags}`. Date {}, CPU {}",
        date()?,
        cpu()
    ))
}

/// The tables that a bench prints.
fn tables(package: &str, name: &str) -> Result<String> {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", package, "--bench", name]);
    output(&mut command)
}

pub(crate) fn date() -> Result<String> {
    Ok(output(Command::new("date").arg("+%Y-%m-%d"))?
        .trim()
        .to_owned())
}

/// The processor's name, and what is hidden of it.
pub(crate) fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = name.unwrap_or("unknown");
    let name = name.trim_start_matches([' ', '\t', ':']);
    format!("{name}{}", level::note())
}

/// The programs that are compared, and the options of their runs.
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
        self.compile_with(files, &[])
    }

    /// The same with flags of `tenon compile`.
    fn compile_with(&self, files: &Files, flags: &[&str]) -> Result<serde_json::Value> {
        let mut compile = Command::new(self.tenon);
        compile.arg("compile").arg(&files.model).args(flags);
        run_quietly(compile.arg("-o").arg(&files.package))?;
        let mut info = Command::new(self.tenon);
        let text = output(info.args(["info", "--json"]).arg(&files.package))?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Measures Tenon, then each of `peers`.
    fn round(&self, files: &Files, threads: usize, peers: &[Peer]) -> Result<Vec<Measurement>> {
        let (threads, seconds) = (threads.to_string(), self.options.seconds.to_string());
        let mut ours = Command::new(self.tenon);
        ours.arg("bench").arg(&files.package).arg("--json");
        ours.arg("--input").arg(&files.arrays);
        ours.args(["--threads", &threads, "--seconds", &seconds]);
        let theirs = peers.iter().map(|peer| {
            let mut command = Command::new(self.python);
            command.arg(root().join("xtask/python").join(peer.script));
            command.args([&files.model, &files.arrays]);
            command.args([&threads, &seconds]).args(peer.arguments);
            command
        });
        std::iter::once(ours)
            .chain(theirs)
            .map(|mut command| parsed(&mut command))
            .collect()
    }

    /// Measures the rounds of a model with a number of threads.
    fn latency(&self, files: &Files, threads: usize) -> Result<Latency> {
        let rounds: Vec<_> = (0..self.options.rounds)
            .map(|_| self.round(files, threads, PEERS))
            .collect::<Result<_>>()?;
        let best_of = |runtime: usize| best(rounds.iter().filter_map(|round| round.get(runtime)));
        let peers = (1..=PEERS.len()).map(|runtime| best_of(runtime).ok_or(NO_ROUND.into()));
        Ok(Latency {
            threads,
            tenon: best_of(0).ok_or(NO_ROUND)?,
            peers: peers.collect::<Result<_>>()?,
        })
    }

    /// Measures `tenon compile`.
    fn compilation(&self, files: &Files) -> Result<Resources> {
        let mut command = Command::new(self.python);
        command.arg(root().join("xtask/python/timed.py"));
        command.arg(self.tenon).arg("compile").arg(&files.model);
        parsed(command.arg("-o").arg(&files.package))
    }
}

/// The JSON that a command prints.
fn parsed<T: serde::de::DeserializeOwned>(command: &mut Command) -> Result<T> {
    let text = output(command)?;
    serde_json::from_str(&text).map_err(|error| format!("{command:?}: {error}: {text}"))
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
    let latencies: Vec<Latency> = options
        .threads
        .iter()
        .map(|&threads| comparison.latency(&files, threads))
        .collect::<Result<_>>()?;
    let threads = latencies.last().ok_or("no number of threads")?.threads;
    let (mut process_ms, mut compile) = (f64::INFINITY, None::<Resources>);
    for _ in 0..options.rounds {
        for _ in 0..STARTS {
            let start = Instant::now();
            let mut once = Command::new(tenon);
            once.arg("run").arg(&files.package).arg("--quiet");
            once.arg("--input").arg(&files.arrays);
            run_quietly(once.args(["--threads", &threads.to_string()]))?;
            process_ms = process_ms.min(start.elapsed().as_secs_f64() * 1e3);
        }
        let found = comparison.compilation(&files)?;
        compile = Some(compile.map_or(found, |best| Resources {
            seconds: best.seconds.min(found.seconds),
            peak_rss_kb: best.peak_rss_kb.min(found.peak_rss_kb),
        }));
    }
    let agreement = agreement(tenon, &files.package, &files.arrays)?;
    if !agreement.same_top && !DYNAMIC_STEPS.contains(&name) {
        return Err(format!(
            "{name}: the greatest element of an output is another one"
        ));
    }
    let bytes = |key: &str| info["sizes"][key].as_u64().unwrap_or(0);
    let model = std::fs::metadata(&files.model).map_err(|error| error.to_string())?;
    Ok(Row {
        name,
        limit,
        latencies,
        process_ms,
        memory_kb: (bytes("used_constant_bytes") + bytes("arena_bytes")) / 1024,
        difference: agreement.difference,
        compile: compile.ok_or(NO_ROUND)?,
        model_kb: model.len() / 1024,
    })
}

const NO_ROUND: &str = "no round was measured";

/// How outputs agree with onnxruntime's.
struct Agreement {
    /// The largest difference relative to the largest magnitude of its output.
    difference: f64,
    /// Whether the greatest element of each output is the same one.
    same_top: bool,
}

/// Runs once and compares with the outputs of onnxruntime that were stored when the model was exported. Fails if
/// nothing was compared.
fn agreement(tenon: &Path, package: &Path, arrays: &Path) -> Result<Agreement> {
    let mut command = Command::new(tenon);
    command
        .arg("run")
        .arg(package)
        .arg("--input")
        .arg(arrays)
        .arg("--compare")
        .arg(arrays);
    // Where the greatest element is another one, the command ends with an error after it has printed the differences.
    let output = command.args(["--tolerance", "1"]).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let relative = |line: &str| {
        let rest = line
            .split_once(": largest difference ")?
            .1
            .split_once("relative ")?
            .1;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    let largest = text.lines().filter_map(relative).reduce(f64::max);
    let same_top = !text.contains(", top differs");
    let Some(difference) = largest.filter(|_| output.status.success() || !same_top) else {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{command:?} ended with {}: {text}{errors}",
            output.status
        ));
    };
    Ok(Agreement {
        difference,
        same_top,
    })
}

/// The best round of each figure: noise of the machine only increases times.
fn best<'a>(rounds: impl Iterator<Item = &'a Measurement>) -> Option<Measurement> {
    rounds.cloned().reduce(|a, b| Measurement {
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
