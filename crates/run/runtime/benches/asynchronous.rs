//! A chain of 100 nodes on an asynchronous device whose commands take at least 100 µs: the time of an execution, as a
//! multiple of the device's own time. Commands are enqueued while earlier ones run, so that the host adds only the start and the
//! end of an execution. Fails if the shortest execution takes more than 1.1 times the device's time.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_async_backend::{AsyncBackend, ID};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{Options, compile};
use tenon_graph::Graph;
use tenon_neff::{Limits, Package, WriteOptions};
use tenon_runtime::{LoadOptions, Model, Runtime};
use tenon_tensor::Tensor;

const NODES: usize = 100;

/// The least time of a command in microseconds.
const COMMAND_MICROS: u64 = 100;

const ROUNDS: usize = 50;

/// The greatest time of an execution over the device's time.
const LIMIT: f64 = 1.1;

/// The times of an execution, and of its commands on the device.
struct Round {
    total: Duration,
    device: Duration,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.total.as_secs_f64() / self.device.as_secs_f64()
    }
}

fn main() -> Result<()> {
    let device = AsyncBackend::default().with_options([("CommandMicros", COMMAND_MICROS)]);
    let model = model(&device)?;
    let x = Tensor::from_slice([4, 8], &[0.5f32; 32])?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    // The first execution allocates.
    model.run(&[("x", &x)])?;
    for _ in 0..ROUNDS {
        let before = device.work();
        let start = Instant::now();
        model.run(&[("x", &x)])?;
        let total = start.elapsed();
        let work = device.work();
        let finishes = work.finishes - before.finishes;
        if (work.workloads - before.workloads, finishes) != (NODES as u64, 1) {
            let text = "the chain is not one command a node with one finish";
            return Err(Error::new(ErrorKind::Internal, text));
        }
        rounds.push(Round {
            total,
            device: work.busy - before.busy,
        });
    }
    // Other load only slows down.
    rounds.sort_by_key(|round| round.total);
    println!(
        "| {NODES} nodes, commands of {COMMAND_MICROS} µs | execution, ms | device, ms | ratio |"
    );
    println!("|---|---|---|---|");
    for (name, round) in [("shortest", &rounds[0]), ("median", &rounds[ROUNDS / 2])] {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| {name} of {ROUNDS} | {:.2} | {:.2} | {:.3} |",
            milliseconds(round.total),
            milliseconds(round.device),
            round.ratio()
        );
    }
    match rounds[0].ratio() {
        ratio if ratio > LIMIT => {
            let text = "the execution takes too long beside the device's time";
            Err(Error::new(ErrorKind::ExecutionFailed, text)
                .expected(LIMIT)
                .found(ratio))
        }
        _ => Ok(()),
    }
}

/// A chain of Softmax, which no rewrite joins.
fn model(device: &AsyncBackend) -> Result<Model> {
    let mut text = String::from("graph \"chain\" (%x: f32[4, 8]) -> (%v100) {\n");
    for node in 1..=NODES {
        let input = match node {
            1 => "x".to_owned(),
            _ => format!("v{}", node - 1),
        };
        let line = writeln!(text, "%v{node} = Softmax(%{input}) @node{node}");
        line.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    }
    let mut graph: Graph = (text + "}").parse()?;
    graph.infer_types()?;
    let mut registry = tenon_builtin::registry();
    registry.register(Arc::new(device.clone()))?;
    let runtime = Runtime::new(registry, tenon_builtin::kernels());
    let mut options = Options::new(runtime.backends());
    options.backends = vec![ID, "CpuRef".into()];
    let control = Control::new();
    let contents = compile(graph, &options)?.contents;
    let bytes = contents.to_bytes(WriteOptions::default(), &control)?;
    let package = Package::from_buffer(bytes, &Limits::default(), &control)?;
    Model::load(&runtime, &package, &LoadOptions::default())
}
