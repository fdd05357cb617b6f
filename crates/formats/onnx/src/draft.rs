//! The draft of a graph during import: final values, nodes with their ONNX operators.

use crate::dtype::data_type;
use crate::signature::Dimension;
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Graph, ValueId, operator};
use tenon_tensor::{DataType, Tensor};

/// A graph whose nodes do not have their operator definitions yet.
#[derive(Default)]
pub(crate) struct Draft {
    /// Values, inputs, outputs, metadata; its nodes are added at the end.
    pub graph: Graph,
    /// Nodes in execution order, in the newest form.
    pub nodes: Vec<DraftNode>,
    /// The bodies of nodes of control flow.
    pub bodies: Vec<DraftBody>,
    infos: Vec<ValueInfo>,
    pub value_names: UsedNames,
    pub node_names: UsedNames,
    /// The dimensions of inputs and outputs of the model, as declared; those with a given extent have it.
    pub declared: HashMap<String, Vec<Dimension>>,
    /// The number of channels in a block of onnxruntime's layout for convolutions.
    pub channel_block: usize,
}

/// The body of a node of control flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftBody {
    pub nodes: Vec<DraftNode>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
}

/// The domain of the nodes of control flow in a draft.
pub(crate) const CONTROL: &str = "tenon.control";

/// An operator applied to values, by name.
#[derive(Debug, Clone)]
pub(crate) struct DraftNode {
    pub name: String,
    /// The node of the model from which it is derived.
    pub origin: Rc<Origin>,
    /// The operator's domain, empty for ONNX's and Tenon's.
    pub domain: String,
    pub operator: String,
    /// The version of the operator set.
    pub version: i64,
    pub attributes: Attributes,
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<Option<ValueId>>,
}

/// A node of the model, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub operator: String,
    pub version: i64,
    pub node: String,
}

/// The declared type of a value, before shape inference.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueInfo {
    pub dtype: Option<DataType>,
    pub rank: Option<usize>,
}

impl Draft {
    /// An empty draft of a graph.
    pub fn new(name: &str) -> Self {
        Self {
            graph: Graph::new(name),
            ..Self::default()
        }
    }

    /// Adds a value; `name` must be unique.
    pub fn add_value(&mut self, name: String, info: ValueInfo) -> ValueId {
        self.infos.push(info);
        self.graph.add_value(name, None)
    }

    /// Adds a constant; `name` must be unique.
    pub fn add_constant(&mut self, name: String, tensor: Tensor) -> ValueId {
        let (dtype, rank) = (Some(tensor.dtype()), Some(tensor.shape().len()));
        self.infos.push(ValueInfo { dtype, rank });
        self.graph.add_constant(name, tensor)
    }

    /// The declared type of a value.
    pub fn info(&self, value: ValueId) -> ValueInfo {
        self.infos.get(value.index()).copied().unwrap_or_default()
    }

    /// A declared dimension of an input or output of the model.
    pub fn declared(&self, value: ValueId, axis: usize) -> Option<&Dimension> {
        self.declared.get(&self.graph.value(value).name)?.get(axis)
    }

    /// The elements of a value, when it is a constant.
    pub fn constant(&self, value: Option<ValueId>) -> Option<&Tensor> {
        self.graph.value(value?).constant.as_ref()
    }

    /// Appends a node in its newest form.
    pub fn emit(&mut self, node: DraftNode) {
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(output) = output else { continue };
            let dtype = self.output_dtype(&node, index);
            if let Some(known) = self.infos.get_mut(output.index()) {
                known.dtype = known.dtype.or(dtype);
            }
        }
        self.nodes.push(node);
    }

    /// Adds a constant for the newest form of `node`.
    pub fn constant_for(&mut self, node: &DraftNode, what: &str, tensor: Tensor) -> ValueId {
        let name = self.value_names.unique(&format!("{}/{what}", node.name));
        self.add_constant(name, tensor)
    }

    /// Adds a constant of integers as an input of the newest form of `node`.
    pub fn ints_for(&mut self, node: &DraftNode, what: &str, ints: &[i64]) -> Result<ValueId> {
        Ok(self.constant_for(node, what, Tensor::from_slice([ints.len()], ints)?))
    }

    /// Appends a node of the newest form of `node`, and returns its only output.
    pub fn step(
        &mut self,
        node: &DraftNode,
        operator: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> ValueId {
        let [output] = self.step_outputs(node, operator, attributes, inputs);
        output
    }

    /// Appends a node of the newest form of `node`, and returns its outputs.
    pub fn step_outputs<const N: usize>(
        &mut self,
        node: &DraftNode,
        operator: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> [ValueId; N] {
        let stem = format!("{}/{operator}", node.name);
        let outputs = std::array::from_fn(|_| {
            let name = self.value_names.unique(&stem);
            self.add_value(name, ValueInfo::default())
        });
        self.emit_step(node, operator, attributes, inputs, &outputs);
        outputs
    }

    /// Appends a node of the newest form of `node` with this output.
    pub fn step_into(
        &mut self,
        node: &DraftNode,
        operator: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
        output: ValueId,
    ) {
        self.emit_step(node, operator, attributes, inputs, &[output]);
    }

    fn emit_step(
        &mut self,
        node: &DraftNode,
        operator: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
        outputs: &[ValueId],
    ) {
        let name = self.node_names.unique(&format!("{}/{operator}", node.name));
        self.emit(DraftNode {
            name,
            origin: node.origin.clone(),
            domain: String::new(),
            operator: operator.into(),
            version: crate::upgrade::NEWEST,
            attributes,
            inputs: inputs.to_vec(),
            outputs: outputs.iter().copied().map(Some).collect(),
        });
    }

    /// The element type of an output, if the inputs determine it.
    fn output_dtype(&self, node: &DraftNode, output: usize) -> Option<DataType> {
        let input = |index: usize| self.info(node.inputs.get(index).copied().flatten()?).dtype;
        let named = |name: &str| match node.attributes.value(name)? {
            Attribute::Int(number) => data_type(*number).ok(),
            Attribute::String(name) => name.parse().ok(),
            _ => None,
        };
        match (node.operator.as_str(), output) {
            ("SequenceLength", _) => Some(DataType::I64),
            ("OptionalHasElement" | "RegexFullMatch", _) => Some(DataType::Bool),
            ("Shape" | "Size" | "NonZero" | "ArgMax" | "ArgMin" | "NonMaxSuppression", _)
            | ("TopK" | "MaxPool" | "Unique", 1..) => Some(DataType::I64),
            ("Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual", _)
            | ("And" | "Or" | "Xor" | "Not" | "IsNaN" | "IsInf", _)
            | ("Dropout", 1..) => Some(DataType::Bool),
            ("Cast" | "BitCast", _) => named("to"),
            ("CastLike" | "Where", _) => input(1),
            ("OneHot" | "tenon.LookUp", _) => input(2),
            ("ConstantOfShape", _) => match node.attributes.value("value") {
                Some(Attribute::Tensor(tensor)) => Some(tensor.dtype()),
                _ => Some(DataType::F32),
            },
            ("EyeLike" | "RandomNormalLike" | "RandomUniformLike" | "Bernoulli", _) => {
                named("dtype").or(input(0))
            }
            ("RandomNormal" | "RandomUniform", _) => named("dtype").or(Some(DataType::F32)),
            ("HannWindow" | "HammingWindow" | "BlackmanWindow" | "MelWeightMatrix", _) => {
                named("output_datatype").or(Some(DataType::F32))
            }
            ("Multinomial", _) => named("dtype").or(Some(DataType::I32)),
            ("QuantizeLinear", _) => input(2).or(named("output_dtype")).or(Some(DataType::U8)),
            ("DequantizeLinear", _) => named("output_dtype").or(input(1)),
            ("DynamicQuantizeLinear", 0 | 2) => Some(DataType::U8),
            ("DynamicQuantizeLinear", _) => Some(DataType::F32),
            ("MatMulInteger" | "ConvInteger", _) => Some(DataType::I32),
            ("QLinearConv" | "QLinearMatMul", _) => input(7),
            ("ImageDecoder", _) => Some(DataType::U8),
            // Further outputs often have another type.
            (name, 0) if operator::operator(name).is_some() => input(0),
            _ => None,
        }
    }
}

/// Names in use.
#[derive(Default)]
pub(crate) struct UsedNames(HashMap<String, u32>);

impl UsedNames {
    /// Reserves `name`; false when it is in use.
    pub fn reserve(&mut self, name: &str) -> bool {
        if self.0.contains_key(name) {
            return false;
        }
        self.0.insert(name.to_owned(), 0);
        true
    }

    /// Reserves `stem`, or when it is in use, `stem.1`, `stem.2`…
    pub fn unique(&mut self, stem: &str) -> String {
        if self.reserve(stem) {
            return stem.to_owned();
        }
        loop {
            // The counter is stored with the name: many equal names take linear time.
            let count = self.0.entry(stem.to_owned()).or_default();
            *count = count.saturating_add(1);
            let name = format!("{stem}.{count}");
            if self.reserve(&name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = UsedNames::default();
        assert!(names.reserve("a.1"));
        assert_eq!(names.unique("a"), "a");
        assert_eq!(names.unique("a"), "a.2");
        assert_eq!(names.unique("a"), "a.3");
        assert_eq!(names.unique("a.1"), "a.1.1");
    }
}
