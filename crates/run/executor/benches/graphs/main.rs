//! The overhead of the executor: graphs of empty kernels compared with oneTBB's flow graph, kernels
//! of 2 µs on one thread and on two, and sequences of additions. Prints Markdown tables with each
//! measurement and its target. `cargo xtask bench --executor` puts them into docs/benchmarks.md.
//!
//! A kernel takes the values of its operands and returns that of the first one; all values are
//! kept. The program is decoded once; a run ends when the value of the last kernel, which depends
//! on all others, is available.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the tables, and why one is incomplete"
)]

mod graph;
mod peer;

use graph::Graph;
use peer::Peer;
use std::sync::Arc;
use std::time::Instant;
use tenon_base::{Control, Result};
use tenon_bef::{FunctionBuilder, FunctionKind, Module};
use tenon_executor::{
    Attr, Host, MultiThreaded, Program, Registry, Request, RestOperands, Services, SingleThreaded,
    Value, WorkQueue, kernel,
};

/// Nodes of a graph of empty kernels.
const NODES: usize = 100_000;

/// Runs of a graph per round; the minimum counts, since noise only adds time.
const RUNS: usize = 20;

/// Rounds, alternating between the executor and oneTBB.
const ROUNDS: usize = 3;

/// Kernels of 2 µs in a graph.
const WORKING: usize = 10_000;

fn main() -> Result<()> {
    let peer = Peer::build();
    println!("Graphs of {NODES} empty kernels, nanoseconds per kernel on one thread and on two.\n");
    empty_kernels(&peer)?;
    let rounds = rounds_of_two_microseconds();
    println!("\nGraphs of {WORKING} kernels of 2 µs on one thread and on two.\n");
    working_kernels(&peer, rounds)?;
    println!("\nSequences of 1000 additions of i32, nanoseconds per kernel on one thread.\n");
    straight_lines()
}

fn empty_kernels(peer: &Peer) -> Result<()> {
    println!("| graph | threads | Tenon | target | oneTBB | Tenon ÷ oneTBB | met |");
    println!("|---|---|---|---|---|---|---|");
    let graphs = [
        (Graph::chain(NODES), [22.0, 22.0]),
        (Graph::fan(NODES), [30.0, 68.0]),
        (Graph::random(NODES), [160.0, 84.0]),
    ];
    for (graph, target) in graphs {
        for (threads, target) in [1, 2].into_iter().zip(target) {
            let (ours, theirs) = compare(peer, &graph, threads, 0, RUNS)?;
            let met = ours <= target && theirs.is_none_or(|theirs| ours <= theirs);
            println!(
                "| {} | {threads} | {ours:.1} | ≤ {target:.0} | {} | {} | {} |",
                graph.name,
                or_dash(theirs),
                or_dash(theirs.map(|theirs| ours / theirs)),
                yes(met)
            );
        }
    }
    Ok(())
}

fn working_kernels(peer: &Peer, rounds: u64) -> Result<()> {
    println!("| graph | Tenon one thread | two | speedup | target | oneTBB speedup | met |");
    println!("|---|---|---|---|---|---|---|");
    for graph in [Graph::fan(WORKING), Graph::random(WORKING)] {
        let (one, one_peer) = compare(peer, &graph, 1, rounds, RUNS)?;
        let (two, two_peer) = compare(peer, &graph, 2, rounds, RUNS)?;
        let peer_faster = one_peer.zip(two_peer).map(|(one, two)| one / two);
        println!(
            "| {} | {one:.0} ns | {two:.0} ns | {:.2} | ≥ 1.9 | {} | {} |",
            graph.name,
            one / two,
            or_dash(peer_faster),
            yes(one / two >= 1.9)
        );
    }
    Ok(())
}

/// Nanoseconds per node of the executor and of oneTBB, measured alternately.
fn compare(
    peer: &Peer,
    graph: &Graph,
    threads: usize,
    rounds: u64,
    runs: usize,
) -> Result<(f64, Option<f64>)> {
    let program = graph.program(&registry(rounds)?)?;
    let (mut ours, mut theirs) = (f64::INFINITY, None);
    for _ in 0..ROUNDS {
        ours = ours.min(measure(&program, graph, threads, runs)?);
        if let Some(time) = peer.measure(graph, threads, rounds, runs) {
            theirs = Some(theirs.map_or(time, |best| time.min(best)));
        }
    }
    Ok((ours, theirs))
}

/// Nanoseconds per node, the minimum of `runs`. One thread is the caller; two are two workers: the
/// run starts as a task, and the caller sleeps until the value is available.
fn measure(program: &Program, graph: &Graph, threads: usize, runs: usize) -> Result<f64> {
    let queue: Arc<dyn WorkQueue> = match threads {
        1 => Arc::new(SingleThreaded::new()),
        _ => Arc::new(MultiThreaded::new(threads, 1).map_err(peer::io)?),
    };
    let host = Host::builder().queue(queue).build();
    let (main, request) = (program.handle("main")?, Request::new(&host));
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let (main, request) = (main.clone(), request.clone());
        let execute = move || main.execute(&request, vec![Value::I32(7)]);
        let start = Instant::now();
        let results = match threads {
            1 => execute(),
            _ => {
                let (sender, receiver) = std::sync::mpsc::channel();
                host.spawn(move || sender.send(execute()).unwrap_or_default());
                receiver.recv().unwrap_or_default()
            }
        };
        let results = host.wait(results);
        let time = start.elapsed().as_secs_f64() * 1e9 / graph.len() as f64;
        assert_eq!(results, [Value::I32(7)], "the last node's value");
        host.queue().quiesce();
        best = best.min(time);
    }
    Ok(best)
}

/// The kernels of the graphs; each does `rounds` rounds of arithmetic first.
fn registry(rounds: u64) -> Result<Registry> {
    let mut registry = Registry::new();
    if rounds == 0 {
        registry.register(kernel("bench.pass.i32", |value: i32| value))?;
        registry.register(kernel("bench.first.i32", |values: RestOperands<'_>| {
            values.read::<i32>(0)
        }))?;
    } else {
        registry.register(kernel("bench.pass.i32", move |value: i32| {
            std::hint::black_box(work(rounds, value as u64));
            value
        }))?;
        registry.register(kernel(
            "bench.first.i32",
            move |values: RestOperands<'_>| {
                std::hint::black_box(work(rounds, 1));
                values.read::<i32>(0)
            },
        ))?;
    }
    registry.register(kernel("bench.add.i32", |a: i32, b: i32| a.wrapping_add(b)))?;
    registry.register(kernel("bench.constant.i32", |value: Attr<i32>| value.0))?;
    Ok(registry)
}

/// The same rounds as `work` in tbb_graph.cc: xorshift, each step depends on the last.
fn work(rounds: u64, seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// The number of rounds that take 2 µs on this machine.
fn rounds_of_two_microseconds() -> u64 {
    const MANY: u64 = 1_000_000;
    let time = |_| {
        let start = Instant::now();
        std::hint::black_box(work(std::hint::black_box(MANY), 1));
        start.elapsed().as_secs_f64()
    };
    let best = (0..10).map(time).fold(f64::INFINITY, f64::min);
    (2e-6 / best * MANY as f64) as u64
}

/// A synchronous and an asynchronous function of a sequence of additions.
fn straight_lines() -> Result<()> {
    println!("| function | Tenon | target | met |");
    println!("|---|---|---|---|");
    let synchronous = straight(FunctionKind::Sync)?;
    let main = synchronous.function("main")?;
    let mut registers = main.registers();
    let control = Control::new();
    let mut run = || main.run(&mut registers, &[Value::I32(1)], &(), &control, &mut ());
    row("synchronous", 8.0, nanoseconds(&mut run)?);

    let asynchronous = straight(FunctionKind::Async)?;
    let main = asynchronous.handle("main")?;
    let request = Request::new(&Host::new());
    let mut run = || {
        let results = main.execute(&request, vec![Value::I32(1)]);
        assert_eq!(results, [Value::I32(1000)]);
        Ok(())
    };
    row("asynchronous", 40.0, nanoseconds(&mut run)?);
    Ok(())
}

fn straight(kind: FunctionKind) -> Result<Program> {
    let mut main = FunctionBuilder::new("main", kind);
    let first = main.argument("i32");
    let mut last = first;
    for _ in 0..ADDITIONS {
        last = main
            .kernel("bench.add.i32")
            .operands([last, first])
            .result("i32");
    }
    let mut module = Module::new();
    module.add(main.returns([last]));
    Program::decode(&module, &registry(0)?, &Services::new())
}

/// The number of additions in the sequence.
const ADDITIONS: usize = 999;

/// Nanoseconds per kernel, the minimum of many runs.
fn nanoseconds(run: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..500 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / ADDITIONS as f64);
    }
    Ok(best)
}

fn row(name: &str, target: f64, measured: f64) {
    println!(
        "| {name} | {measured:.1} | ≤ {target:.0} | {} |",
        yes(measured <= target)
    );
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.2}"))
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}
