//! Models for tests: graphs made by hand, compiled and packed in memory.
#![allow(dead_code, reason = "each test file uses its own part")]

use tenon_base::Control;
use tenon_compiler::{Compiled, Options, compile};
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, Graph, Node, ValueId};
use tenon_neff::{Contents, Limits, Package, WriteOptions};
use tenon_runtime::{LoadOptions, Model, Runtime};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

pub fn runtime() -> Runtime {
    Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels())
}

pub fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DataType::F32, shape).unwrap()
}

/// A tensor of pseudo-random values from -0.5 to 0.5 (a linear congruential generator).
pub fn random_tensor(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

/// Adds a node with one output.
pub fn node(
    graph: &mut Graph,
    name: &str,
    op: &str,
    inputs: &[ValueId],
    attributes: Attributes,
) -> ValueId {
    let output = graph.add_value(format!("{name}.out"), None);
    graph.nodes.push(Node {
        name: name.into(),
        op: operator(op).unwrap(),
        attributes,
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(output)],
    });
    output
}

/// `784-256-128-10`, or other widths: matrix products with bias and Relu between.
pub fn perceptron(widths: &[usize]) -> Graph {
    let mut graph = Graph::new("perceptron");
    let mut value = graph.add_input("x", f32s(&[1, widths[0]]));
    for (layer, pair) in widths.windows(2).enumerate() {
        let weights = random_tensor(&[pair[0], pair[1]], layer as u32);
        let weights = graph.add_constant(format!("w{layer}"), weights);
        let bias = graph.add_constant(
            format!("b{layer}"),
            random_tensor(&[pair[1]], 100 + layer as u32),
        );
        let name = |what: &str| format!("{what}{layer}");
        value = node(
            &mut graph,
            &name("matmul"),
            "MatMul",
            &[value, weights],
            Attributes::new(),
        );
        value = node(
            &mut graph,
            &name("add"),
            "Add",
            &[value, bias],
            Attributes::new(),
        );
        if layer + 2 < widths.len() {
            value = node(
                &mut graph,
                &name("relu"),
                "Relu",
                &[value],
                Attributes::new(),
            );
        }
    }
    graph.outputs.push(value);
    graph
}

/// Two inputs, both used twice, a concat, a transpose, a reshaped output and an output that is also
/// an operand: DMA, views and in-place outputs.
pub fn movements() -> Graph {
    let mut graph = Graph::new("movements");
    let a = graph.add_input("a", f32s(&[2, 3]));
    let b = graph.add_input("b", f32s(&[2, 5]));
    let axis = Attributes::new().with("axis", Attribute::Int(1));
    let joined = node(&mut graph, "join", "Concat", &[a, b, a], axis);
    let perm = Attributes::new().with("perm", Attribute::Ints(vec![1, 0]));
    let turned = node(&mut graph, "turn", "Transpose", &[joined], perm);
    let twice = node(
        &mut graph,
        "twice",
        "Add",
        &[turned, turned],
        Attributes::new(),
    );
    let shape = Tensor::from_slice([1], &[22i64]).unwrap();
    let shape = graph.add_constant("shape", shape);
    let flat = node(
        &mut graph,
        "flat",
        "Reshape",
        &[twice, shape],
        Attributes::new(),
    );
    let soft = node(&mut graph, "sigmoid", "Sigmoid", &[flat], Attributes::new());
    graph.outputs.extend([flat, soft]);
    graph
}

pub fn compiled(graph: Graph) -> Compiled {
    compile(graph, &Options::new(&tenon_builtin::registry())).unwrap()
}

pub fn bytes(contents: &Contents) -> Vec<u8> {
    contents
        .to_bytes(WriteOptions::default(), &Control::new())
        .unwrap()
        .to_vec()
}

pub fn open(bytes: &[u8]) -> tenon_base::Result<Package> {
    let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
    Package::from_buffer(buffer, &Limits::default(), &Control::new())
}

pub fn model_of(graph: Graph, options: &LoadOptions) -> Model {
    let package = open(&bytes(&compiled(graph).contents)).unwrap();
    Model::load(&runtime(), &package, options).unwrap()
}

/// The perceptron as a reference in plain loops.
pub fn perceptron_by_hand(widths: &[usize], input: &[f32]) -> Vec<f32> {
    let mut value = input.to_vec();
    for (layer, pair) in widths.windows(2).enumerate() {
        let weights = random_tensor(&[pair[0], pair[1]], layer as u32);
        let weights = weights.as_slice::<f32>().unwrap().to_vec();
        let bias = random_tensor(&[pair[1]], 100 + layer as u32);
        let last = layer + 2 == widths.len();
        value = (0..pair[1])
            .map(|column| {
                let products = value
                    .iter()
                    .enumerate()
                    .map(|(row, x)| x * weights[row * pair[1] + column]);
                let sum = products.sum::<f32>() + bias.as_slice::<f32>().unwrap()[column];
                if last { sum } else { sum.max(0.0) }
            })
            .collect();
    }
    value
}

pub fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-4 * expected.abs().max(1.0),
            "{found} for {expected}"
        );
    }
}
