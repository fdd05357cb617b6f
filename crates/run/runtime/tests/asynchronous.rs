//! Executions on a backend that works asynchronously, the simulated device of `examples/backend-async`.

#![allow(unsafe_code, reason = "a backend that imports memory")]

mod common;

use common::*;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenon_async_backend::AsyncBackend;
use tenon_backend::{
    Backend, BackendId, CACHE_BYTES, CpuLevel, DeviceTensor, HandleFactory, ImportedMemory,
    MemoryManager, NodeView, Reason, Refusal, Stream, TensorHandle, TensorMemory, UserCache,
    Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::trace::Recording;
use tenon_base::{Control, ErrorKind, Result};
use tenon_compiler::Hint;
use tenon_graph::Graph;
use tenon_runtime::{
    Bindings, ExecuteOptions, LoadOptions, Model, Runtime, Tap, TapParts, TapValue,
};
use tenon_tensor::{Tensor, TensorType};

/// The device under an id of the test, for some operators.
struct Device {
    id: &'static str,
    /// The name of its memory.
    memory: &'static str,
    operators: &'static [&'static str],
    device: AsyncBackend,
}

impl Backend for Device {
    fn id(&self) -> BackendId {
        BackendId::new(self.id)
    }

    fn description(&self) -> String {
        self.device.description()
    }

    fn supports(&self, node: &NodeView<'_>) -> std::result::Result<(), Refusal> {
        if self.operators.contains(&node.op.name) {
            self.device.supports(node)
        } else {
            Err(Reason::UnknownOperator.into())
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.device.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.device.workload(spec)
    }

    fn target(&self) -> Option<String> {
        self.device.target()
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }
}

impl TensorMemory for Device {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        let mut factories = self.device.handle_factories();
        factories[0].id = self.memory.into();
        factories
    }

    fn tensor_handle(&self, _: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let factory = &self.device.handle_factories()[0].id;
        self.device.tensor_handle(factory, ty)
    }

    unsafe fn import_tensor(
        &self,
        _: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let factory = &self.device.handle_factories()[0].id;
        // SAFETY: the caller guarantees the condition of this function.
        unsafe { self.device.import_tensor(factory, ty, memory) }
    }

    fn stream(&self, memory: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        self.device.stream(memory)
    }
}

/// Every operator of the graphs below.
const ALL: &[&str] = &["Neg", "Abs", "Add", "Mul", "Exp", "Sigmoid", "Transpose"];

/// All nodes that the first device supports are on it.
fn model_on(devices: Vec<Device>, graph: &str) -> Result<Model> {
    let hint = devices.first().map(|device| Hint {
        pattern: "*".into(),
        backend: device.id(),
    });
    model_with(devices, graph, hint.into_iter().collect())
}

fn model_with(devices: Vec<Device>, graph: &str, hints: Vec<Hint>) -> Result<Model> {
    load_with(devices, graph, hints, &LoadOptions::default())
}

fn load_with(
    devices: Vec<Device>,
    graph: &str,
    hints: Vec<Hint>,
    load: &LoadOptions,
) -> Result<Model> {
    let mut registry = tenon_builtin::registry();
    let mut ids: Vec<_> = devices.iter().map(Backend::id).collect();
    ids.push(BackendId::new("CpuRef"));
    for device in devices {
        registry.register(Arc::new(device))?;
    }
    let runtime = Runtime::new(registry, tenon_builtin::kernels());
    let mut options = tenon_compiler::Options::new(runtime.backends());
    options.backends = ids;
    options.hints = hints;
    let mut graph: Graph = graph.parse().unwrap();
    graph.infer_types().unwrap();
    let compiled = tenon_compiler::compile(graph, &options)?;
    Model::load(&runtime, &open(&bytes(&compiled.contents))?, load)
}

fn one(device: &AsyncBackend, operators: &'static [&'static str]) -> Vec<Device> {
    vec![Device {
        id: "Dev",
        memory: "DevMemory",
        operators,
        device: device.clone(),
    }]
}

/// A chain of these operators in turn.
fn chain(length: usize, operators: &[&str]) -> String {
    let mut text = String::from("graph \"chain\" (%x: f32[4, 8]) -> (%last) {\n");
    for index in 0..length {
        let input = match index {
            0 => "x".to_owned(),
            _ => format!("v{}", index - 1),
        };
        let output = match index + 1 {
            end if end == length => "last".to_owned(),
            _ => format!("v{index}"),
        };
        let op = operators[index % operators.len()];
        writeln!(text, "    %{output} = {op}(%{input}) @node{index}").unwrap();
    }
    text + "}"
}

fn x() -> Tensor {
    random_tensor(&[4, 8], 7)
}

fn run(model: &Model) -> Vec<f32> {
    let outputs = model.run(&[("x", &x())]).unwrap();
    outputs[0].as_slice::<f32>().unwrap().to_vec()
}

/// The result on the reference backend.
fn expected(graph: &str) -> Vec<f32> {
    run(&model_on(Vec::new(), graph).unwrap())
}

#[test]
fn an_execution_waits_once() {
    let device = AsyncBackend::default().with_options([("CommandMicros", 100)]);
    let graph = chain(100, &["Neg", "Sigmoid"]);
    let model = model_on(one(&device, ALL), &graph).unwrap();
    for runs in 1..=3 {
        assert_eq!(run(&model), expected(&graph));
        let work = device.work();
        assert_eq!((work.workloads, work.finishes), (100 * runs, runs));
        // The input goes in, the output comes out.
        assert_eq!((work.copies, work.copied_bytes), (2 * runs, 256 * runs));
    }
}

#[test]
fn kernels_of_the_host_see_the_results_of_the_device() {
    // Diamonds whose branches are on the device and on the host, and tensors of both that are used again later.
    let graph = "graph \"mixed\" (%x: f32[4, 8]) -> (%out, %u) {
        %a = Neg(%x)
        %b = Exp(%a)
        %c = Abs(%b)
        %d = Add(%a, %c)
        %e = Sigmoid(%d)
        %f = Mul(%e, %b)
        %g = Transpose(%f)
        %h = Neg(%g)
        %i = Exp(%h)
        %u = Add(%i, %g)
        %t = Transpose(%u)
        %k = Mul(%t, %a)
        %out = Add(%k, %d)
    }";
    let expected = expected(graph);
    let splits: [&[&str]; 4] = [
        &["Neg", "Add", "Sigmoid", "Mul"],
        &["Exp", "Abs", "Transpose"],
        &["Mul", "Transpose"],
        ALL,
    ];
    for operators in splits {
        for micros in [0, 300] {
            let device = AsyncBackend::default().with_options([("CommandMicros", micros)]);
            let model = model_on(one(&device, operators), graph).unwrap();
            for _ in 0..3 {
                assert_eq!(run(&model), expected, "{operators:?}");
            }
        }
    }
}

#[test]
fn devices_wait_for_events_of_each_other() {
    let graph = chain(40, &["Neg", "Sigmoid", "Abs", "Exp", "Neg"]);
    let expected = expected(&graph);
    for seed in 0..4 {
        // One memory, two backends, and so two streams.
        let device = AsyncBackend::default().with_options([("CommandMicros", 50), ("Seed", seed)]);
        let device_of = |id, operators| Device {
            id,
            memory: "DevMemory",
            operators,
            device: device.clone(),
        };
        let devices = vec![
            device_of("DevA", &["Neg", "Sigmoid"]),
            device_of("DevB", &["Abs", "Exp"]),
        ];
        let model = model_on(devices, &graph).unwrap();
        assert_eq!(run(&model), expected);
        let work = device.work();
        // Each stream is finished once, at the end: between them there are events.
        assert_eq!((work.workloads, work.finishes, work.copies), (40, 2, 2));
    }
}

#[test]
fn devices_with_separate_memory_exchange_through_the_host() {
    let graph = chain(12, &["Neg", "Exp", "Abs"]);
    let device = |id, memory, operators| Device {
        id,
        memory,
        operators,
        device: AsyncBackend::default().with_options([("CommandMicros", 200)]),
    };
    let devices = vec![
        device("DevA", "MemoryA", &["Neg"]),
        device("DevB", "MemoryB", &["Abs", "Exp"]),
    ];
    let model = model_on(devices, &graph).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&model), expected(&graph));
    }
}

#[test]
fn nodes_between_nodes_of_the_host_stay_there() {
    // After each Neg but the last there is a node that the device refuses: one of a backend, or data movement.
    for ((hints, copies), other) in [
        ((Vec::new(), 4), "Exp"),
        ((vec!["*"], 10), "Exp"),
        ((Vec::new(), 4), "Transpose"),
    ] {
        let graph = chain(9, &["Neg", other]);
        let device = AsyncBackend::default();
        let hints = hints.into_iter().map(|pattern| Hint {
            pattern: pattern.into(),
            backend: "Dev".into(),
        });
        let model = model_with(one(&device, &["Neg"]), &graph, hints.collect()).unwrap();
        assert_eq!(run(&model), expected(&graph));
        assert_eq!(device.work().copies, copies, "{}", model.placement());
    }
}

#[test]
fn a_late_error_names_its_node() {
    let device =
        AsyncBackend::default().with_options([("FailWorkload", 7), ("CommandMicros", 200)]);
    let model = model_on(one(&device, ALL), &chain(10, &["Neg"])).unwrap();
    let error = model.run(&[("x", &x())]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExecutionFailed);
    assert_eq!(error.location().node.as_deref(), Some("node6"), "{error}");
    // The next execution is not affected.
    assert_eq!(run(&model), expected(&chain(10, &["Neg"])));
}

#[test]
fn a_command_that_hangs_ends_at_the_deadline() {
    let device = AsyncBackend::default().with_options([("HangWorkload", 3)]);
    let model = model_on(one(&device, ALL), &chain(5, &["Neg"])).unwrap();
    let started = Instant::now();
    let control = Control::with_deadline(started + Duration::from_millis(100));
    let options = ExecuteOptions {
        control: Some(&control),
        ..ExecuteOptions::default()
    };
    let error = model.run_with(&[("x", &x())], options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(run(&model), expected(&chain(5, &["Neg"])));
}

#[test]
fn models_of_a_lost_device_fail_and_others_go_on() {
    let lost = AsyncBackend::default().with_options([("LoseDevice", 4)]);
    let graph = chain(6, &["Neg", "Exp"]);
    let first = model_on(one(&lost, ALL), &graph).unwrap();
    let second = model_on(one(&lost, ALL), &graph).unwrap();
    let other = model_on(one(&AsyncBackend::default(), ALL), &graph).unwrap();
    let error = first.run(&[("x", &x())]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    // NRT_EXEC_HW_ERR_NC_UE
    assert_eq!(error.kind().nrt_status(), 1202);
    assert_eq!(error.location().node.as_deref(), Some("node3"), "{error}");
    for model in [&first, &second] {
        let error = model.run(&[("x", &x())]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
    }
    assert_eq!(run(&other), expected(&graph));
}

#[test]
fn memory_of_the_device_is_bounded_and_freed() {
    let device = AsyncBackend::default().with_options([("MemoryBytes", 3 * 4096)]);
    let graph = "graph \"wide\" (%x: f32[4, 8]) -> (%y) {
        %a = Neg(%x)
        %b = Exp(%x)
        %c = Abs(%x)
        %d = Add(%a, %b)
        %y = Add(%c, %d)
    }";
    let model = model_on(one(&device, ALL), graph);
    let error = model
        .and_then(|model| model.run(&[("x", &x())]).map(drop))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), graph).unwrap();
    run(&model);
    assert!(device.used_bytes() > 0);
    drop(model);
    assert_eq!(device.used_bytes(), 0);
}

/// A page of the simulated device, the least memory of a tensor and of a workload.
const PAGE: u64 = 4096;

/// The parts that a tap was called with, by node.
#[derive(Default)]
struct TappedParts(Mutex<Vec<(String, Vec<String>)>>);

impl Tap for TappedParts {
    fn on_value(&self, _: TapValue<'_>) -> Result<()> {
        Ok(())
    }

    fn on_parts(&self, tapped: TapParts<'_>) -> Result<()> {
        assert_eq!(tapped.parts.len(), tapped.nanoseconds.len());
        let names = tapped.parts.iter().map(|part| part.name.clone());
        let tapped = (tapped.node.to_owned(), names.collect());
        self.0.lock().unwrap().push(tapped);
        Ok(())
    }
}

#[test]
fn parts_of_workloads_are_in_profile_trace_and_tap() {
    let device = AsyncBackend::default().with_options([("CommandMicros", 300)]);
    let model = model_on(one(&device, &["Neg"]), &chain(4, &["Neg", "Exp"])).unwrap();
    let mut profile = model.profile();
    let (recording, tap) = (Recording::new(), TappedParts::default());
    for _ in 0..2 {
        let options = ExecuteOptions {
            profile: Some(&mut profile),
            trace: Some(&recording),
            tap: Some(&tap),
            ..ExecuteOptions::default()
        };
        model.run_with(&[("x", &x())], options).unwrap();
    }
    for kernel in &profile.kernels {
        let names: Vec<&str> = kernel.parts.iter().map(|part| &*part.name).collect();
        if kernel.backend != "Dev" {
            assert!(names.is_empty());
            continue;
        }
        assert_eq!(names, ["compute", "delay"]);
        let parts: Duration = kernel.parts.iter().map(|part| part.time).sum();
        // Two executions.
        assert!(parts >= Duration::from_micros(600), "{kernel:?}");
        assert!(parts <= kernel.time, "{kernel:?}");
    }
    let names = vec!["compute".to_owned(), "delay".to_owned()];
    let expected = ["node0", "node2"].map(|node| (node.to_owned(), names.clone()));
    let tapped = tap.0.into_inner().unwrap();
    assert_eq!(tapped, [&expected[..], &expected].concat());
    let text = recording.json("chain");
    assert_eq!(text.matches("\"compute\"").count(), 4, "{text}");
    // Without an observer the device is waited for once.
    let before = device.work().finishes;
    run(&model);
    assert!(device.work().finishes - before <= 2);
}

#[test]
fn programs_in_the_cache_are_not_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let user = Arc::new(UserCache::new(folder.path(), CACHE_BYTES));
    let graph = chain(4, &["Neg", "Exp"]);
    let load = |target: &str, cached: bool| {
        let device = AsyncBackend::default()
            .with_options([("CompileMicros", 100)])
            .with_target(target);
        if cached {
            device.set_cache(user.for_backend(device.id()));
        }
        let model = model_on(one(&device, ALL), &graph).unwrap();
        assert_eq!(run(&model), expected(&graph));
        device.work().compiled
    };
    // A program for each workload. Two programs are needed twice, and may be compiled at the same time.
    assert_eq!(load("a", false), 4);
    assert!((2..=4).contains(&load("a", true)));
    assert_eq!(load("a", true), 0);
    assert!(load("b", true) >= 2);
    assert_eq!(user.entries().unwrap().len(), 4);
    // Damaged entries are made again.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(entry.unwrap().path(), "no program").unwrap();
    }
    assert!(load("a", true) >= 2);
    assert_eq!(load("a", true), 0);
}

#[test]
fn the_memory_of_a_device_is_known_and_limited() {
    let graph = chain(4, &["Neg", "Exp"]);
    let load = |device: &AsyncBackend, limit: u64| {
        let options = LoadOptions {
            max_in_flight: 8,
            device_memory_limits: vec![("Dev".into(), limit)],
            ..LoadOptions::default()
        };
        let all = Hint {
            pattern: "*".into(),
            backend: "Dev".into(),
        };
        load_with(one(device, ALL), &graph, vec![all], &options)
    };
    let device = AsyncBackend::default();
    let needed = load(&device, u64::MAX).unwrap().device_memory();
    let needed = needed.first().unwrap();
    assert_eq!(needed.workload_bytes, 4 * PAGE);
    // The input, the output, and at least one value between them, of 4 x 8 floats each.
    assert!(needed.value_bytes >= 3 * 128 && needed.value_bytes % 128 == 0);
    let limit = needed.bytes(1);

    let error = load(&device, limit - 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    let expected = format!("at most {} bytes", limit - 1);
    assert!(
        text.contains("memory of backend Dev") && text.contains(&expected),
        "{text}"
    );
    assert!(text.contains(&format!("{limit} bytes")), "{text}");
    assert_eq!(device.used_bytes(), 0);

    // Only workloads within the limit are made: the device has memory for two.
    let small = AsyncBackend::default().with_options([("MemoryBytes", 2 * PAGE)]);
    let error = load(&small, 3 * PAGE - 1).unwrap_err().to_string();
    assert_eq!(error.matches("at most 12287 bytes").count(), 1, "{error}");
    let workloads = format!("{} bytes (16.4 kB) for workloads alone", 4 * PAGE);
    assert!(error.contains(&workloads), "{error}");

    // Two executions are within this limit, and the others wait for them.
    let model = load(&device, needed.bytes(2)).unwrap();
    let result = self::expected(&graph);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(run(&model), result)));
        }
    });
    let tensors = needed.value_bytes / 128;
    assert!(device.used_bytes() as u64 <= (4 + 2 * tensors) * PAGE);

    let options = LoadOptions {
        device_memory_limits: vec![("Dve".into(), 1)],
        ..LoadOptions::default()
    };
    let unknown = load_with(one(&device, ALL), &graph, Vec::new(), &options).unwrap_err();
    assert!(
        unknown.to_string().contains("no backend has this name"),
        "{unknown}"
    );
}

#[test]
fn eight_threads_share_a_device() {
    let graph = chain(
        30,
        &["Neg", "Sigmoid", "Exp", "Transpose", "Abs", "Transpose"],
    );
    let expected = expected(&graph);
    let operators = &["Neg", "Sigmoid", "Transpose", "Abs"];
    let device = AsyncBackend::default().with_options([("Seed", 99), ("CommandMicros", 5)]);
    let model = model_on(one(&device, operators), &graph).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(run(&model), expected);
                }
            });
        }
    });
}

/// A step of a recurrent model, whose state is an output and an input.
const STEP: &str = "graph \"step\" (%x: f32[4, 8], %s: f32[4, 8]) -> (%y, %next) {
    %a = Mul(%s, %x)
    %next = Add(%a, %x)
    %y = Neg(%next)
}";

/// The result of `steps` steps, each with the outputs as inputs of the next one in memory of the test.
fn stepped(steps: usize) -> [Tensor; 2] {
    let model = model_on(Vec::new(), STEP).unwrap();
    let mut outputs = vec![x(), x()];
    for _ in 0..steps {
        outputs = model.run(&[("x", &x()), ("s", &outputs[1])]).unwrap();
    }
    outputs.try_into().unwrap()
}

/// Bindings of `STEP` whose output is the state of the next step.
fn with_state(model: &Model) -> Bindings {
    let mut bindings = model.bind().unwrap();
    bindings.feed("next", "s").unwrap();
    bindings.set_input("x", &x()).unwrap();
    bindings.set_input("s", &x()).unwrap();
    bindings
}

#[test]
fn state_stays_on_the_device() {
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), STEP).unwrap();
    let mut bindings = with_state(&model);
    bindings.keep("y").unwrap();
    let (mut before, mut steps) = (device.work(), 0);
    for (count, copied) in [(1, 256), (1000, 0)] {
        for _ in 0..count {
            bindings.execute(ExecuteOptions::default()).unwrap();
        }
        steps += count;
        let work = device.work();
        assert_eq!(work.copied_bytes - before.copied_bytes, copied);
        // Reading copies, once.
        for _ in 0..2 {
            assert_eq!(bindings.outputs().unwrap(), stepped(steps));
        }
        before = device.work();
        assert_eq!(before.copied_bytes - work.copied_bytes, 256);
    }
    // Another input, and another state.
    bindings.set_input("s", &x()).unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    assert_eq!(bindings.outputs().unwrap(), stepped(1));
}

#[test]
fn state_is_exchanged_where_no_device_has_it() {
    // On the host, and with the host as producer or as consumer of the state.
    let splits: [&'static [&'static str]; 4] = [&[], &["Mul"], &["Add"], &["Neg"]];
    for operators in splits {
        let device = AsyncBackend::default();
        let model = model_on(one(&device, operators), STEP).unwrap();
        let mut bindings = with_state(&model);
        for steps in 1..6 {
            bindings.execute(ExecuteOptions::default()).unwrap();
            if steps % 2 == 0 {
                assert_eq!(bindings.outputs().unwrap(), stepped(steps), "{operators:?}");
            }
        }
        assert_eq!(bindings.outputs().unwrap(), stepped(5), "{operators:?}");
    }
}

#[test]
fn a_failed_step_leaves_the_state() {
    for operators in [ALL, &["Mul", "Neg"]] {
        let device = AsyncBackend::default().with_options([("FailWorkload", 8)]);
        let model = model_on(one(&device, operators), STEP).unwrap();
        let mut bindings = with_state(&model);
        let (mut done, mut failed) = (0, 0);
        while done < 6 {
            match bindings.execute(ExecuteOptions::default()) {
                Ok(()) => done += 1,
                Err(_) => failed += 1,
            }
        }
        assert_eq!(failed, 1);
        assert_eq!(bindings.outputs().unwrap(), stepped(6), "{operators:?}");
    }
}

#[test]
fn ports_of_different_types_are_not_fed() {
    let graph = "graph \"types\" (%x: f32[4, 8]) -> (%y) { %y = Transpose(%x) }";
    let model = model_on(Vec::new(), graph).unwrap();
    let mut bindings = model.bind().unwrap();
    let error = bindings.feed("y", "x").unwrap_err().to_string();
    assert!(
        error.contains("expected f32[4, 8], found f32[8, 4]"),
        "{error}"
    );
    assert!(bindings.feed("y", "z").is_err() && bindings.keep("x").is_err());
}

/// A tensor of the application on the device of a test, with these elements.
fn on_device(model: &Model, id: &'static str, elements: &Tensor) -> DeviceTensor {
    let mut tensor = model.tensor_on(&BackendId::new(id), elements.ty()).unwrap();
    tensor.write(elements).unwrap();
    tensor
}

fn stepped_once(bindings: &mut tenon_runtime::Bindings) {
    bindings.execute(ExecuteOptions::default()).unwrap();
    assert_eq!(bindings.outputs().unwrap(), stepped(1));
}

#[test]
fn tensors_of_the_application_pass_from_model_to_model_on_the_device() {
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), STEP).unwrap();
    let mut bindings = model.bind().unwrap();
    bindings.keep("y").unwrap();
    bindings.keep("next").unwrap();
    bindings.set_input("x", &x()).unwrap();
    let state = on_device(&model, "Dev", &x());
    bindings.set_device_input("s", state).unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    let other = model_on(one(&device, ALL), STEP).unwrap();
    let mut next = other.bind().unwrap();
    next.keep("y").unwrap();
    next.keep("next").unwrap();
    next.set_device_input("x", on_device(&other, "Dev", &x()))
        .unwrap();
    let before = device.work();
    let state = bindings.take_output("next").unwrap().unwrap();
    assert_eq!(format!("{state:?}"), "DeviceTensor(f32[4, 8] on Dev)");
    next.set_device_input("s", state).unwrap();
    next.execute(ExecuteOptions::default()).unwrap();
    // Nothing was copied from one model to the other.
    assert_eq!(device.work().copied_bytes, before.copied_bytes);
    let [y, state] = stepped(2);
    let taken = next.take_output("next").unwrap().unwrap();
    assert_eq!(taken.read().unwrap(), state);
    assert_eq!(next.outputs().unwrap()[0], y);
    // The output that was taken is allocated again, and one in memory of the host is not taken.
    stepped_once(&mut bindings);
    let host = model_on(Vec::new(), STEP).unwrap();
    let mut host = host.bind().unwrap();
    host.keep("next").unwrap();
    host.set_input("x", &x()).unwrap();
    host.set_input("s", &x()).unwrap();
    stepped_once(&mut host);
    assert!(host.take_output("next").unwrap().is_none());
}

#[test]
fn a_tensor_on_a_device_is_an_input_of_any_kernel() {
    // The input is read by the device, by the host, and by another device.
    let graph = "graph \"mixed\" (%x: f32[4, 8]) -> (%a, %b, %c) {
        %a = Neg(%x)
        %b = Exp(%x)
        %c = Abs(%x)
    }";
    let expected = model_on(Vec::new(), graph).unwrap();
    let expected = expected.run(&[("x", &x())]).unwrap();
    let (first, second) = (AsyncBackend::default(), AsyncBackend::default());
    let device = |id, memory, operators, device: &AsyncBackend| Device {
        id,
        memory,
        operators,
        device: device.clone(),
    };
    let devices = vec![
        device("DevA", "MemoryA", &["Neg"], &first),
        device("DevB", "MemoryB", &["Abs"], &second),
    ];
    let hints = ["DevA", "DevB"].map(|backend| Hint {
        pattern: "*".into(),
        backend: backend.into(),
    });
    let model = model_with(devices, graph, hints.into()).unwrap();
    for id in ["DevA", "DevB"] {
        let mut bindings = model.bind().unwrap();
        for _ in 0..2 {
            let tensor = on_device(&model, id, &x());
            bindings.set_device_input("x", tensor).unwrap();
            bindings.execute(ExecuteOptions::default()).unwrap();
            assert_eq!(bindings.outputs().unwrap(), expected, "{id}");
        }
    }
    // No workload of the model is on the device of the tensor.
    let model = model_on(one(&first, &["Exp"]), graph).unwrap();
    let mut bindings = model.bind().unwrap();
    let backend: Arc<dyn Backend> = Arc::new(second.clone());
    let used = second.used_bytes();
    let mut tensor = DeviceTensor::new(&backend, x().ty()).unwrap();
    tensor.write(&x()).unwrap();
    bindings.set_device_input("x", tensor).unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    assert_eq!(bindings.outputs().unwrap(), expected);
    // Nothing reads it there later.
    assert_eq!(second.used_bytes(), used);
}

#[test]
fn tensors_are_exchanged_by_dlpack_without_the_host() {
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), STEP).unwrap();
    let used = device.used_bytes();
    let shared = on_device(&model, "Dev", &x()).into_dlpack().unwrap();
    assert!(!shared.device().unwrap().is_host());
    // Another backend of the same device takes it where it is.
    let plugin: Arc<dyn Backend> = Arc::new(device.clone());
    let before = device.work();
    // SAFETY: no other code accesses the elements.
    let tensor = unsafe { DeviceTensor::from_dlpack(&plugin, shared) }.unwrap();
    assert_eq!(device.work(), before);
    assert_eq!(tensor.read().unwrap(), x());
    // One of another device does not.
    let other: Arc<dyn Backend> = Arc::new(AsyncBackend::default());
    let shared = tensor.into_dlpack().unwrap();
    // SAFETY: as above.
    let error = unsafe { DeviceTensor::from_dlpack(&other, shared) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("memory that SimAsync cannot use"), "{text}");
    assert_eq!(device.used_bytes(), used, "released on errors");
    // A tensor of the host is copied.
    let shared = x().to_dlpack().unwrap();
    // SAFETY: as above.
    let tensor = unsafe { DeviceTensor::from_dlpack(&other, shared) }.unwrap();
    assert_eq!(tensor.read().unwrap(), x());
}

#[test]
fn devices_with_two_names_of_one_memory_meet_without_the_host() {
    let graph = chain(12, &["Neg", "Exp", "Abs"]);
    let device = AsyncBackend::default();
    let device_of = |id, memory, operators| Device {
        id,
        memory,
        operators,
        device: device.clone(),
    };
    let devices = vec![
        device_of("DevA", "MemoryA", &["Neg"]),
        device_of("DevB", "MemoryB", &["Abs", "Exp"]),
    ];
    let hints = ["DevA", "DevB"].map(|backend| Hint {
        pattern: "*".into(),
        backend: backend.into(),
    });
    let model = model_with(devices, &graph, hints.into()).unwrap();
    for runs in 1..=2 {
        assert_eq!(run(&model), expected(&graph));
        assert_eq!(device.work().copies, 2 * runs, "{}", model.placement());
    }
}

#[test]
fn wrong_tensors_of_the_application_are_refused() {
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), STEP).unwrap();
    let error = model.tensor_on(&BackendId::new("Nope"), x().ty());
    assert!(error.unwrap_err().to_string().contains("Nope"));
    let error = model.tensor_on(&BackendId::new("CpuRef"), x().ty());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
    let small = TensorType::new(tenon_tensor::DataType::F32, [4]).unwrap();
    let mut tensor = model.tensor_on(&BackendId::new("Dev"), &small).unwrap();
    assert_eq!(
        tensor.write(&x()).unwrap_err().to_string(),
        "a tensor of another type is written: expected f32[4], found f32[4, 8]"
    );
    let mut bindings = model.bind().unwrap();
    let error = bindings.set_device_input("s", tensor).unwrap_err();
    assert!(error.to_string().contains("input 's' has the wrong shape"));
    bindings.set_input("x", &x()).unwrap();
    bindings.set_input("s", &x()).unwrap();
    bindings.feed("next", "s").unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    let error = bindings.take_output("next").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(bindings.outputs().unwrap(), stepped(1));
}

/// A tensor on a device that is lost.
fn lost_tensor() -> DeviceTensor {
    let lost = AsyncBackend::default().with_options([("LoseDevice", 1)]);
    let model = model_on(one(&lost, ALL), STEP).unwrap();
    let tensor = on_device(&model, "Dev", &x());
    let error = model.run(&[("x", &x()), ("s", &x())]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    tensor
}

#[test]
fn an_input_that_cannot_be_read_fails_each_execution_and_changes_no_state() {
    let device = AsyncBackend::default();
    let model = model_on(one(&device, ALL), STEP).unwrap();
    let mut bindings = with_state(&model);
    bindings.keep("y").unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    bindings.set_device_input("x", lost_tensor()).unwrap();
    for _ in 0..2 {
        let error = bindings.execute(ExecuteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
    }
    bindings.set_input("x", &x()).unwrap();
    bindings.execute(ExecuteOptions::default()).unwrap();
    assert_eq!(bindings.outputs().unwrap(), stepped(2));
}
