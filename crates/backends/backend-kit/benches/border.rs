//! What the C interface costs: one execution of a workload, and asking for support of a graph.
//!
//! `CpuRef` built in beside `CpuRef` behind the interface, in the same process: the same kernel, so
//! that what differs is the border. Prints the second table of docs/benchmarks.md, "Placement"
//! (`cargo xtask bench --placement`).

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tenon_backend::{Backend, BackendLibrary, InputSpec, NodeView, OwnedOperands, WorkloadSpec};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Attribute, Attributes, operator::operator};
use tenon_tensor::{DataType, Tensor, TensorType};

/// Executions of a run: one alone is shorter than the clock's tick.
const EXECUTIONS: u32 = 100_000;

/// Nodes that are asked for.
const NODES: u32 = 10_000;

/// Runs of which the fastest counts.
const RUNS: usize = 20;

/// The most that an execution may take longer than built in, in nanoseconds.
const WANTED_MORE: f64 = 20.0;

/// The most that asking for all nodes may take, in milliseconds.
const WANTED_SUPPORT: f64 = 50.0;

fn main() {
    let backends: [Arc<dyn Backend>; 2] = [Arc::new(CpuRef), library()];
    println!(
        "| CpuRef | built in | as a library | more | wanted | met |\n|---|---|---|---|---|---|"
    );
    let [here, there] = backends
        .each_ref()
        .map(|backend| execution(&**backend) * 1e9 / f64::from(EXECUTIONS));
    println!(
        "| one execution of a workload | {here:.1} ns | {there:.1} ns | {:.1} ns | ≤ {WANTED_MORE} ns more | {} |",
        there - here,
        met(there - here <= WANTED_MORE)
    );
    let [here, there] = backends.each_ref().map(|backend| support(&**backend) * 1e3);
    println!(
        "| support of {NODES} nodes | {here:.2} ms | {there:.2} ms | {:.2} ms | ≤ {WANTED_SUPPORT} ms | {} |",
        there - here,
        met(there <= WANTED_SUPPORT)
    );
}

fn met(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}

fn library() -> Arc<dyn Backend> {
    let program = std::env::current_exe().expect("a path");
    let path = program.with_file_name("libtenon_cpu_ref_backend.so");
    let library = BackendLibrary::open(path).expect("a library");
    library.backend().expect("a backend")
}

/// Seconds of the fastest run.
fn fastest(mut run: impl FnMut()) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// Neg of one number: nearly nothing but the call.
fn execution(backend: &dyn Backend) -> f64 {
    let ty = TensorType::new(DataType::F32, [1]).expect("a type");
    let spec = WorkloadSpec {
        op: operator("Neg").expect("an operator"),
        attributes: Attributes::new(),
        inputs: vec![Some(InputSpec {
            ty: ty.clone(),
            constant: None,
            prepared: None,
        })],
        outputs: vec![Some(ty.clone())],
    };
    let workload = backend.workload(&spec).expect("a workload");
    let input = Tensor::from_slice([1], &[1.0f32]).expect("a tensor");
    let mut operands = OwnedOperands::new(&[Some(&input)], &[Some(ty)], 0).expect("operands");
    fastest(|| {
        for _ in 0..EXECUTIONS {
            operands
                .execute(black_box(&*workload))
                .expect("it computes");
        }
    })
}

/// A chain of nodes with an attribute, asked node by node.
fn support(backend: &dyn Backend) -> f64 {
    let ty = TensorType::new(DataType::F32, [1, 64, 56, 56]).expect("a type");
    let attributes = Attributes::new().with("alpha", Attribute::Float(0.1));
    let view = NodeView {
        op: operator("LeakyRelu").expect("an operator"),
        attributes: &attributes,
        inputs: &[Some(&ty)],
        constants: &[None],
        outputs: &[Some(&ty)],
    };
    fastest(|| {
        for _ in 0..NODES {
            black_box(backend).supports(&view).expect("it is taken");
        }
    })
}
