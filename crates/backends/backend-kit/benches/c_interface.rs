//! The overhead of the C interface: one execution of a workload, and support queries of a graph.
//!
//! Compares `CpuRef` built in with `CpuRef` as a library in the same process: the kernels are the
//! same. Prints the second table of docs/benchmarks.md, "Placement" (`cargo xtask bench
//! --placement`).

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tenon_backend::{Backend, BackendLibrary, InputSpec, NodeView, OwnedOperands, WorkloadSpec};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Attribute, Attributes, operator::operator};
use tenon_tensor::{DataType, Tensor, TensorType};

/// Executions per run: a single one is shorter than the clock's resolution.
const EXECUTIONS: u32 = 100_000;

/// Number of support queries.
const NODES: u32 = 10_000;

/// Number of runs, of which the fastest counts.
const RUNS: usize = 20;

/// Target of the overhead of an execution, in nanoseconds.
const TARGET_OVERHEAD: f64 = 20.0;

/// Target of the time of all support queries, in milliseconds.
const TARGET_SUPPORT_TIME: f64 = 50.0;

fn main() {
    let backends: [Arc<dyn Backend>; 2] = [Arc::new(CpuRef), library()];
    println!(
        "| CpuRef | built in | as a library | overhead | target | met |\n|---|---|---|---|---|---|"
    );
    let [built_in, loaded] = backends
        .each_ref()
        .map(|backend| execution(&**backend) * 1e9 / f64::from(EXECUTIONS));
    println!(
        "| one execution of a workload | {built_in:.1} ns | {loaded:.1} ns | {:.1} ns | ≤ {TARGET_OVERHEAD} ns overhead | {} |",
        loaded - built_in,
        met(loaded - built_in <= TARGET_OVERHEAD)
    );
    let [built_in, loaded] = backends.each_ref().map(|backend| support(&**backend) * 1e3);
    println!(
        "| support of {NODES} nodes | {built_in:.2} ms | {loaded:.2} ms | {:.2} ms | ≤ {TARGET_SUPPORT_TIME} ms | {} |",
        loaded - built_in,
        met(loaded <= TARGET_SUPPORT_TIME)
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

/// Time of the fastest run in seconds.
fn fastest(mut run: impl FnMut()) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// Neg of one element: the time is almost that of the call.
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
        ranges: None,
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

/// Support queries of a chain of nodes with an attribute.
fn support(backend: &dyn Backend) -> f64 {
    let ty = TensorType::new(DataType::F32, [1, 64, 56, 56]).expect("a type");
    let attributes = Attributes::new().with("alpha", Attribute::Float(0.1));
    let view = NodeView {
        op: operator("LeakyRelu").expect("an operator"),
        attributes: &attributes,
        inputs: &[Some(&ty)],
        constants: &[None],
        outputs: &[Some(&ty)],
        ranges: None,
    };
    fastest(|| {
        for _ in 0..NODES {
            black_box(backend)
                .supports(&view)
                .expect("a supported node");
        }
    })
}
