//! Packages of several nodes: the graph walker, and functions of a C library.

mod common;

use common::{f32s, node, random_tensor, runtime};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{CompiledNodes, CpuNode, Options, compile_nodes};
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_neff::{NodeGraph, NodeTable, NodeWork, Package, WriteOptions};
use tenon_runtime::{
    CoreGroup, CoreOptions, Cores, ExecuteOptions, LoadOptions, Model, NanCheck, Tap, TapValue,
};
use tenon_tensor::{Buffer, BufferMut, Tensor};

/// The library of `tests/data/cpu_nodes.c`.
fn library() -> Buffer {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::read(tenon_test_libraries::cpu_nodes(folder.path())).unwrap()
    });
    BufferMut::copy_of(bytes).unwrap().freeze()
}

fn cpu(name: &str, input: &str, output: &str, symbol: &str) -> CpuNode {
    CpuNode {
        name: name.into(),
        operator: "test.Function".into(),
        attributes: Attributes::new(),
        inputs: vec![input.into()],
        outputs: vec![output.into()],
        library: library(),
        symbol: symbol.into(),
    }
}

/// x -> `first` -> d -> matmul -> m -> `second` -> s -> sigmoid -> y; y and s are the outputs.
fn graph(first: &str, second: &str) -> (Graph, Vec<CpuNode>) {
    let mut graph = Graph::new("cut");
    graph.add_input("x", f32s(&[1, 4]));
    let d = graph.add_input("d", f32s(&[1, 4]));
    let s = graph.add_input("s", f32s(&[1, 3]));
    let weights = graph.add_constant("w", random_tensor(&[4, 3], 1));
    let m = node(&mut graph, "m", "MatMul", &[d, weights], Attributes::new());
    let y = node(&mut graph, "y", "Sigmoid", &[s], Attributes::new());
    graph.outputs.extend([y, s, m]);
    let nodes = vec![
        cpu("first", "x", "d", first),
        cpu("second", "m.out", "s", second),
    ];
    (graph, nodes)
}

fn compiled(first: &str, second: &str) -> Result<CompiledNodes> {
    let (graph, nodes) = graph(first, second);
    compile_nodes(graph, nodes, 2, &Options::new(&tenon_builtin::registry()))
}

fn package(first: &str, second: &str) -> Package {
    let nodes = compiled(first, second).unwrap().nodes;
    let bytes = nodes.to_bytes(WriteOptions::default(), &Control::new());
    common::open(&bytes.unwrap()).unwrap()
}

fn allowed() -> LoadOptions {
    LoadOptions {
        native_nodes: true,
        ..LoadOptions::default()
    }
}

fn model(first: &str, second: &str) -> Model {
    Model::load(&runtime(), &package(first, second), &allowed()).unwrap()
}

fn x() -> Tensor {
    random_tensor(&[1, 4], 9)
}

/// The reference in plain loops: 2 (2 x w), and its sigmoid.
fn by_hand() -> (Vec<f32>, Vec<f32>) {
    let (x, w) = (x(), random_tensor(&[4, 3], 1));
    let (x, w) = (x.as_slice::<f32>().unwrap(), w.as_slice::<f32>().unwrap());
    let product = |column| {
        (0..4)
            .map(|row| 2.0 * x[row] * w[row * 3 + column])
            .sum::<f32>()
    };
    let s: Vec<f32> = (0..3).map(|column| 2.0 * product(column)).collect();
    (s.iter().map(|s| 1.0 / (1.0 + (-s).exp())).collect(), s)
}

fn check(outputs: &[Tensor]) {
    let (y, s) = by_hand();
    common::assert_close(outputs[0].as_slice::<f32>().unwrap(), &y);
    common::assert_close(outputs[1].as_slice::<f32>().unwrap(), &s);
}

#[test]
fn nodes_run_in_order() {
    let package = package("twice", "twice");
    let names: Vec<String> = NodeTable::of(&package)
        .unwrap()
        .nodes
        .iter()
        .map(|node| format!("{} {}", node.executor, node.name))
        .collect();
    let expected = [
        "CPU first",
        "Neuron Core sg00",
        "CPU second",
        "Neuron Core sg01",
    ];
    assert_eq!(names, expected);
    let model = Model::load(&runtime(), &package, &allowed()).unwrap();
    let names = |signatures: &[tenon_runtime::Signature]| -> Vec<String> {
        signatures
            .iter()
            .map(|it| format!("{}: {}", it.name, it.ty))
            .collect()
    };
    assert_eq!(names(model.inputs()), ["x: f32[1, 4]"]);
    assert_eq!(names(model.outputs()), ["y.out: f32[1, 3]", "s: f32[1, 3]"]);
    // The nodes of both subgraphs, and both CPU nodes.
    assert_eq!(model.placement().nodes.len(), 4);
    check(&model.run(&[("x", &x())]).unwrap());
    // Threads share the model.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| check(&model.run(&[("x", &x())]).unwrap())));
        }
    });
}

#[test]
fn unaligned_memory_of_the_caller_is_copied() {
    let model = model("twice", "twice");
    let mut input = vec![0; 17];
    input[1..].copy_from_slice(x().bytes());
    let (mut y, mut s) = (vec![0; 13], vec![0; 13]);
    model
        .execute(&[&input[1..]], &mut [&mut y[1..], &mut s[1..]])
        .unwrap();
    let tensor =
        |bytes: &[u8]| Tensor::new(f32s(&[1, 3]), BufferMut::copy_of(bytes).unwrap().freeze());
    check(&[tensor(&y[1..]).unwrap(), tensor(&s[1..]).unwrap()]);
    let error = model
        .execute(&[&input], &mut [&mut y[1..], &mut s[1..]])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn libraries_run_only_when_allowed() {
    let options = LoadOptions {
        native_nodes: false,
        ..LoadOptions::default()
    };
    let error = Model::load(&runtime(), &package("twice", "root"), &options).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(
            "node 'first': the package has a CPU node, whose library would run in this process; if \
             you trust the package, set TENON_ALLOW_NATIVE_NODES=1 or allow native nodes"
        ),
        "{text}"
    );
    assert!(text.contains("node 'second'"), "{text}");
}

#[test]
fn the_message_of_a_failing_function_is_reported() {
    let run = |first| model(first, "twice").run(&[("x", &x())]).unwrap_err();
    let error = run("refuses");
    assert_eq!(error.kind(), ErrorKind::ExecutionFailed);
    assert_eq!(
        error.to_string(),
        "node 'first': the CPU function failed with 7: first: not today"
    );
    let text = run("says_nothing").to_string();
    assert!(text.ends_with("failed with -3: no message"), "{text}");
}

#[test]
fn invalid_libraries_are_rejected() {
    let text = compiled("thrice", "twice").unwrap_err().to_string();
    assert_eq!(
        text,
        "node 'first': the library given for it has no symbol 'thrice'"
    );
    let (graph, mut nodes) = graph("twice", "twice");
    nodes[1].library = BufferMut::copy_of(b"text").unwrap().freeze();
    let registry = tenon_builtin::registry();
    let options = Options::new(&registry);
    let text = compile_nodes(graph, nodes, 2, &options)
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "node 'second': the file given for it is no shared library (ELF)"
    );
    // Errors that only the system's loader finds.
    let load = |change: fn(&mut tenon_neff::CpuFunction)| {
        let mut nodes: NodeGraph = compiled("twice", "twice").unwrap().nodes;
        for node in &mut nodes.nodes {
            if let NodeWork::Cpu(function) = &mut node.work {
                change(function);
            }
        }
        let bytes = nodes
            .to_bytes(WriteOptions::default(), &Control::new())
            .unwrap();
        let package = common::open(&bytes).unwrap();
        Model::load(&runtime(), &package, &allowed())
            .unwrap_err()
            .to_string()
    };
    let text = load(|function| function.symbol = "nodes.c".into());
    assert!(
        text.contains("node 'first': the library has no function 'nodes.c'"),
        "{text}"
    );
    let text = load(|function| {
        function.library = BufferMut::copy_of(&library()[..999]).unwrap().freeze();
    });
    assert!(
        text.contains("node 'first': the library is truncated: found 999 bytes"),
        "{text}"
    );
}

#[test]
fn attributes_reach_the_function() {
    let (graph, mut nodes) = graph("tells_attributes", "twice"); // words: allow
    let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    nodes[0].attributes = Attributes::new()
        .with("scale", Attribute::Float(0.5))
        .with("axis", Attribute::Int(-2))
        .with("mode", Attribute::String("soft".into()))
        .with("ratios", Attribute::Floats(vec![1.5, f32::INFINITY]))
        .with("pads", Attribute::Ints(vec![0, 1, i64::MAX]))
        .with("none", Attribute::Ints(Vec::new()))
        .with("names", Attribute::Strings(list(&["a", "", "täxt"])));
    let backends = tenon_builtin::registry();
    let compiled = compile_nodes(graph, nodes, 2, &Options::new(&backends)).unwrap();
    let bytes = compiled
        .nodes
        .to_bytes(WriteOptions::default(), &Control::new());
    let package = common::open(&bytes.unwrap()).unwrap();
    let model = Model::load(&runtime(), &package, &allowed()).unwrap();
    let text = model.run(&[("x", &x())]).unwrap_err().to_string();
    let expected = "given axis=int:-2 mode=string:soft names=strings:a::täxt none=ints \
                pads=ints:0:1:9223372036854775807 ratios=floats:1.5:inf scale=float:0.5";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn tensor_attributes_of_functions_are_rejected() {
    let (graph, mut nodes) = graph("twice", "twice");
    nodes[1].attributes =
        Attributes::new().with("table", Attribute::Tensor(random_tensor(&[2], 1)));
    let backends = tenon_builtin::registry();
    let error = compile_nodes(graph, nodes, 2, &Options::new(&backends)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("node 'second': attribute 'table' is a tensor"),
        "{text}"
    );
}

#[test]
fn a_deadline_can_expire_in_a_cpu_node() {
    let model = model("sleeps", "twice");
    let control = Control::with_deadline(Instant::now() + Duration::from_millis(10));
    let options = ExecuteOptions {
        control: Some(&control),
        ..ExecuteOptions::default()
    };
    let error = model.run_with(&[("x", &x())], options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    check(&model.run(&[("x", &x())]).unwrap());
}

/// Records observed values.
#[derive(Default)]
struct RecordedValues(Mutex<Vec<(String, String, Vec<u8>)>>);

impl Tap for RecordedValues {
    fn selects(&self, node: &str) -> bool {
        node != "m"
    }

    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let (node, value) = (tapped.node.to_owned(), tapped.value.to_owned());
        assert_eq!(tapped.ty.unwrap().bytes(), tapped.bytes.len());
        self.0
            .lock()
            .unwrap()
            .push((node, value, tapped.bytes.to_vec()));
        Ok(())
    }
}

#[test]
fn a_tap_observes_the_values_of_nodes() {
    let model = model("twice", "twice");
    let recorded = RecordedValues::default();
    let mut profile = model.profile();
    let options = ExecuteOptions {
        tap: Some(&recorded),
        profile: Some(&mut profile),
        ..ExecuteOptions::default()
    };
    let outputs = model.run_with(&[("x", &x())], options).unwrap();
    let recorded = recorded.0.into_inner().unwrap();
    let names: Vec<(&str, &str)> = recorded
        .iter()
        .map(|(node, value, _)| (&**node, &**value))
        .collect();
    assert_eq!(names, [("first", "d"), ("second", "s"), ("y", "y.out")]);
    assert_eq!(recorded[1].2, outputs[1].bytes());
    assert_eq!(recorded[2].2, outputs[0].bytes());
    let rows: Vec<(&str, &str)> = profile
        .kernels
        .iter()
        .map(|row| (row.node.as_str(), row.backend.as_str()))
        .collect();
    assert_eq!(rows[0], ("first", "cpu node"));
    assert_eq!(rows[2], ("second", "cpu node"));
    assert_eq!(rows.len(), 4);
    assert!(profile.kernels.iter().all(|row| !row.time.is_zero()));
}

/// Records whether the core is busy when a node's value is observed.
struct BusyRecorder(CoreGroup, Mutex<Vec<(String, bool)>>);

impl Tap for BusyRecorder {
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let busy = self.0.cores()[0].is_busy();
        self.1.lock().unwrap().push((tapped.node.to_owned(), busy));
        Ok(())
    }
}

#[test]
fn cpu_nodes_run_without_a_core() {
    let cores = Cores::new(&CoreOptions {
        total: Some(1),
        ..CoreOptions::default()
    });
    let cores = cores.unwrap();
    let group = cores.group(0..1).unwrap();
    let looks = BusyRecorder(group.clone(), Mutex::default());
    let options = ExecuteOptions {
        tap: Some(&looks),
        cores: Some(&group),
        ..ExecuteOptions::default()
    };
    check(
        &model("twice", "twice")
            .run_with(&[("x", &x())], options)
            .unwrap(),
    );
    let seen = looks.1.into_inner().unwrap();
    let seen: Vec<(&str, bool)> = seen
        .iter()
        .map(|(node, busy)| (node.as_str(), *busy))
        .collect();
    assert_eq!(
        seen,
        [
            ("first", false),
            ("m", true),
            ("second", false),
            ("y", true)
        ]
    );
    assert_eq!(cores.report().cores[0].executions, 2);
    // 2 x 1 x 4 x 3 for the product, 3 for the sigmoid.
    assert_eq!(cores.report().cores[0].flops, 27);
    assert_eq!(cores.report().executions.on_core.count(), 2);
}

#[test]
fn the_first_nan_is_reported_with_its_value() {
    let model = model("root", "twice");
    // The square root of -1 is NaN, and so are all later values.
    let x = Tensor::from_slice([1, 4], &[4.0f32, 1.0, -1.0, -2.0]).unwrap();
    let run = |tap: Option<&dyn Tap>| {
        let options = ExecuteOptions {
            tap,
            ..ExecuteOptions::default()
        };
        model.run_with(&[("x", &x)], options)
    };
    run(None).unwrap();
    let error: Error = run(Some(&NanCheck)).unwrap_err();
    assert_eq!(
        (error.kind(), error.kind().nrt_status()),
        (ErrorKind::NotANumber, 1003)
    );
    let text = error.to_string();
    assert!(
        text.starts_with("node 'first': 'd' holds NaN at [0, 2], element 2 of f32[1, 4]"),
        "{text}"
    );
    let options = LoadOptions {
        nan_check: true,
        ..allowed()
    };
    let checked = Model::load(&runtime(), &package("twice", "root"), &options).unwrap();
    let error = checked.run(&[("x", &x)]).unwrap_err();
    assert_eq!(error.location().node.as_deref(), Some("second"));
}

#[test]
fn the_header_is_c_and_c_plus_plus() {
    let source = "#include <tenon/cpu_node.h>\n\
        tenon_cpu_node_function function;\n\
        typedef char call_size[sizeof(tenon_cpu_node_call) == 80 ? 1 : -1];\n\
        typedef char attribute_size[sizeof(tenon_cpu_node_attribute) == 32 ? 1 : -1];\n\
        typedef char tensor_size[sizeof(tenon_cpu_node_tensor) == 48 ? 1 : -1];\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("only.c");
    std::fs::write(&file, source).unwrap();
    for (language, standard) in [("c", "c99"), ("c++", "c++11")] {
        tenon_test_libraries::check_syntax(&file, language, standard);
    }
}
