//! How fast netlists run: products beside the arithmetic of the cores, and what an op costs besides
//! its arithmetic. Prints a table in Markdown.

#![allow(clippy::print_stdout, reason = "its table is what it is for")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};
use tenon::machine::multiply_add_ceiling;
use tenon::netlist::{AttributeKey, Netlist, OpKind, Source, read};
use tenon::netlist::{
    Job, JobOutcome, OpRow, ProgramOptions, Session, SessionOptions, default_params,
};
use tenon::{Control, Result, Tensor, machine};
use tenon_test_data::netlists;

/// Runs of which the best counts, for noise only ever adds.
const RUNS: usize = 10;
/// Shorter measurements are repeated until then: the scheduler assigns two busy threads to two cores
/// only after some time.
const LONG: Duration = Duration::from_millis(200);
/// Length of the chain of ops whose overhead is measured.
const CHAIN: usize = 200;

fn main() -> Result<()> {
    let part = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if part.is_none() {
        squares()?;
        chains()?;
    }
    samples(part.as_deref())
}

fn squares() -> Result<()> {
    println!("Square matmuls, GFLOP/s; the ceiling is the measured peak of multiply-adds.\n");
    println!("| side | threads | GFLOP/s | ceiling | of the ceiling | required | met |");
    println!("|---|---|---|---|---|---|---|");
    for count in [1, machine::threads()] {
        for side in [256, 512, 1024, 2048] {
            let best = best(&products(side), count, "x", "y")?;
            let rate = 2.0 * (side as f64).powi(3) * PRODUCTS as f64 / best.as_secs_f64() / 1e9;
            let ceiling = multiply_add_ceiling(count);
            println!("| {side} | {count} | {} |", reached(rate, ceiling));
        }
    }
    Ok(())
}

/// The cells of a row: rate, ceiling, ratio, required ratio, whether it is met.
fn reached(rate: f64, ceiling: f64) -> String {
    let part = 100.0 * rate / ceiling;
    let met = met(part >= REQUIRED_RATIO);
    format!("{rate:.0} | {ceiling:.0} | {part:.0} % | ≥ {REQUIRED_RATIO} % | {met}")
}

/// The required ratio to the ceiling, in percent.
const REQUIRED_RATIO: f64 = 60.0;
/// The largest overhead of an op, in microseconds.
const MAX_OVERHEAD: f64 = 5.0;

fn met(yes: bool) -> &'static str {
    if yes { "yes" } else { "**no**" }
}

fn chains() -> Result<()> {
    println!(
        "\nA chain of {CHAIN} additions of one tile, microseconds an op, arithmetic included.\n"
    );
    println!("| threads | µs | required | met |");
    println!("|---|---|---|---|");
    for count in [1, machine::threads()] {
        let best = best(&chain(), count, "x", "y")?;
        let each = best.as_secs_f64() * 1e6 / CHAIN as f64;
        let met = met(each <= MAX_OVERHEAD);
        println!("| {count} | {each:.2} | ≤ {MAX_OVERHEAD} | {met} |");
    }
    Ok(())
}

/// The mean arithmetic of a matmul from which a sample counts as dominated by matmuls: a tenth of a
/// millisecond of one core.
const LARGE_PRODUCT: u64 = 20_000_000;
/// Arithmetic of matmuls for each element of other ops.
const HEAVY: u64 = 300;
/// The time of repeated runs of a sample, and their least count.
const REPEATED: Duration = Duration::from_secs(6);
const REPEATS: usize = 8;
/// The time of repeated runs between two measurements of the ceiling.
const BETWEEN_CEILINGS: Duration = Duration::from_millis(500);

/// One sample that was measured.
struct Sample {
    name: String,
    /// Executed ops of a run, counted for each input.
    ops: u64,
    /// Arithmetic of a run, and of its matmuls.
    flops: u64,
    products: u64,
    best: Duration,
    ceiling: f64,
}

/// Real netlists, from the folder of extra data, that are dominated by large dense matmuls. A run is all
/// programs once; the entries of host queues are generated before.
fn samples(part: Option<&str>) -> Result<()> {
    let mut files = netlists();
    if files.is_empty() {
        println!("\nNo samples: TENON_EXTRA_DATA names no folder of netlists.");
    }
    files.retain(|path| part.is_none_or(|part| path.to_string_lossy().contains(part)));
    let measured: Vec<Sample> = files.iter().filter_map(|path| sample(path).ok()?).collect();
    if measured.is_empty() {
        return Ok(());
    }
    println!(
        "\nThe samples that are dominated by matmuls, {} MFLOP or more each on average and {HEAVY} operations \
         for each element of other ops, on {} threads. The time is that of all their ops.\n",
        LARGE_PRODUCT / 1_000_000,
        machine::threads()
    );
    println!(
        "| netlist | ops | GFLOP | of matmuls | time | GFLOP/s | ceiling | of the ceiling | required | met |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for sample in &measured {
        let rate = sample.flops as f64 / sample.best.as_secs_f64() / 1e9;
        println!(
            "| {} | {} | {:.3} | {:.1} % | {:.2} ms | {} |",
            sample.name,
            sample.ops,
            sample.flops as f64 / 1e9,
            100.0 * sample.products as f64 / sample.flops as f64,
            sample.best.as_secs_f64() * 1e3,
            reached(rate, sample.ceiling)
        );
    }
    Ok(())
}

/// Whether a netlist is large dense products above all: those of one execute of each graph.
fn is_of_products(netlist: &Netlist) -> bool {
    let (mut products, mut arithmetic, mut others) = (0u64, 0u64, 0u64);
    for (graph, op) in netlist.ops() {
        let size = |key| op.attributes.integer(key).unsigned_abs();
        let [height, width] = op.blocking.tile().map(u64::from);
        let tiles = u64::from(op.blocking.t.value) * op.blocking.rows() * op.blocking.columns();
        let inputs = u64::from(graph.input_count.value);
        let elements = tiles * height * width * inputs;
        match op.kind.value {
            OpKind::Matmul if op.attributes.is(AttributeKey::Identity) => return false,
            OpKind::Matmul => {
                let depth = size(AttributeKey::MK) * size(AttributeKey::UKt) * 32;
                products += inputs;
                arithmetic = arithmetic.saturating_add(elements.saturating_mul(2 * depth));
            }
            _ => others += elements,
        }
    }
    products > 0 && arithmetic / products >= LARGE_PRODUCT && arithmetic >= HEAVY * others
}

/// The best run of a sample; `None` if it is not dominated by large matmuls.
fn sample(path: &Path) -> Result<Option<Sample>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(None);
    };
    let source = Source::new(path, text);
    if !is_of_products(&read(&source).netlist) {
        return Ok(None);
    }
    let control = Control::new();
    let JobOutcome {
        session, outputs, ..
    } = Job::new().control(control.clone()).run(&source)?;
    let options = ProgramOptions::new()
        .params(default_params(session.netlist()))
        .control(control);
    let run = || -> Result<Duration> {
        let begun = Instant::now();
        for program in session.programs() {
            session.run(&program.name, &options)?;
        }
        let took = begun.elapsed();
        for queue in outputs.keys() {
            session.collected(queue)?;
        }
        Ok(took)
    };
    let rows = session.op_rows();
    let sum = |count: &dyn Fn(&OpRow) -> u64| rows.iter().map(count).sum::<u64>();
    let flops = sum(&|row| row.runs * row.flops);
    let products = sum(&|row| match row.kind {
        OpKind::Matmul => row.runs * row.flops,
        _ => 0,
    });
    // Constant operands are packed when they repeat: the first run is not typical.
    let mut best = run()?.min(run()?);
    let mut ceiling = multiply_add_ceiling(machine::threads());
    let (begun, mut repeats) = (Instant::now(), 0);
    while repeats < REPEATS || begun.elapsed() < REPEATED {
        let until = Instant::now() + BETWEEN_CEILINGS;
        while repeats < REPEATS || Instant::now() < until {
            best = best.min(run()?);
            repeats += 1;
        }
        // The clock rate varies: the best of both measurements counts.
        ceiling = ceiling.max(multiply_add_ceiling(machine::threads()));
    }
    let name = path.file_stem().unwrap_or_default();
    Ok(Some(Sample {
        name: name.to_string_lossy().into_owned(),
        ops: sum(&|row| row.runs),
        flops,
        products,
        best,
        ceiling,
    }))
}

/// Matmuls of a netlist, one after the other.
const PRODUCTS: usize = 4;

/// The best time of a run, with inputs pushed before.
fn best(source: &Source, threads: usize, input: &str, output: &str) -> Result<Duration> {
    let load = SessionOptions::new().threads(NonZeroUsize::new(threads));
    let session = Session::load(source, &load)?;
    let ty = session.entry_type(input)?;
    let entry = Tensor::from_slice(ty.shape().clone(), &vec![0.01f32; ty.elements()])?;
    session.feed(input, move |_| Ok(entry.clone()))?;
    let run = || -> Result<Duration> {
        let begun = Instant::now();
        session.run("run", &ProgramOptions::new())?;
        let took = begun.elapsed();
        session.pop(output, Duration::ZERO)?;
        Ok(took)
    };
    let (mut best, begun) = (run()?, Instant::now());
    let mut runs = 0;
    while runs < RUNS || begun.elapsed() < LONG {
        best = best.min(run()?);
        runs += 1;
    }
    Ok(best)
}

fn queue(name: &str, input: &str, tiles: usize) -> String {
    let place = name.bytes().map(usize::from).sum::<usize>() * 0x80_0000;
    format!(
        "  {name}: {{type: queue, input: {input}, entries: 1, grid_size: [1, 1], t: 1, \
         mblock: [{tiles}, {tiles}], ublock: [1, 1], df: Float32, target_device: 0, loc: dram, \
         dram: [[0, {place:#x}]]}}\n"
    )
}

fn netlist(ops: &str, last: &str, tiles: usize) -> Source {
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}{}graphs:\n  g:\n    target_device: 0\n    \
         input_count: 1\n{ops}programs:\n  - run:\n    - var: {{$zero: 0}}\n    - execute: \
         {{graph_name: g, queue_settings: {{x: {{prologue: true, epilogue: false, zero: false, \
         rd_ptr_local: $zero, rd_ptr_global: $zero}}}}}}\n",
        queue("x", "HOST", tiles),
        queue("y", last, tiles),
    );
    Source::new("bench.yaml", text)
}

fn op(index: usize, kind: &str, inputs: &str, tiles: usize, rest: &str) -> String {
    format!(
        "    op{index}: {{type: {kind}, grid_loc: [{}, {}], grid_size: [1, 1], inputs: [{inputs}], \
         in_df: [Float32, Float32], acc_df: Float16, out_df: Float32, intermed_df: Float32, \
         ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: 1, mblock: [{tiles}, {tiles}], \
         ublock: [1, 1]{rest}}}\n",
        index / 12,
        index % 12
    )
}

fn products(side: usize) -> Source {
    let tiles = side / 32;
    let ops: String = (0..PRODUCTS)
        .map(|index| {
            let left = match index {
                0 => "x".to_owned(),
                _ => format!("op{}", index - 1),
            };
            let rest = format!(", attributes: {{m_k: {tiles}, u_kt: 1}}");
            op(index, "matmul", &format!("{left}, x"), tiles, &rest)
        })
        .collect();
    netlist(&ops, &format!("op{}", PRODUCTS - 1), tiles)
}

fn chain() -> Source {
    let ops: String = (0..CHAIN)
        .map(|index| {
            let left = match index {
                0 => "x".to_owned(),
                _ => format!("op{}", index - 1),
            };
            op(index, "add", &format!("{left}, x"), 1, "")
        })
        .collect();
    netlist(&ops, &format!("op{}", CHAIN - 1), 1)
}
