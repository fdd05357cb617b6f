//! Executions that are cancelled, or exceed their deadline, inside one kernel.

mod common;

use common::*;
use std::time::{Duration, Instant};
use tenon_base::{Control, ErrorKind};
use tenon_compiler::{Options, compile};
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_runtime::{ExecuteOptions, LoadOptions, Model};
use tenon_tensor::Tensor;

/// A product of square matrices, which takes seconds.
fn product(size: usize) -> Graph {
    let mut graph = Graph::new("product");
    let x = graph.add_input("x", f32s(&[size, size]));
    let y = node(&mut graph, "product", "MatMul", &[x, x], Attributes::new());
    graph.outputs.push(y);
    graph
}

/// An average of windows as large as the image.
fn pool(size: usize) -> Graph {
    let mut graph = Graph::new("pool");
    let x = graph.add_input("x", f32s(&[1, 8, size, size]));
    let half = size as i64 / 2;
    let attributes = Attributes::new()
        .with("kernel_shape", Attribute::Ints(vec![size as i64; 2]))
        .with("pads", Attribute::Ints(vec![half; 4]));
    let y = node(&mut graph, "pool", "AveragePool", &[x], attributes);
    graph.outputs.push(y);
    graph
}

fn model_on(backend: &str, graph: Graph) -> (Model, Tensor) {
    let registry = tenon_builtin::registry();
    let mut options = Options::new(&registry);
    options.backends = vec![backend.to_owned().into()];
    let compiled = compile(graph, &options).unwrap();
    let package = open(&bytes(&compiled.contents)).unwrap();
    let model = Model::load(&runtime(), &package, &LoadOptions::default()).unwrap();
    let x = random_tensor(model.inputs()[0].ty.shape(), 1);
    (model, x)
}

/// The result of `model` and its duration, under a deadline of 100 ms.
fn limited(model: &Model, x: &Tensor) -> (ErrorKind, Duration) {
    let started = Instant::now();
    let control = Control::with_deadline(started + Duration::from_millis(100));
    let options = ExecuteOptions {
        control: Some(&control),
        ..ExecuteOptions::default()
    };
    let done = model.run_with(&[("x", x)], options);
    (done.unwrap_err().kind(), started.elapsed())
}

#[test]
fn a_long_kernel_ends_at_its_deadline() {
    for (backend, graph) in [
        ("CpuRef", product(2048)),
        ("CpuAcc", product(5120)),
        ("CpuRef", pool(512)),
        ("CpuAcc", pool(1024)),
    ] {
        let (model, x) = model_on(backend, graph);
        let (kind, took) = limited(&model, &x);
        assert_eq!(kind, ErrorKind::DeadlineExceeded, "{backend}");
        assert!(took < Duration::from_millis(2500), "{backend}: {took:?}");
        // The memory of the execution is reusable.
        let (kind, _) = limited(&model, &x);
        assert_eq!(kind, ErrorKind::DeadlineExceeded);
    }
}

#[test]
fn cancelling_ends_a_long_kernel() {
    for (backend, size) in [("CpuRef", 2048), ("CpuAcc", 5120)] {
        let (model, x) = model_on(backend, product(size));
        let (control, started) = (Control::new(), Instant::now());
        let options = ExecuteOptions {
            control: Some(&control),
            ..ExecuteOptions::default()
        };
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                control.cancel();
            });
            model.run_with(&[("x", &x)], options)
        });
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(started.elapsed() < Duration::from_millis(2500));
    }
}

#[test]
fn windows_larger_than_the_image_cost_as_much_as_the_image() {
    for (op, backend, window) in [
        ("MaxPool", "CpuRef", 1i64 << 31),
        ("MaxPool", "CpuAcc", 1 << 20),
        ("AveragePool", "CpuRef", 1 << 31),
        ("LpPool", "CpuRef", 1 << 31),
    ] {
        let mut graph = Graph::new("wide");
        let x = graph.add_input("x", f32s(&[1, 8, 6, 6]));
        let attributes = Attributes::new()
            .with("kernel_shape", Attribute::Ints(vec![window; 2]))
            .with("pads", Attribute::Ints(vec![window / 2; 4]));
        let y = node(&mut graph, "wide", op, &[x], attributes);
        graph.outputs.push(y);
        let (model, x) = model_on(backend, graph);
        let started = Instant::now();
        let y = model.run(&[("x", &x)]).unwrap().remove(0);
        assert_eq!(&y.shape()[..], [1, 8, 7, 7], "{op} on {backend}");
        assert!(started.elapsed() < Duration::from_secs(5), "{op}");
        // Every window covers the whole image.
        let first = y.as_slice::<f32>().unwrap()[..49].to_vec();
        assert!(
            first.iter().all(|&value| value == first[0]),
            "{op} {first:?}"
        );
    }
}
