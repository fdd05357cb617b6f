//! The device that a package was compiled for, compared with that of the runtime.

mod common;

use common::*;
use std::sync::Arc;
use tenon_async_backend::{AsyncBackend, ID};
use tenon_base::{Control, Error, ErrorKind};
use tenon_compiler::{Compiled, Options, compile};
use tenon_graph::Graph;
use tenon_runtime::{LoadOptions, Model, Runtime};

/// A runtime with the simulated device.
fn runtime_with(target: &str) -> Runtime {
    let mut registry = tenon_builtin::registry();
    let device = AsyncBackend::default().with_target(target);
    registry.register(Arc::new(device)).unwrap();
    Runtime::new(registry, tenon_builtin::kernels())
}

fn graph() -> Graph {
    let text = "graph \"g\" (%x: f32[7, 4]) -> (%y) { %y = Neg(%x) @negate }";
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    graph
}

fn compiled_for(graph: Graph, target: &str, backend: &'static str) -> Compiled {
    let runtime = runtime_with(target);
    let mut options = Options::new(runtime.backends());
    options.backends = vec![backend.into(), "CpuRef".into()];
    options.backends.dedup();
    compile(graph, &options).unwrap()
}

/// Loads and checks on a machine with this device; both give the same error.
fn load(compiled: &Compiled, target: &str) -> Result<Model, Error> {
    let package = open(&bytes(&compiled.contents)).unwrap();
    let runtime = runtime_with(target);
    let checked = Model::check(&runtime, &package, &Control::new());
    let loaded = Model::load(&runtime, &package, &LoadOptions::default());
    let text = |error: &Error| error.to_string();
    assert_eq!(
        checked.err().as_ref().map(text),
        loaded.as_ref().err().map(text)
    );
    loaded
}

#[test]
fn a_package_loads_only_on_the_device_that_it_was_compiled_for() {
    let compiled = compiled_for(graph(), "sim-1", "SimAsync");
    assert_eq!(compiled.contents.tenon.targets[ID.as_str()], "sim-1");
    let x = random_tensor(&[7, 4], 1);
    load(&compiled, "sim-1").unwrap().run(&[("x", &x)]).unwrap();
    let error = load(&compiled, "sim-2\u{1b}[2J").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.starts_with("sg00/tenon.json: "), "{text}");
    for part in [
        "compiled for another device of backend SimAsync",
        "expected target 'sim-1', as in the package",
        // Control characters are not printed.
        "found 'sim-2\\u{1b}[2J'",
        "compile the model again on this machine",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn packages_with_symbols_are_compared_too() {
    let mut graph = graph();
    let rows = graph.symbols.add("rows", 1..=64).unwrap();
    let x = graph.inputs[0];
    graph.example_sizes = vec![7];
    graph.value_mut(x).extents = Some(vec![rows.into(), 4.into()]);
    let compiled = compiled_for(graph, "sim-1", "SimAsync");
    assert!(compiled.contents.tenon.is_symbolic());
    load(&compiled, "sim-1").unwrap();
    let text = load(&compiled, "sim-2").err().unwrap().to_string();
    assert!(text.contains("found 'sim-2'"), "{text}");
}

#[test]
fn a_package_without_targets_loads_everywhere() {
    // As of an older version.
    let mut compiled = compiled_for(graph(), "sim-1", "SimAsync");
    compiled.contents.tenon.targets.clear();
    load(&compiled, "sim-2").unwrap();
    // Of a backend that states none, and where no node is on the backend that does.
    let compiled = compiled_for(graph(), "sim-1", "CpuRef");
    assert!(compiled.contents.tenon.targets.is_empty());
    let json = serde_json::to_string(&compiled.contents.tenon).unwrap();
    assert!(!json.contains("targets"), "{json}");
    load(&compiled, "sim-2").unwrap();
}
