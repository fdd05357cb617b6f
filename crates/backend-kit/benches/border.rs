//! What the C interface costs: one execution of a workload, and asking for support of a graph.
//!
//! `CpuRef` built in beside `CpuRef` behind the interface, in the same process: the same kernel, so
//! that what differs is the border.

use divan::{Bencher, black_box};
use std::sync::Arc;
use tenon_backend::{Backend, BackendLibrary, InputSpec, OwnedOperands, WorkloadSpec};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Attributes, operator::operator};
use tenon_tensor::{DataType, Tensor, TensorType};

fn main() {
    divan::main();
}

/// Who is asked: 0 built in, 1 behind the interface.
const BACKENDS: [usize; 2] = [0, 1];

fn backend(which: usize) -> Arc<dyn Backend> {
    match which {
        0 => Arc::new(CpuRef),
        _ => {
            let program = std::env::current_exe().expect("a path");
            let folder = program.parent().expect("a folder");
            let library = folder.join("libtenon_cpu_ref_backend.so");
            let library = BackendLibrary::open(library).expect("a library");
            library.backend().expect("a backend")
        }
    }
}

/// Executions a sample: one alone is shorter than the timer's tick.
const EXECUTIONS: usize = 10_000;

/// Neg of one number: nearly nothing but the call. The table's times are of 10,000 executions, the
/// items those of one.
#[divan::bench(args = BACKENDS)]
fn execute_workload(bencher: Bencher<'_, '_>, which: usize) {
    let backend = backend(which);
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
    bencher
        .counter(divan::counter::ItemsCount::new(EXECUTIONS))
        .bench_local(|| {
            let all = (0..EXECUTIONS).map(|_| operands.execute(black_box(&*workload)));
            all.collect::<Result<(), _>>()
        });
}

/// A chain of 10,000 nodes with attributes, asked node by node.
#[divan::bench(args = BACKENDS, sample_count = 20)]
fn support_of_10_000_nodes(bencher: Bencher<'_, '_>, which: usize) {
    let backend = backend(which);
    let ty = TensorType::new(DataType::F32, [1, 64, 56, 56]).expect("a type");
    let op = operator("LeakyRelu").expect("an operator");
    let alpha = tenon_graph::Attribute::Float(0.1);
    let attributes = Attributes::new().with("alpha", alpha);
    let view = tenon_backend::NodeView {
        op,
        attributes: &attributes,
        inputs: &[Some(&ty)],
        constants: &[None],
        outputs: &[Some(&ty)],
    };
    bencher.bench_local(|| {
        let nodes = 0..10_000;
        nodes
            .filter(|_| black_box(&*backend).supports(&view).is_ok())
            .count()
    });
}
