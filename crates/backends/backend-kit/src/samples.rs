//! Sample nodes for the checks, one per operator and type, with inputs.

use tenon_backend::{
    Backend, ExtentRange, InputSpec, NodeRanges, NodeView, OperandRanges, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Graph, Node};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// Graphs of one node. `T` is replaced by each type of [`TYPES`].
const NODES: &[&str] = &[
    "(%x: T[2, 3]) -> (%y) { %y = Abs(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Neg(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Relu(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Exp(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Sigmoid(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Tanh(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Floor(%x) }",
    "(%x: T[2, 3]) -> (%y) { %y = Erf(%x) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Add(%a, %b) }",
    "(%a: T[2, 3], %b: T[3]) -> (%y) { %y = Sub(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 1]) -> (%y) { %y = Mul(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Mul(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Max(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Min(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Equal(%a, %b) }",
    "(%a: T[2, 3], %b: T[2, 3]) -> (%y) { %y = Greater(%a, %b) }",
    "(%x: T[2, 5]) -> (%y) { %y = Softmax(%x) {axis = 1} }",
    "(%x: T[2, 5]) -> (%y) { %y = LogSoftmax(%x) {axis = 1} }",
    "(%a: T[4, 6], %b: T[6, 5]) -> (%y) { %y = MatMul(%a, %b) }",
    "(%a: T[2, 4, 6], %b: T[2, 6, 3]) -> (%y) { %y = MatMul(%a, %b) }",
    "(%a: T[4, 6], %b: T[5, 6], %c: T[5]) -> (%y) { %y = Gemm(%a, %b, %c) {transB = 1} }",
    "(%x: T[1, 3, 6, 6], %w: T[4, 3, 3, 3], %b: T[4]) -> (%y) \
     { %y = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]} }",
    "(%x: T[1, 4, 6, 6], %w: T[4, 1, 3, 3]) -> (%y) \
     { %y = Conv(%x, %w) {group = 4, strides = [2, 2]} }",
    "(%x: T[1, 2, 6, 6]) -> (%y) { %y = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]} }",
    "(%x: T[1, 2, 6, 6]) -> (%y) { %y = AveragePool(%x) {kernel_shape = [3, 3]} }",
    "(%x: T[1, 2, 6, 6]) -> (%y) { %y = GlobalAveragePool(%x) }",
    "(%x: T[2, 6], %s: T[6], %b: T[6]) -> (%y) { %y = LayerNormalization(%x, %s, %b) }",
    "(%x: T[2, 3, 4]) -> (%y) { %y = Transpose(%x) {perm = [2, 0, 1]} }",
    "(%a: T[2, 3], %b: T[2, 2]) -> (%y) { %y = Concat(%a, %b) {axis = 1} }",
    "(%x: T[4, 3], %i: i64[2]) -> (%y) { %y = Gather(%x, %i) {axis = 0} }",
];

/// The sampled types: those that most backends support, and some that few do.
const TYPES: [&str; 5] = ["f32", "f64", "f16", "i32", "i8"];

/// A node with values of its inputs.
pub(crate) struct Sample {
    /// Its name, such as `Add of f32`.
    pub name: String,
    pub node: Node,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<TensorType>,
}

impl Sample {
    /// Whether the backend supports it with constant inputs.
    pub fn is_supported(&self, backend: &dyn Backend) -> bool {
        self.with_view(backend, backend_supports)
    }

    /// Calls `query` with the view of the node in support queries.
    pub fn with_view<R>(
        &self,
        backend: &dyn Backend,
        query: impl FnOnce(&dyn Backend, &NodeView<'_>) -> R,
    ) -> R {
        let inputs: Vec<_> = self.inputs.iter().map(|input| Some(input.ty())).collect();
        let constants: Vec<_> = self.inputs.iter().map(Some).collect();
        let outputs: Vec<_> = self.outputs.iter().map(Some).collect();
        let view = NodeView {
            op: self.node.op,
            attributes: &self.node.attributes,
            inputs: &inputs,
            constants: &constants,
            outputs: &outputs,
            ranges: None,
        };
        query(backend, &view)
    }

    /// The inputs as operands.
    pub fn operands(&self) -> Vec<Option<&Tensor>> {
        self.inputs.iter().map(Some).collect()
    }

    /// The specification of a workload; the inputs are constants or variable.
    pub fn spec(&self, constant: bool) -> WorkloadSpec {
        let inputs = self.inputs.iter().map(|input| {
            Some(InputSpec {
                ty: input.ty().clone(),
                constant: constant.then(|| input.clone()),
                prepared: None,
            })
        });
        WorkloadSpec {
            op: self.node.op,
            attributes: self.node.attributes.clone(),
            inputs: inputs.collect(),
            outputs: self.output_types(),
            ranges: None,
        }
    }

    /// Ranges of all extents, from 1 to twice that of the sample.
    pub fn ranges(&self) -> NodeRanges {
        let operand = |ty: &TensorType| {
            let extents = ty.shape().iter().map(|&extent| ExtentRange {
                min: 1,
                max: 2 * extent as u64,
            });
            Some(OperandRanges {
                extents: extents.collect(),
                elements_vary: false,
            })
        };
        NodeRanges {
            inputs: self
                .inputs
                .iter()
                .map(|input| operand(input.ty()))
                .collect(),
            outputs: self.outputs.iter().map(operand).collect(),
        }
    }

    /// The types of the outputs.
    pub fn output_types(&self) -> Vec<Option<TensorType>> {
        self.outputs.iter().cloned().map(Some).collect()
    }
}

fn backend_supports(backend: &dyn Backend, view: &NodeView<'_>) -> bool {
    backend.supports(view).is_ok()
}

/// All samples whose types the operator table allows.
pub(crate) fn samples() -> Vec<Sample> {
    let texts = NODES
        .iter()
        .flat_map(|text| TYPES.iter().map(move |ty| (text, ty)));
    texts
        .filter_map(|(text, ty)| sample(&text.replace("T[", &format!("{ty}[")), ty).ok())
        .collect()
}

/// The sample of a graph; an error if the operator does not support the type.
fn sample(text: &str, dtype: &str) -> Result<Sample> {
    let mut graph: Graph = format!("graph \"sample\" {text}")
        .replace("{ %", "{\n%")
        .replace(") }", ")\n}")
        .replace("} }", "}\n}")
        .parse()?;
    graph.infer_types()?;
    tenon_graph::verify(&graph)?;
    let missing = || Error::new(ErrorKind::Internal, "a sample without a node");
    let node = graph.nodes.first().cloned().ok_or_else(missing)?;
    let ty = |id: &tenon_graph::ValueId| graph.value(*id).ty.clone().ok_or_else(missing);
    let inputs = graph.inputs.iter().enumerate();
    let inputs = inputs
        .map(|(index, id)| values(&ty(id)?, index))
        .collect::<Result<Vec<_>>>()?;
    let outputs = node.outputs.iter().flatten().map(ty);
    Ok(Sample {
        name: format!("{} of {dtype}", node.op.name),
        outputs: outputs.collect::<Result<_>>()?,
        node,
        inputs,
    })
}

/// Small values with halves, which no type rounds and no sum overflows; for indices 1, 0, 1...
pub(crate) fn values(ty: &TensorType, seed: usize) -> Result<Tensor> {
    let integers = (0..ty.elements()).map(|index| ((index * 7 + seed * 5 + 3) % 11) as f64 - 5.0);
    let mut bytes = BufferMut::zeroed(ty.bytes())?;
    for (index, number) in integers.enumerate() {
        let half = number / 2.0;
        let element: &[u8] = match ty.dtype() {
            DataType::F32 => &(half as f32).to_le_bytes(),
            DataType::F64 => &half.to_le_bytes(),
            DataType::F16 => &half_bits(half).to_le_bytes(),
            DataType::I32 => &(number as i32).to_le_bytes(),
            DataType::I8 => &(number as i8).to_le_bytes(),
            _ => &(((index + 1) % 2) as i64).to_le_bytes(),
        };
        let at = index * element.len();
        bytes[at..at + element.len()].copy_from_slice(element);
    }
    Tensor::new(ty.clone(), bytes.freeze())
}

/// The f16 bits of a multiple of 0.5 between -3 and 3.
fn half_bits(number: f64) -> u16 {
    let sign = u16::from(number < 0.0) << 15;
    let magnitude = number.abs();
    match magnitude {
        0.0 => sign,
        _ => {
            let exponent = magnitude.log2().floor();
            let fraction = magnitude / exponent.exp2() - 1.0;
            sign | ((exponent as i32 + 15) as u16) << 10 | (fraction * 1024.0) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_graph_is_a_sample_of_f32() {
        for text in NODES {
            let text = text.replace("T[", "f32[");
            sample(&text, "f32").unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert!(samples().len() > NODES.len() * 2);
    }

    #[test]
    fn half_bits_are_those_of_ieee_754() {
        // Values of NumPy: float16(x).view(uint16).
        for (number, bits) in [
            (0.0, 0),
            (0.5, 0x3800),
            (-1.0, 0xbc00),
            (1.5, 0x3e00),
            (-2.5, 0xc100),
        ] {
            assert_eq!(half_bits(number), bits, "{number}");
        }
    }
}
