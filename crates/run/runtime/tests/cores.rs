//! Models on cores, executed on tensor sets.

mod common;

use common::*;
use std::time::Duration;
use tenon_base::{ErrorKind, Result};
use tenon_graph::{Attributes, Graph};
use tenon_neff::{BucketInfo, Package, PaddingInfo};
use tenon_runtime::{
    CoreLoad, CoreModel, CoreOptions, CoreTensor, Cores, ExecuteOptions, Placement, TensorSet,
};

const WIDTHS: [usize; 4] = [20, 33, 17, 10];

fn cores(total: u32) -> Cores {
    let options = CoreOptions {
        total: Some(total),
        ..CoreOptions::default()
    };
    Cores::new(&options).unwrap()
}

fn package(graph: Graph) -> Package {
    open(&bytes(&compiled(graph).contents)).unwrap()
}

fn load(cores: &Cores, graph: Graph, load: &CoreLoad) -> Result<CoreModel> {
    CoreModel::load(&runtime(), cores, &package(graph), load)
}

/// `y = x + x`, with four elements.
fn doubling() -> Graph {
    let mut graph = Graph::new("doubling");
    let x = graph.add_input("x", f32s(&[4]));
    let y = node(&mut graph, "add", "Add", &[x, x], Attributes::new());
    graph.outputs.push(y);
    graph
}

fn tensor(cores: &Cores, core: u32, size: usize) -> CoreTensor {
    CoreTensor::allocate(cores.core(core).unwrap(), Placement::Device, size, "t").unwrap()
}

fn four(tensor: &CoreTensor) -> [f32; 4] {
    let mut bytes = [0; 16];
    tensor.read(0, &mut bytes).unwrap();
    std::array::from_fn(|at| f32::from_le_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap()))
}

fn set_four(tensor: &CoreTensor, values: [f32; 4]) {
    tensor
        .write(0, &values.map(f32::to_le_bytes).concat())
        .unwrap();
}

fn set(pairs: &[(&str, &CoreTensor)]) -> TensorSet {
    let set = TensorSet::new();
    pairs
        .iter()
        .for_each(|(name, tensor)| set.add(name, tensor));
    set
}

/// `y = x + x` of `rows` rows, which has buckets and a padding.
fn doubling_rows() -> Package {
    let mut graph = Graph::new("doubling");
    let rows = graph.symbols.add("rows", 1..=16).unwrap();
    graph.example_sizes.push(11);
    let x = graph.add_input("x", f32s(&[11, 3]));
    graph.value_mut(x).extents = Some(vec![rows.into(), 3.into()]);
    let y = node(&mut graph, "add", "Add", &[x, x], Attributes::new());
    graph.outputs.push(y);
    let mut contents = compiled(graph).contents;
    let bucket = BucketInfo {
        symbol: "rows".into(),
        sizes: vec![4, 16],
    };
    let padding = PaddingInfo {
        input: "x".into(),
        value: "NaN".into(),
    };
    contents.tenon.set_buckets(vec![bucket], vec![padding]);
    open(&bytes(&contents)).unwrap()
}

#[test]
fn threads_execute_different_sizes() {
    let cores = cores(2);
    let two = CoreLoad {
        count: Some(2),
        ..CoreLoad::default()
    };
    let model = CoreModel::load(&runtime(), &cores, &doubling_rows(), &two).unwrap();
    assert_eq!(model.inputs()[0].signature.ty, f32s(&[16, 3]));
    let output = model.outputs()[0].name.clone();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (cores, model, output) = (&cores, &model, &output);
            scope.spawn(move || {
                let y = tensor(cores, 0, 16 * 12);
                for rows in (1..=16).map(|rows| (rows + 5 * thread) % 16 + 1) {
                    let values: Vec<f32> = (0..rows * 3).map(|at| at as f32).collect();
                    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                    let x = tensor(cores, 0, bytes.len());
                    x.write(0, &bytes).unwrap();
                    let (inputs, outputs) = (set(&[("x", &x)]), set(&[(output, &y)]));
                    assert_eq!(model.output_types(&inputs).unwrap(), [f32s(&[rows, 3])]);
                    model
                        .execute(&inputs, &outputs, ExecuteOptions::default())
                        .unwrap();
                    let mut found = vec![0; bytes.len()];
                    y.read(0, &mut found).unwrap();
                    let twice = values.iter().flat_map(|v| (v + v).to_le_bytes());
                    assert_eq!(found, twice.collect::<Vec<u8>>());
                }
            });
        }
    });
}

#[test]
fn executions_of_threads_are_serialised_on_cores() {
    let cores = cores(2);
    let on_two = CoreLoad {
        count: Some(2),
        ..CoreLoad::default()
    };
    let model = load(&cores, perceptron(&WIDTHS), &on_two).unwrap();
    assert_eq!((model.core_count(), model.copies()), (2, 2));
    let input = random_tensor(&[1, 20], 3);
    let expected = model.model().run(&[("x", &input)]).unwrap();
    let name = model.outputs()[0].name.clone();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (x, y) = (tensor(&cores, 0, 80), tensor(&cores, 0, 40));
                x.write(0, input.bytes()).unwrap();
                let (inputs, outputs) = (set(&[("x", &x)]), set(&[(&name, &y)]));
                for _ in 0..50 {
                    y.fill(0, 40, 0).unwrap();
                    model
                        .execute(&inputs, &outputs, ExecuteOptions::default())
                        .unwrap();
                    let mut found = [0; 40];
                    y.read(0, &mut found).unwrap();
                    assert_eq!(found, expected[0].bytes());
                }
                assert!(y.wait_for_completions(50, Duration::ZERO));
                assert_eq!(y.completions(), 50);
            });
        }
    });
    let executions: u64 = cores.iter().map(|core| core.executions()).sum();
    assert_eq!(executions, 200);
    let used = |core: u32| cores.core(core).unwrap().memory().used();
    assert!(used(0) > used(1) && used(1) > 0);
    drop(model);
    assert_eq!((used(0), used(1)), (0, 0));
}

#[test]
fn inputs_are_read_before_outputs_are_written() {
    let cores = cores(1);
    let model = load(&cores, doubling(), &CoreLoad::default()).unwrap();
    let y = model.outputs()[0].name.clone();
    let whole = tensor(&cores, 0, 32);
    let (first, shifted) = (
        whole.slice(0, 16, "").unwrap(),
        whole.slice(4, 16, "").unwrap(),
    );
    set_four(&first, [1.0, 2.0, 3.0, 4.0]);
    let execute = |x: &CoreTensor, to: &CoreTensor| {
        model
            .execute(
                &set(&[("x", x)]),
                &set(&[(&y, to)]),
                ExecuteOptions::default(),
            )
            .unwrap();
    };
    execute(&first, &first);
    assert_eq!(four(&first), [2.0, 4.0, 6.0, 8.0]);
    execute(&first, &shifted);
    assert_eq!(four(&shifted), [4.0, 8.0, 12.0, 16.0]);
    assert_eq!(four(&first), [2.0, 4.0, 8.0, 12.0]);
}

#[test]
fn outputs_are_fed_back_to_inputs() {
    let cores = cores(1);
    let model = load(&cores, doubling(), &CoreLoad::default()).unwrap();
    let (x, y) = (tensor(&cores, 0, 16), tensor(&cores, 0, 16));
    set_four(&x, [1.0, -2.0, 0.5, 0.0]);
    let (inputs, outputs) = (set(&[("x", &x)]), set(&[(&model.outputs()[0].name, &y)]));
    model
        .execute_repeatedly(&inputs, &outputs, 5, ExecuteOptions::default())
        .unwrap();
    assert_eq!(four(&y), [32.0, -64.0, 16.0, 0.0]);
    assert_eq!(four(&x), [1.0, -2.0, 0.5, 0.0]);
    assert_eq!(y.completions(), 1);

    let other = load(&cores, perceptron(&WIDTHS), &CoreLoad::default()).unwrap();
    let (x, y) = (tensor(&cores, 0, 80), tensor(&cores, 0, 40));
    let (inputs, outputs) = (set(&[("x", &x)]), set(&[(&other.outputs()[0].name, &y)]));
    let error = other
        .execute_repeatedly(&inputs, &outputs, 2, ExecuteOptions::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the outputs of the model do not match its inputs"),
        "{error}"
    );
}

#[test]
fn all_wrong_tensors_are_reported() {
    let cores = cores(1);
    let model = load(&cores, movements(), &CoreLoad::default()).unwrap();
    let good: Vec<CoreTensor> = [24, 40, 88, 88].map(|size| tensor(&cores, 0, size)).into();
    let [first, second] = [0, 1].map(|at| model.outputs()[at].name.clone());
    let outputs = set(&[(&first, &good[2]), (&second, &good[3])]);
    let execute = |inputs: &TensorSet, outputs: &TensorSet| {
        let error = model.execute(inputs, outputs, ExecuteOptions::default());
        let error = error.unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = execute(&set(&[("a", &good[1])]), &outputs);
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert_eq!(
        text,
        "the tensor of input 'a' has the wrong size: expected 24 bytes (f32[2, 3]), found 40\n\
         the set has no tensor for input 'b': expected f32[2, 5] (40 bytes), found 'a'"
    );
    let empty = CoreTensor::empty("e");
    let (kind, text) = execute(&set(&[("a", &empty), ("b", &good[1])]), &outputs);
    assert_eq!(kind, ErrorKind::BadInput, "{text}");
    let inputs = set(&[("a", &good[0]), ("b", &good[1])]);
    let (kind, text) = execute(&inputs, &set(&[(&first, &good[2]), (&second, &good[2])]));
    assert_eq!(
        (kind, text.as_str()),
        (ErrorKind::BadInput, "two outputs overlap")
    );
    let freed = set(&[("a", &good[0]), ("b", &tensor(&cores, 0, 40))]);
    assert_eq!(execute(&freed, &outputs).0, ErrorKind::InvalidHandle);
    model
        .execute(&inputs, &outputs, ExecuteOptions::default())
        .unwrap();
}

#[test]
fn unknown_cores_are_rejected() {
    let cores = cores(2);
    let place = |start: Option<u32>, count: Option<u32>| {
        let load_at = CoreLoad {
            start,
            count,
            ..CoreLoad::default()
        };
        load(&cores, doubling(), &load_at).map(|model| model.group().cores()[0].index())
    };
    assert_eq!(place(Some(1), Some(1)).unwrap(), 1);
    for (start, count) in [(Some(2), None), (Some(1), Some(2)), (None, Some(3))] {
        let error = place(start, count).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnoughCores, "{error}");
    }
    let error = place(None, Some(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let small = CoreOptions {
        total: Some(1),
        memory: Some(100),
        ..CoreOptions::default()
    };
    let error = load(
        &Cores::new(&small).unwrap(),
        doubling(),
        &CoreLoad::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

#[test]
fn models_are_loaded_on_the_least_used_cores_and_time_out() {
    let cores = cores(2);
    let first = load(&cores, doubling(), &CoreLoad::default()).unwrap();
    let limited = CoreLoad {
        timeout: Some(Duration::ZERO),
        ..CoreLoad::default()
    };
    let second = load(&cores, doubling(), &limited).unwrap();
    assert_eq!(first.group().cores()[0].index(), 0);
    assert_eq!(second.group().cores()[0].index(), 1);
    assert_ne!(first.id(), second.id());
    let (x, y) = (tensor(&cores, 0, 16), tensor(&cores, 0, 16));
    let (inputs, outputs) = (set(&[("x", &x)]), set(&[(&second.outputs()[0].name, &y)]));
    let error = second.execute(&inputs, &outputs, ExecuteOptions::default());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(y.completions(), 0);
}
