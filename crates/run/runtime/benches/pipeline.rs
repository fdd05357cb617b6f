//! Overlap of executions on several threads: a CPU node of 1 ms, a core node of about 20 ms, a CPU
//! node of 2 ms (nrt 1.9: 43 per second on one thread, about 50 on several). Prints the table of
//! docs/benchmarks.md (`cargo xtask bench --nrt`): executions per second by number of threads, and
//! the limit given by the times of the nodes.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::{Duration, Instant};
use tenon_compiler::{CpuNode, Options, compile, compile_nodes};
use tenon_graph::{Attributes, Graph};
use tenon_neff::{Limits, NodeGraph, Package, WriteOptions};
use tenon_runtime::{CoreGroup, CoreOptions, Cores, ExecuteOptions, LoadOptions, Model, Runtime};
use tenon_tensor::BufferMut;

const CORE_NODE: Duration = Duration::from_millis(20);

/// The measured time per configuration and round.
const MEASURED: Duration = Duration::from_millis(400);

/// Rounds over the core node alone and every number of threads. The best round counts, since other
/// load only slows down.
const TURNS: usize = 20;

const THREADS: [usize; 4] = [1, 2, 4, 8];

/// The targeted fraction of the limit.
const TARGET: f64 = 0.95;

fn main() -> tenon_base::Result<()> {
    let control = tenon_base::Control::new();
    let registry = tenon_builtin::registry();
    let options = Options::new(&registry);
    let mut layers = 4;
    let alone = loop {
        let graph = text(layers, "x", "").parse()?;
        let model = load(&compile(graph, &options)?.contents.into(), &control)?;
        let time = time(&model);
        if time >= CORE_NODE || layers > 4096 {
            break model;
        }
        let growth = CORE_NODE.as_secs_f64() / time.as_secs_f64().max(1e-6) * 1.02;
        layers = (layers as f64 * growth.clamp(1.05, 4.0)).ceil() as usize;
    };
    let cut: Graph = text(layers, "d", "%x: f32[128, 128], %e: f32[128, 128], ").parse()?;
    let library = library();
    let cpu =
        |name: &str, input: &str, output: &str, symbol: &str| -> tenon_base::Result<CpuNode> {
            Ok(CpuNode {
                name: name.into(),
                operator: "bench.Wait".into(),
                attributes: Attributes::new(),
                inputs: vec![input.into()],
                outputs: vec![output.into()],
                library: BufferMut::copy_of(&library)?.freeze(),
                symbol: symbol.into(),
            })
        };
    let last = format!("v{layers}");
    let nodes = vec![
        cpu("before", "x", "d", "takes_1_ms")?,
        cpu("after", &last, "e", "takes_2_ms")?,
    ];
    let mut graph = cut;
    // The result of the core node is the input of the second CPU node, whose result is the output.
    let made = graph
        .inputs
        .iter()
        .copied()
        .find(|&id| graph.value(id).name == "e");
    graph.outputs.splice(0..0, made);
    let model = load(&compile_nodes(graph, nodes, 1, &options)?.nodes, &control)?;
    let cores = Cores::new(&CoreOptions {
        total: Some(1),
        ..CoreOptions::default()
    })?;
    let group = cores.group(0..1)?;
    let mut core_node = 0.0;
    let mut rates = [0.0; THREADS.len()];
    for _ in 0..TURNS {
        core_node = rate(&alone, None, 1).max(core_node);
        for (best, threads) in rates.iter_mut().zip(THREADS) {
            *best = rate(&model, Some(&group), threads).max(*best);
        }
    }
    let core_node = 1e3 / core_node;
    println!(
        "The core node: {layers} matrix products, {core_node:.1} ms. The CPU nodes: 1 ms before it, \
         2 ms behind. Of {TURNS} turns of everything the best of each counts.\n\n\
         | threads | executions per second | limit by the nodes | fraction | target | met |\n\
         |---|---|---|---|---|---|"
    );
    for (rate, threads) in rates.into_iter().zip(THREADS) {
        // 1 + 20 + 2 ms one after the other, or the 20 ms alone.
        let other_nodes = if threads == 1 { 3.0 } else { 0.0 };
        let limit = 1e3 / (core_node + other_nodes);
        let part = rate / limit;
        let met = if part >= TARGET { "yes" } else { "**no**" };
        println!("| {threads} | {rate:.1} | {limit:.1} | {part:.3} | ≥ {TARGET} | {met} |");
    }
    Ok(())
}

/// A chain of matrix products on `input`, with other inputs before it.
fn text(layers: usize, input: &str, others: &str) -> String {
    let mut text = format!("graph \"g\" ({others}%{input}: f32[128, 128]) -> (%v{layers}) {{\n");
    text += "  const %w: f32[128, 128] = fill 0.0078125\n";
    let mut last = input.to_owned();
    for layer in 1..=layers {
        // A sigmoid between, so that products of constants cannot be folded into one.
        text += &format!("  %m{layer} = MatMul(%{last}, %w)\n  %v{layer} = Sigmoid(%m{layer})\n");
        last = format!("v{layer}");
    }
    text + "}"
}

fn load(nodes: &NodeGraph, control: &tenon_base::Control) -> tenon_base::Result<Model> {
    let bytes = nodes.to_bytes(WriteOptions::default(), control)?;
    let package = Package::from_buffer(bytes, &Limits::default(), control)?;
    let runtime = Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels());
    let options = LoadOptions {
        threads: Some(1),
        native_nodes: true,
        ..LoadOptions::default()
    };
    Model::load(&runtime, &package, &options)
}

/// The median of some executions.
fn time(model: &Model) -> Duration {
    let time = |_| {
        let start = Instant::now();
        execute(model, None);
        start.elapsed()
    };
    let mut times: [Duration; 15] = std::array::from_fn(time);
    times.sort_unstable();
    times[7]
}

/// Executions per second on `threads` threads.
fn rate(model: &Model, group: Option<&CoreGroup>, threads: usize) -> f64 {
    let start = Instant::now();
    let count = || {
        let mut count = 0;
        while start.elapsed() < MEASURED {
            execute(model, group);
            count += 1;
        }
        count
    };
    let total: usize = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        all.into_iter()
            .map(|thread| thread.join().expect("it counts"))
            .sum()
    });
    total as f64 / start.elapsed().as_secs_f64()
}

fn execute(model: &Model, cores: Option<&CoreGroup>) {
    let buffer = || BufferMut::zeroed(128 * 128 * 4).expect("memory");
    let (input, mut output) = (buffer(), buffer());
    let options = ExecuteOptions {
        cores,
        ..ExecuteOptions::default()
    };
    let done = model.execute_with(&[&input], &mut [&mut output], options);
    done.expect("it executes");
}

/// The library of the tests.
fn library() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = tenon_test_libraries::cpu_nodes(folder.path());
    std::fs::read(file).expect("the library")
}
