//! The example libraries in a real runtime: counters, callbacks, kept memory and prepared constants.

#![allow(unsafe_code, reason = "calls of the C interface under test")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tenon::backends::{BackendSetup, Runtime};
use tenon::neff::Package;
use tenon::profile::Recording;
use tenon::{BackendId, LoadOptions, Model, RunOptions, Tensor};
use tenon_backend::{Allocator, MemorySource, Registry};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{Options, compile};
use tenon_graph::Graph;
use tenon_neff::{Limits, WriteOptions};

/// A folder with the example in C and the one in Rust.
fn libraries() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    tenon_test_libraries::example_in_c(folder.path(), "Example_C_backend.so");
    tenon_test_libraries::example_in_rust(folder.path(), "Example_Rust_backend.so");
    folder
}

fn setup(folder: &TempDir) -> BackendSetup {
    BackendSetup::new().folder(folder.path().to_owned())
}

fn runtime(setup: &BackendSetup) -> Runtime {
    started(registry(setup), setup)
}

fn registry(setup: &BackendSetup) -> Registry {
    let loaded = setup.load().unwrap();
    assert!(loaded.skipped.is_empty(), "{:?}", loaded.skipped);
    assert!(loaded.refused.is_empty(), "{:?}", loaded.refused);
    loaded.registry
}

fn started(registry: Registry, setup: &BackendSetup) -> Runtime {
    let (runtime, refused) = setup.start_runtime(registry);
    assert!(refused.is_empty(), "{refused:?}");
    runtime
}

fn package(registry: &Registry, graph: &str, backends: &[&'static str]) -> Package {
    let mut graph: Graph = format!("graph \"g\" {graph}").parse().unwrap();
    graph.infer_types().unwrap();
    packed(graph, backends, Options::new(registry))
}

fn packed(graph: Graph, backends: &[&'static str], mut options: Options<'_>) -> Package {
    options.backends = backends.iter().map(|id| BackendId::new(id)).collect();
    let compiled = compile(graph, &options).unwrap();
    let bytes = compiled
        .contents
        .to_bytes(WriteOptions::default(), &Control::new());
    Package::from_buffer(bytes.unwrap(), &Limits::default(), &Control::new()).unwrap()
}

fn model(runtime: &Runtime, graph: &str, backends: &[&'static str]) -> Model {
    let package = package(runtime.backends(), graph, backends);
    Model::from_package(&package, &LoadOptions::new().runtime(runtime.clone())).unwrap()
}

fn ramp(scale: f32) -> Tensor {
    let all: Vec<f32> = (0..6).map(|index| (index as f32 - 2.5) * scale).collect();
    Tensor::from_slice([2, 3], &all).unwrap()
}

/// Three nodes, two of which the example in Rust supports.
const TWO_OF_THREE: &str = "(%x: f32[2, 3]) -> (%y) {
    %a = Abs(%x)
    %e = Exp(%a)
    %y = Neg(%e)
}";

#[test]
fn counters_of_a_library_are_in_profiles_and_traces() {
    let folder = libraries();
    let runtime = runtime(&setup(&folder));
    let model = model(&runtime, TWO_OF_THREE, &["ExampleRust", "CpuRef"]);
    let x = ramp(1.0);
    let mut profile = model.profile();
    for _ in 0..3 {
        let options = RunOptions::new().profile(&mut profile);
        model.run_with(&[("x", &x)], options).unwrap();
    }
    let counters: Vec<_> = profile
        .counters
        .iter()
        .map(|counter| (&*counter.backend, &*counter.name, counter.change))
        .collect();
    // Two workloads an execution, three tensors copied: x in, exp |x| in, y out; |x| is not
    // copied. The model was loaded before; executions are counted after their profiles.
    assert_eq!(
        counters,
        [
            ("ExampleRust", "executions", 6),
            ("ExampleRust", "copies", 9),
            ("ExampleRust", "imports", 0),
            ("ExampleRust", "models", 0),
            ("ExampleRust", "enqueued", 0)
        ]
    );
    assert_eq!(profile.counters[3].value, 1, "one model is loaded");
    assert_eq!(profile.counters[4].value, 2, "two executions before");
    assert!(profile.unreadable_counters.is_empty());

    let recording = Recording::new();
    let options = RunOptions::new().trace(&recording);
    model.run_with(&[("x", &x)], options).unwrap();
    let text = recording.json("counters");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let values = |name: &str| -> Vec<u64> {
        let events = trace["traceEvents"].as_array().unwrap();
        let own = events.iter().filter(|event| event["name"] == name);
        own.filter_map(|event| event["args"].as_object()?.values().next()?.as_u64())
            .collect()
    };
    assert_eq!(values("ExampleRust executions"), [7, 8]);
    assert_eq!(values("models loaded"), [1]);
    assert_eq!(values("executions"), [3]);
}

/// The example in Rust runs the first two nodes and the last: four values cross, one does not.
const TWO_ADJACENT: &str = "(%x: f32[2, 3]) -> (%y) {
    %n = Neg(%x)
    %a = Abs(%n)
    %e = Exp(%a)
    %y = Neg(%e)
}";

/// The number of tensors that the example in Rust copied in one execution, and the outputs.
fn copied(setup: &BackendSetup, tap: Option<&dyn tenon::tap::Tap>) -> (u64, Vec<f32>) {
    let runtime = runtime(setup);
    let model = model(&runtime, TWO_ADJACENT, &["ExampleRust", "CpuRef"]);
    let mut profile = model.profile();
    let mut outputs = Vec::new();
    // The second execution must not see data of the first.
    for scale in [3.0, 1.0] {
        profile = model.profile();
        let mut options = RunOptions::new().profile(&mut profile);
        options.tap = tap;
        let all = model.run_with(&[("x", &ramp(scale))], options).unwrap();
        outputs = all.into_tensors();
    }
    let copies = profile.counters.iter();
    let copies = copies.filter(|counter| counter.name == "copies");
    let values = outputs[0].as_slice::<f32>().unwrap().to_vec();
    (copies.map(|counter| counter.change).sum(), values)
}

#[test]
fn tensors_cross_into_a_librarys_memory_and_stay_there_between_its_workloads() {
    let folder = libraries();
    let expected: Vec<f32> = (0..6)
        .map(|index| -(index as f32 - 2.5).abs().exp())
        .collect();
    let close = |found: &[f32]| {
        let pairs = found.iter().zip(&expected);
        pairs.clone().count() == 6 && { pairs }.all(|(a, b)| (a / b - 1.0).abs() < 1e-6)
    };
    // x goes in, exp |x| goes in, y comes out; |x| is exported, and not copied.
    let (copies, values) = copied(&setup(&folder), None);
    assert!(close(&values), "{values:?}");
    assert_eq!(copies, 3);

    // A tap reads an intermediate tensor without a copy.
    let taps = tenon::tap::Taps::new(vec![tenon::Pattern::new("n")]);
    let (copies, values) = copied(&setup(&folder), Some(&taps));
    assert!(close(&values), "{values:?}");
    assert_eq!(copies, 3);
    let tapped = taps.tensors().unwrap();
    assert_eq!(tapped[0].0, "n");
    let n = tapped[0].1.as_slice::<f32>().unwrap();
    assert_eq!(n, [2.5, 1.5, 0.5, -0.5, -1.5, -2.5]);

    // Tensors imported from plain memory are not copied.
    let importing = setup(&folder).options(["ExampleRust.ImportMemory=true".parse().unwrap()]);
    let (copies, values) = copied(&importing, None);
    assert!(close(&values), "{values:?}");
    assert_eq!(copies, 0);
}

#[test]
fn memory_that_stays_bound_is_imported_once() {
    let folder = libraries();
    let setup = setup(&folder).options(["ExampleRust.ImportMemory=true".parse().unwrap()]);
    let runtime = runtime(&setup);
    let model = model(&runtime, TWO_ADJACENT, &["ExampleRust", "CpuRef"]);
    let imports = |run: &mut dyn FnMut(RunOptions<'_>)| -> u64 {
        let mut profile = model.profile();
        run(RunOptions::new().profile(&mut profile));
        let counters = profile.counters.iter();
        let imports = counters.filter(|counter| counter.name == "imports");
        imports.map(|counter| counter.change).sum()
    };
    let x = ramp(1.0);
    let mut bindings = model.bind().unwrap();
    bindings.set_input("x", &x).unwrap();
    // x and y are memory of the caller; n and |x|, which exp |x| overwrites, are in the arena.
    let mut bound = |options: RunOptions<'_>| bindings.run(options).unwrap();
    assert_eq!(imports(&mut bound), 4);
    assert_eq!(imports(&mut bound), 0);
    // Without bindings the memory of the caller may differ each time.
    let mut run = |options: RunOptions<'_>| drop(model.run_with(&[("x", &x)], options));
    assert_eq!(imports(&mut run), 2);
    assert_eq!(imports(&mut run), 2);
    let (first, scaled) = (bindings.outputs().unwrap(), ramp(2.0));
    bindings.set_input("x", &scaled).unwrap();
    let mut bound = |options: RunOptions<'_>| bindings.run(options).unwrap();
    assert_eq!(imports(&mut bound), 2);
    let second = bindings.outputs().unwrap();
    let pairs = first[0].as_slice::<f32>().unwrap().iter();
    for (once, twice) in pairs.zip(second[0].as_slice::<f32>().unwrap()) {
        assert!(
            (once * once + twice).abs() < 1e-4 * twice.abs(),
            "{once} {twice}"
        );
    }
}

#[test]
fn concurrent_executions_have_separate_tensors() {
    let folder = libraries();
    let runtime = runtime(&setup(&folder));
    let package = package(runtime.backends(), TWO_ADJACENT, &["ExampleRust", "CpuRef"]);
    let options = LoadOptions::new().in_flight(4).max_in_flight(4);
    let model = Model::from_package(&package, &options.runtime(runtime.clone())).unwrap();
    std::thread::scope(|scope| {
        for scale in 1..=4u8 {
            let model = &model;
            scope.spawn(move || {
                let scale = f32::from(scale) / 4.0;
                let expected: Vec<f32> = (0..6)
                    .map(|index| -((index as f32 - 2.5) * scale).abs().exp())
                    .collect();
                for _ in 0..50 {
                    let outputs = model.run(&[("x", &ramp(scale))]).unwrap();
                    let found = outputs[0].as_slice::<f32>().unwrap();
                    for (found, expected) in found.iter().zip(&expected) {
                        assert!((found / expected - 1.0).abs() < 1e-6);
                    }
                }
            });
        }
    });
}

/// An allocator that counts.
#[derive(Default)]
struct CountingAllocator {
    live: Mutex<HashMap<usize, Layout>>,
    ever: AtomicUsize,
}

impl Allocator for CountingAllocator {
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let refused = || Error::new(ErrorKind::OutOfMemory, "no memory");
        let layout = Layout::from_size_align(bytes, alignment).map_err(|_| refused())?;
        // SAFETY: `layout` has a size of at least 1: the interface never requests 0 bytes.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(refused)?;
        self.ever.fetch_add(1, Ordering::Relaxed);
        self.live
            .lock()
            .unwrap()
            .insert(start.as_ptr() as usize, layout);
        Ok(start)
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        let layout = self.live.lock().unwrap().remove(&(start.as_ptr() as usize));
        // SAFETY: `start` is from `allocate` with this layout, and its entry is removed at the first free.
        unsafe { dealloc(start.as_ptr(), layout.expect("memory of this allocator")) }
    }

    fn source(&self) -> MemorySource {
        MemorySource::Malloc
    }
}

#[test]
fn a_library_allocates_from_the_allocator_of_the_caller() {
    let folder = libraries();
    let setup = setup(&folder);
    let mut registry = registry(&setup);
    let allocator = Arc::new(CountingAllocator::default());
    registry
        .set_allocator(&BackendId::new("ExampleC"), allocator.clone())
        .unwrap();
    let text = "(%x: f32[2, 3]) -> (%y) {\n%r = Relu(%x)\n%y = Mul(%r, %r)\n}";
    let runtime = started(registry.clone(), &setup);
    let model = model(&runtime, text, &["ExampleC", "CpuRef"]);
    let outputs = model.run(&[("x", &ramp(2.0))]).unwrap();
    assert_eq!(
        outputs[0].as_slice::<f32>().unwrap(),
        [0.0, 0.0, 0.0, 1.0, 9.0, 25.0]
    );
    let live = allocator.live.lock().unwrap().len();
    assert_eq!(live, 3, "two workloads, and the tensor between them");
    drop((model, runtime));
    assert!(allocator.live.lock().unwrap().is_empty());
    assert_eq!(allocator.ever.load(Ordering::Relaxed), 3);

    for (id, expected) in [
        ("CpuRef", "backend CpuRef has no custom allocator"),
        ("ExampleRust", "its table has no function 'with_allocator'"),
        ("None", "no backend has this name"),
    ] {
        let error = registry.set_allocator(&BackendId::new(id), allocator.clone());
        let text = error.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn protected_content_is_refused_with_its_reason() {
    let folder = libraries();
    let setup = setup(&folder).protected_content(true);
    let loaded = setup.load().unwrap();
    assert_eq!(loaded.registry.names(), "");
    let errors: Vec<String> = loaded
        .refused
        .iter()
        .map(|(_, error)| error.to_string())
        .collect();
    assert_eq!(errors.len(), 4);
    assert_eq!(
        errors[2],
        "backend ExampleC cannot keep protected content: expected capability \
         ProtectedContentAllocation = true"
    );
}

#[test]
fn constants_prepared_by_a_library_are_in_the_package() {
    let folder = libraries();
    let setup = setup(&folder);
    let text = "graph \"g\" (%x: f32[2, 3], %w: f32[2, 3]) -> (%y) {\n%y = Mul(%x, %w)\n}";
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    let w = graph.inputs.remove(1);
    graph.value_mut(w).constant = Some(ramp(-2.0));
    let compiling = registry(&setup);
    let options = Options::new(&compiling);
    let package = packed(graph, &["ExampleC", "CpuRef"], options);
    let contents = tenon::inspect::Contents::read(&package).unwrap();
    let forms = contents.tenon.constants.iter();
    let layouts: Vec<String> = forms
        .filter_map(|constant| Some(constant.prepared.as_ref()?.layout.clone()))
        .collect();
    assert_eq!(layouts, ["padded16:f32"]);
    // The C interface has no inverse of prepared layouts, so the plain form stays.
    let absent = contents.variables.iter();
    let absent = absent.filter(|variable| matches!(variable.role, tenon::inspect::Role::Absent));
    assert_eq!(absent.count(), 0);
    drop(compiling);

    let runtime = runtime(&setup);
    let model =
        Model::from_package(&package, &LoadOptions::new().runtime(runtime.clone())).unwrap();
    let outputs = model.run(&[("x", &ramp(1.0))]).unwrap();
    let squares: Vec<f32> = (0..6)
        .map(|index| index as f32 - 2.5)
        .map(|x| -2.0 * x * x)
        .collect();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), squares);
}
