//! The cost of a node: arithmetic operations and bytes, from its operator and types alone.
//!
//! Operations are counted as in papers: a multiply-add is two; the epilogue of a matmul or convolution
//! (bias, activation) is neglected. Bytes are those of one pass over the operands, without caches.

use crate::{Graph, Node};
use tenon_tensor::TensorType;

/// The cost of one execution of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Cost {
    /// The cost of a node of `graph`, whose types are known.
    pub fn of(graph: &Graph, node: &Node) -> Self {
        let types = |ids: &[Option<crate::ValueId>]| -> Vec<Option<TensorType>> {
            ids.iter()
                .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
                .collect()
        };
        let (inputs, outputs) = (types(&node.inputs), types(&node.outputs));
        let operands = Operands {
            node,
            inputs: &inputs,
            outputs: &outputs,
        };
        let sum = |types: &[Option<TensorType>]| -> u64 {
            let types = types.iter().flatten();
            types.fold(0, |sum, ty| sum.saturating_add(ty.bytes() as u64))
        };
        let reads = Self::reads(graph, node).into_iter();
        Self {
            flops: operands.flops(),
            read: reads.fold(0, u64::saturating_add),
            written: sum(&outputs),
        }
    }

    /// The bytes that a node reads of each input.
    pub fn reads(graph: &Graph, node: &Node) -> Vec<u64> {
        let bytes = |id: &Option<crate::ValueId>| {
            let ty = id.and_then(|id| graph.value(id).ty.as_ref());
            ty.map_or(0, |ty| ty.bytes() as u64)
        };
        let written = || node.outputs.iter().map(bytes).fold(0, u64::saturating_add);
        let inputs = node.inputs.iter().enumerate();
        let read = |(index, id): (usize, &Option<crate::ValueId>)| match (node.op.name, index) {
            // The selected rows, not the whole table.
            ("Gather" | "GatherElements" | "GatherND" | "Slice" | "Split", 0)
            | ("Shape" | "Size", 0) => written(),
            ("Slice" | "Split", _) => 0,
            _ => bytes(id),
        };
        inputs.map(read).collect()
    }
}

struct Operands<'a> {
    node: &'a Node,
    inputs: &'a [Option<TensorType>],
    outputs: &'a [Option<TensorType>],
}

impl Operands<'_> {
    fn shape(&self, input: usize) -> &[usize] {
        let ty = self.inputs.get(input).and_then(Option::as_ref);
        ty.map_or(&[], |ty| ty.shape())
    }

    /// Elements of all outputs.
    fn produced(&self) -> u64 {
        let outputs = self.outputs.iter().flatten();
        outputs.fold(0, |sum, ty| sum.saturating_add(elements(ty.shape())))
    }

    /// The maximum of the elements of the largest input and those of the outputs.
    fn accessed(&self) -> u64 {
        let inputs = self.inputs.iter().flatten();
        let largest = inputs.map(|ty| elements(ty.shape())).max();
        largest.unwrap_or(0).max(self.produced())
    }

    fn flops(&self) -> u64 {
        use crate::operator::OperatorClass::{Movement, View};
        if matches!(self.node.op.class, Movement | View) {
            return 0;
        }
        let extent = |input: usize, from_last: usize| {
            let shape = self.shape(input);
            let at = shape.len().checked_sub(from_last);
            at.and_then(|at| shape.get(at))
                .map_or(1, |&extent| extent as u64)
        };
        let flag = |name: &str| {
            self.node
                .attributes
                .int(name, 0)
                .is_ok_and(|flag| flag != 0)
        };
        // Each output element is a sum over the last dimension of A, or the one before.
        let matmul = |transposed: bool| {
            multiply_adds(self.produced(), extent(0, if transposed { 2 } else { 1 }))
        };
        // Each output element is a sum over one filter.
        let filters = |weights: usize| {
            multiply_adds(
                self.produced(),
                elements(self.shape(weights).get(1..).unwrap_or(&[])),
            )
        };
        match self.node.op.name {
            "MatMul"
            | "MatMulInteger"
            | "QLinearMatMul"
            | "tenon.QuantizedMatMul"
            | "tenon.WeightOnlyMatMul" => matmul(false),
            "Gemm" => matmul(flag("transA")),
            "tenon.MatMul" => matmul(flag("trans_a")),
            "Conv" | "tenon.Conv" | "ConvInteger" | "DeformConv" => filters(1),
            "QLinearConv" | "tenon.QuantizedConv" => filters(3),
            "ConvTranspose" | "tenon.ConvTranspose" => {
                let filter = self.shape(1).get(1..).unwrap_or(&[]);
                multiply_adds(elements(self.shape(0)), elements(filter))
            }
            // Scores of every query with every key, then sums of values.
            "tenon.Attention" => {
                let (q, keys) = (self.shape(0), extent(1, 3));
                multiply_adds(elements(q).saturating_add(self.produced()), keys)
            }
            "Attention" => multiply_adds(
                elements(self.shape(0)).saturating_add(self.produced()),
                extent(1, 2),
            ),
            "LSTM" | "GRU" | "RNN" => {
                let steps = elements(self.shape(0).get(..2).unwrap_or(&[]));
                let weights = elements(self.shape(1)).saturating_add(elements(self.shape(2)));
                multiply_adds(steps, weights)
            }
            "MaxPool" | "AveragePool" | "LpPool" | "tenon.MaxPool" | "tenon.AveragePool" => {
                let kernel = self.node.attributes.ints("kernel_shape").ok().flatten();
                let window = kernel.unwrap_or(&[]).iter();
                window.fold(self.produced(), |product, &extent| {
                    product.saturating_mul(extent.max(1) as u64)
                })
            }
            "Gather" | "GatherElements" | "GatherND" | "ScatterElements" | "ScatterND"
            | "Compress" | "Constant" | "ConstantOfShape" | "Shape" | "Size" | "OneHot"
            | "ReverseSequence" | "Trilu" | "Where" | "EyeLike" | "CastLike" | "CenterCropPad"
            | "TensorScatter" | "MaxUnpool" => 0,
            // A comparison for each level of balanced trees, and the sum.
            "tenon.TreeEnsemble" => {
                let (rows, trees) = (extent(0, 2), elements(self.shape(5)).max(1));
                let leaves = elements(self.shape(6)).saturating_sub(1);
                let levels = (leaves / trees).max(1).ilog2();
                let walks = rows.saturating_mul(trees);
                walks.saturating_mul(u64::from(levels) + 1)
            }
            // A row of the matrix of pairs for each class in each step; some ten steps.
            "tenon.CoupleProbabilities" => self
                .produced()
                .saturating_mul(extent(0, 1))
                .saturating_mul(20),
            // A row for each column, for each element.
            "tenon.Inverse" => {
                let columns = self.shape(0).last().copied().unwrap_or(0) as u64;
                self.produced().saturating_mul(columns).saturating_mul(4)
            }
            // A hash and a comparison for each element, not for each key.
            "tenon.LookUp" => self.produced().saturating_mul(2),
            "tenon.Elementwise" => {
                let program = self.node.attributes.strings("program").ok().flatten();
                let instructions = program.map_or(0, <[String]>::len) as u64;
                self.produced().saturating_mul(instructions)
            }
            // One for each element.
            _ => self.accessed(),
        }
    }
}

/// The operations of `sums` sums of `length` products each.
fn multiply_adds(sums: u64, length: u64) -> u64 {
    sums.saturating_mul(length).saturating_mul(2)
}

fn elements(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |product: u64, &extent| {
        product.saturating_mul(extent as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of the first node of a graph in text.
    fn cost(text: &str) -> Cost {
        let mut graph: Graph = text.parse().unwrap();
        graph.infer_types().unwrap();
        Cost::of(&graph, &graph.nodes[0])
    }

    #[test]
    fn a_multiply_add_is_two_operations() {
        let product =
            cost("graph \"g\" (%a: f32[7, 3], %b: f32[3, 5]) -> (%y) {\n %y = MatMul(%a, %b)\n}");
        let expected = Cost {
            flops: 2 * 7 * 3 * 5,
            read: 4 * (21 + 15),
            written: 4 * 35,
        };
        assert_eq!(product, expected);
        let quantized = cost(
            "graph \"g\" (%a: u8[7, 3], %s: f32[], %b: i8[5, 3]) -> (%y) {\n \
             %y = tenon.QuantizedMatMul(%a, %s, _, %b, %s, _, _, %s) {trans_b = 1}\n}",
        );
        let expected = Cost {
            flops: 2 * 7 * 3 * 5,
            read: 21 + 15 + 3 * 4,
            written: 35,
        };
        assert_eq!(quantized, expected);
        let turned = cost(
            "graph \"g\" (%a: f32[3, 7], %b: f32[3, 5]) -> (%y) {\n %y = Gemm(%a, %b) {transA = 1}\n}",
        );
        assert_eq!(turned.flops, 2 * 7 * 3 * 5);
    }

    #[test]
    fn convolutions_are_as_papers_count_them() {
        // ResNet-50's first layer has 118 million multiply-adds at 224 x 224 (He et al., 2015).
        let first = cost(
            "graph \"g\" (%x: f32[1, 3, 224, 224], %w: f32[64, 3, 7, 7]) -> (%y) {\n \
             %y = Conv(%x, %w) {pads = [3, 3, 3, 3], strides = [2, 2]}\n}",
        );
        assert_eq!(first.flops, 2 * 112 * 112 * 64 * 147);
        let quantized = cost(
            "graph \"g\" (%x: u8[1, 224, 224, 3], %w: i8[64, 3, 7, 7], %s: f32[]) -> (%y) {\n \
             %y = tenon.QuantizedConv(%x, %s, _, %w, %s) {pads = [3, 3, 3, 3], strides = [2, 2]}\n}",
        );
        assert_eq!(quantized.flops, first.flops);
        assert_eq!(quantized.written, first.written);
        // Each channel by itself: one filter of 3 x 3.
        let depthwise = cost(
            "graph \"g\" (%x: f32[1, 8, 10, 10], %w: f32[8, 1, 3, 3]) -> (%y) {\n \
             %y = Conv(%x, %w) {group = 8}\n}",
        );
        assert_eq!(depthwise.flops, 2 * 8 * 8 * 8 * 9);
    }

    #[test]
    fn trees_count_the_levels_of_their_walks() {
        let trees = cost(
            "graph \"g\" (%x: f32[9, 4]) -> (%y) {\n const %features: i32[1] = [0]\n \
             const %thresholds: f32[1] = [0]\n const %modes: u8[1] = [0]\n const %children: i32[1, 2] = [-1, -2]\n \
             const %roots: i32[1] = [0]\n const %starts: i32[3] = [0, 1, 2]\n const %targets: i32[2] = [0, 0]\n \
             const %weights: f32[2] = [1, 2]\n %y = tenon.TreeEnsemble(%x, %features, %thresholds, %modes, \
             %children, %roots, %starts, %targets, %weights) {targets = 1}\n}",
        );
        // One tree of one comparison, and a sum.
        assert_eq!(trees.flops, 9 * 2);
        let table = cost(
            "graph \"g\" (%x: i64[3, 4]) -> (%y) {\n const %keys: i64[2] = [2, 5]\n \
             const %values: f32[2] = [0.5, 1]\n const %default: f32[] = [-1]\n \
             %y = tenon.LookUp(%x, %keys, %values, %default)\n}",
        );
        assert_eq!(table.flops, 24);
    }

    #[test]
    fn elementwise_operators_count_elements_and_movements_nothing() {
        let sum = cost("graph \"g\" (%a: f32[4, 4], %b: f32[4]) -> (%y) {\n %y = Add(%a, %b)\n}");
        assert_eq!((sum.flops, sum.read, sum.written), (16, 80, 64));
        let turn = cost("graph \"g\" (%a: f32[4, 5]) -> (%y) {\n %y = Transpose(%a)\n}");
        assert_eq!((turn.flops, turn.read, turn.written), (0, 80, 80));
        let rows =
            cost("graph \"g\" (%a: f32[1000, 8], %i: i64[3]) -> (%y) {\n %y = Gather(%a, %i)\n}");
        assert_eq!((rows.flops, rows.read, rows.written), (0, 96 + 24, 96));
        let part = cost(
            "graph \"g\" (%a: f32[1000, 8]) -> (%y) {\n const %from: i64[1] = [2]\n \
             const %to: i64[1] = [5]\n %y = Slice(%a, %from, %to)\n}",
        );
        assert_eq!((part.flops, part.read, part.written), (0, 96, 96));
    }
}
