//! Property test: random small graphs compute the same before and after compiling.

mod common;

use proptest::prelude::*;
use tenon_compiler::{Options, compile};
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, DataType, Graph, Node, Tensor, TensorType, ValueId};

/// A graph that grows by operators that match its values.
struct Builder {
    graph: Graph,
    values: Vec<ValueId>,
    seed: u64,
}

impl Builder {
    fn new(shape: &[usize], seed: u64) -> Self {
        let mut graph = Graph::new("random");
        let ty = TensorType::new(DataType::F32, shape).unwrap();
        let input = graph.add_input("x", ty);
        Self {
            graph,
            values: vec![input],
            seed,
        }
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.graph.value(id).ty.as_ref().unwrap().shape().to_vec()
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        self.seed += 1;
        let ty = TensorType::new(DataType::F32, shape).unwrap();
        let tensor = common::noise(&ty, self.seed);
        self.named(tensor)
    }

    fn named(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("k{}", self.graph.values.len());
        self.graph.add_constant(name, tensor)
    }

    fn ints(&mut self, list: &[i64]) -> ValueId {
        self.named(Tensor::from_slice([list.len()], list).unwrap())
    }

    fn scalar(&mut self, number: f32) -> ValueId {
        self.named(Tensor::scalar(number).unwrap())
    }

    fn node(&mut self, op: &str, attributes: Attributes, inputs: &[ValueId]) -> ValueId {
        self.nodes(op, attributes, inputs, 1)[0]
    }

    fn nodes(
        &mut self,
        op: &str,
        attributes: Attributes,
        inputs: &[ValueId],
        outputs: usize,
    ) -> Vec<ValueId> {
        let stem = format!("v{}", self.graph.values.len());
        let made: Vec<ValueId> = (0..outputs)
            .map(|index| self.graph.add_value(format!("{stem}_{index}"), None))
            .collect();
        let id = self.graph.add_node(Node {
            name: format!("{op}_{stem}"),
            op: operator(op).unwrap(),
            attributes,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: made.iter().copied().map(Some).collect(),
        });
        let types = tenon_graph::infer_node(&self.graph, id).unwrap();
        for (&value, ty) in made.iter().zip(types) {
            self.graph.value_mut(value).ty = Some(ty);
        }
        self.values.extend(&made);
        made
    }

    /// Applies the operator `choice` to the value `pick`.
    fn grow(&mut self, choice: u8, pick: u8) {
        let x = self.values[usize::from(pick) % self.values.len()];
        let shape = self.shape(x);
        let none = Attributes::new;
        let last = shape.len() - 1;
        match choice {
            0 => drop(self.node("Relu", none(), &[x])),
            1 => {
                let s = self.node("Sigmoid", none(), &[x]);
                self.node("Mul", none(), &[x, s]);
            }
            2 => {
                let k = self.constant(&shape[last..]);
                self.node("Add", none(), &[x, k]);
            }
            3 => {
                let mut channels = vec![1; shape.len() - 1];
                channels[0] = shape[1];
                let k = self.constant(&channels);
                self.node("Mul", none(), &[x, k]);
            }
            4 => {
                let order: Vec<i64> = match pick % 3 {
                    0 => (0..shape.len() as i64).rev().collect(),
                    1 => [&[0], &(2..shape.len() as i64).collect::<Vec<_>>()[..], &[1]].concat(),
                    _ => [&[0, last as i64][..], &(1..last as i64).collect::<Vec<_>>()].concat(),
                };
                self.node(
                    "Transpose",
                    none().with("perm", Attribute::Ints(order)),
                    &[x],
                );
            }
            5 => {
                let flat = self.ints(&[shape[0] as i64, -1]);
                let flat = self.node("Reshape", none(), &[x, flat]);
                let back: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
                let back = self.ints(&back);
                self.node("Reshape", none(), &[flat, back]);
            }
            6 if shape.len() == 4 => self.convolution(x, &shape, pick),
            7 if shape.len() == 4 && shape[2] > 1 && shape[3] > 1 => {
                let op = if pick.is_multiple_of(2) {
                    "MaxPool"
                } else {
                    "AveragePool"
                };
                let pads = if pick % 4 < 2 { vec![0; 4] } else { vec![1; 4] };
                let attributes = none()
                    .with("kernel_shape", Attribute::Ints(vec![2, 2]))
                    .with("strides", Attribute::Ints(vec![2, 2]))
                    .with("pads", Attribute::Ints(pads));
                self.node(op, attributes, &[x]);
            }
            8 => {
                let w = self.constant(&[shape[last], 4]);
                let y = self.node("MatMul", none(), &[x, w]);
                let b = self.constant(&[4]);
                let y = self.node("Add", none(), &[b, y]);
                self.node(
                    ["Relu", "Tanh", "Gelu"][usize::from(pick) % 3],
                    none(),
                    &[y],
                );
            }
            9 => {
                let same: Vec<ValueId> = self
                    .values
                    .iter()
                    .copied()
                    .filter(|&v| self.shape(v) == shape)
                    .collect();
                let other = same[usize::from(pick) % same.len()];
                self.node(
                    ["Add", "Mul", "Sub"][usize::from(pick) % 3],
                    none(),
                    &[x, other],
                );
            }
            10 => {
                let axis = usize::from(pick) % shape.len();
                if shape[axis] < 2 {
                    return;
                }
                let sizes = self.ints(&[1, shape[axis] as i64 - 1]);
                let along = none().with("axis", Attribute::Int(axis as i64));
                let parts = self.nodes("Split", along.clone(), &[x, sizes], 2);
                self.node("Concat", along, &[parts[1], parts[0], x]);
            }
            11 => {
                let axes = self.ints(&[-1]);
                let mean = self.node("ReduceMean", none(), &[x, axes]);
                let d = self.node("Sub", none(), &[x, mean]);
                let two = self.scalar(2.0);
                let square = self.node("Pow", none(), &[d, two]);
                let variance = self.node("ReduceMean", none(), &[square, axes]);
                let epsilon = self.scalar(1e-3);
                let sum = self.node("Add", none(), &[variance, epsilon]);
                let root = self.node("Sqrt", none(), &[sum]);
                let y = self.node("Div", none(), &[d, root]);
                let scale = self.constant(&shape[last..]);
                self.node("Mul", none(), &[y, scale]);
            }
            12 => {
                let axis = usize::from(pick) % shape.len();
                let axes = self.ints(&[axis as i64]);
                if pick.is_multiple_of(2) {
                    let start = self.ints(&[0]);
                    let end = self.ints(&[(shape[axis] as i64 / 2).max(1)]);
                    self.node("Slice", none(), &[x, start, end, axes]);
                } else {
                    // A negative step, from beyond the end to before the start.
                    let (start, end) = (self.ints(&[99]), self.ints(&[-99]));
                    let steps = self.ints(&[-1 - i64::from(pick % 4 / 2)]);
                    self.node("Slice", none(), &[x, start, end, axes, steps]);
                }
            }
            13 => {
                let mut pads = vec![0i64; 2 * shape.len()];
                // Negative pads where the extent is sufficient.
                pads[last] = if shape[last] > 2 && pick.is_multiple_of(3) {
                    -1
                } else {
                    1
                };
                pads[2 * shape.len() - 2] = 2;
                let mode = ["constant", "edge", "reflect", "wrap"][usize::from(pick / 8 % 4)];
                let repeats = shape[last] > 1 && shape[last.saturating_sub(1)] > 2;
                if mode != "constant" && repeats {
                    // Other modes do not crop.
                    pads[last] = 1;
                    let pads = self.ints(&pads);
                    let mode = Attribute::String(mode.into());
                    self.node("Pad", none().with("mode", mode), &[x, pads]);
                    return;
                }
                let pads = self.ints(&pads);
                if pick.is_multiple_of(2) {
                    self.node("Pad", none(), &[x, pads]);
                } else {
                    let fill = self.scalar(0.25);
                    self.node("Pad", none(), &[x, pads, fill]);
                }
            }
            14 => {
                let keep = Attribute::Int(i64::from(pick.is_multiple_of(2)));
                let axis = self.ints(&[i64::from(pick) % shape.len() as i64]);
                if shape.len() > 2 || keep == Attribute::Int(1) {
                    self.node("ReduceMax", none().with("keepdims", keep), &[x, axis]);
                }
            }
            15 => {
                let axis = i64::from(pick) % shape.len() as i64;
                self.node("Softmax", none().with("axis", Attribute::Int(axis)), &[x]);
            }
            16 if shape.len() == 4 => {
                self.node("GlobalAveragePool", none(), &[x]);
            }
            17 if shape.len() >= 3 => self.attention(x, &shape, pick),
            18 if shape.len() == 4 => {
                let scales = self.named(Tensor::from_slice([4], &[1.0f32, 1.0, 2.0, 2.0]).unwrap());
                let empty = self.named(Tensor::from_slice([0], &[0f32; 0]).unwrap());
                let attributes = none()
                    .with("mode", Attribute::String("nearest".into()))
                    .with(
                        "coordinate_transformation_mode",
                        Attribute::String("asymmetric".into()),
                    );
                self.node("Resize", attributes, &[x, empty, scales]);
            }
            19 => {
                let k: usize = shape[1..].iter().product();
                let flat = self.node("Flatten", none(), &[x]);
                if pick.is_multiple_of(2) {
                    let (w, b) = (self.constant(&[3, k]), self.constant(&[3]));
                    self.node(
                        "Gemm",
                        none().with("transB", Attribute::Int(1)),
                        &[flat, w, b],
                    );
                } else {
                    let w = self.constant(&[k, 2]);
                    self.node("MatMul", none(), &[flat, w]);
                }
            }
            20 if shape.len() == 4 && shape[2].is_multiple_of(2) && shape[3].is_multiple_of(2) => {
                let block = none().with("blocksize", Attribute::Int(2));
                let deep = self.node("SpaceToDepth", block.clone(), &[x]);
                let mode = if pick.is_multiple_of(2) { "DCR" } else { "CRD" };
                let mode = block.with("mode", Attribute::String(mode.into()));
                self.node("DepthToSpace", mode, &[deep]);
            }
            21 => {
                let mut repeats = vec![1; shape.len()];
                repeats[usize::from(pick) % shape.len()] = 2;
                let repeats = self.ints(&repeats);
                self.node("Tile", none(), &[x, repeats]);
            }
            22 => {
                let to = |name: &str| Attributes::new().with("to", Attribute::String(name.into()));
                let wide = self.node("Cast", to("f64"), &[x]);
                // No other node takes elements of that type.
                self.values.pop();
                self.node("Cast", to("f32"), &[wide]);
            }
            _ => {}
        }
    }

    fn convolution(&mut self, x: ValueId, shape: &[usize], pick: u8) {
        let side = if shape[2] >= 3 && shape[3] >= 3 && pick.is_multiple_of(2) {
            3
        } else {
            1
        };
        let depthwise = pick.is_multiple_of(5);
        let filters = if depthwise { shape[1] } else { 3 };
        let group = if depthwise { shape[1] } else { 1 };
        let w = self.constant(&[filters, shape[1] / group, side, side]);
        let pad = if side == 3 { 1 } else { 0 };
        let attributes = Attributes::new()
            .with("group", Attribute::Int(group as i64))
            .with("pads", Attribute::Ints(vec![pad; 4]));
        let y = self.node("Conv", attributes, &[x, w]);
        let [gamma, beta, mean] = [0; 3].map(|_| self.constant(&[filters]));
        let variance: Vec<f32> = (0..filters).map(|n| 0.5 + n as f32 / 4.0).collect();
        let variance = self.named(Tensor::from_slice([filters], &variance).unwrap());
        let y = self.node(
            "BatchNormalization",
            Attributes::new(),
            &[y, gamma, beta, mean, variance],
        );
        if pick.is_multiple_of(3) {
            let (zero, six) = (self.scalar(0.0), self.scalar(6.0));
            self.node("Clip", Attributes::new(), &[y, zero, six]);
        } else if pick % 3 == 1 && self.shape(y) == self.shape(x) {
            let sum = self.node("Add", Attributes::new(), &[x, y]);
            self.node("Relu", Attributes::new(), &[sum]);
        }
    }

    /// Two heads of attention over the last two dimensions.
    fn attention(&mut self, x: ValueId, shape: &[usize], pick: u8) {
        let (batch, positions) = (
            shape[0],
            shape[1..shape.len() - 1].iter().product::<usize>(),
        );
        let width = shape[shape.len() - 1];
        let joined = self.ints(&[batch as i64, positions as i64, width as i64]);
        let x = self.node("Reshape", Attributes::new(), &[x, joined]);
        let heads = self.ints(&[batch as i64, positions as i64, 2, 2]);
        let swap = |perm: [i64; 4]| Attributes::new().with("perm", Attribute::Ints(perm.to_vec()));
        let mut parts = Vec::new();
        for _ in 0..3 {
            let w = self.constant(&[width, 4]);
            let y = self.node("MatMul", Attributes::new(), &[x, w]);
            parts.push(self.node("Reshape", Attributes::new(), &[y, heads]));
        }
        let q = self.node("Transpose", swap([0, 2, 1, 3]), &[parts[0]]);
        let k = if pick.is_multiple_of(2) {
            self.node("Transpose", swap([0, 2, 3, 1]), &[parts[1]])
        } else {
            let k = self.node("Transpose", swap([0, 2, 1, 3]), &[parts[1]]);
            self.node("Transpose", swap([0, 1, 3, 2]), &[k])
        };
        let v = self.node("Transpose", swap([0, 2, 1, 3]), &[parts[2]]);
        let mut scores = self.node("MatMul", Attributes::new(), &[q, k]);
        if !pick.is_multiple_of(3) {
            let scale = self.scalar(0.5);
            let op = if pick % 3 == 1 { "Mul" } else { "Div" };
            scores = self.node(op, Attributes::new(), &[scores, scale]);
        }
        if pick % 5 > 1 {
            let mask = self.constant(&[positions, positions]);
            scores = self.node("Add", Attributes::new(), &[scores, mask]);
        }
        let weights = self.node("Softmax", Attributes::new(), &[scores]);
        let y = self.node("MatMul", Attributes::new(), &[weights, v]);
        let y = self.node("Transpose", swap([0, 2, 1, 3]), &[y]);
        let joined = self.ints(&[batch as i64, positions as i64, 4]);
        self.node("Reshape", Attributes::new(), &[y, joined]);
    }

    /// Values without a use become outputs; bounded values remain comparable.
    fn finish(mut self) -> Graph {
        let used: Vec<ValueId> = self
            .graph
            .nodes
            .iter()
            .flat_map(|node| node.inputs.iter().flatten().copied())
            .collect();
        self.graph.outputs = self
            .values
            .iter()
            .copied()
            .filter(|value| !used.contains(value))
            .collect();
        self.graph
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), ..ProptestConfig::default() })]

    #[test]
    fn compiling_preserves_the_results(
        steps in proptest::collection::vec((0u8..23, 0u8..60), 1..12),
        image in proptest::bool::ANY,
        seed in 0u64..1000,
    ) {
        let shape: &[usize] = if image { &[1, 2, 4, 5] } else { &[2, 3, 4] };
        let mut builder = Builder::new(shape, seed);
        for (choice, pick) in steps {
            if builder.graph.values.len() < 120 {
                builder.grow(choice, pick);
            }
        }
        let graph = builder.finish();
        let registry = common::registry();
        let compiled = compile(graph.clone(), &Options::new(&registry)).unwrap();
        let inputs = common::inputs(&graph, seed);
        let expected = common::run(&graph, &inputs);
        let found = common::run(&compiled.graph, &inputs);
        let text = format!("{graph}\n{}", compiled.graph);
        common::assert_close(&expected, &found, 1e-3, &text);
        // From the package: the memory plan, the descriptors, and the fast backend.
        for registry in [registry, tenon_builtin::registry()] {
            let compiled = compile(graph.clone(), &Options::new(&registry)).unwrap();
            let found = common::execute(&compiled, &registry, &inputs);
            common::assert_close(&expected, &found, 2e-3, &text);
        }
    }
}
