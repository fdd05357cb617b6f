//! The graph of a case under construction.

use super::case::{CaseTensor, LayerCase};
use std::collections::BTreeMap;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, Graph, Node, ValueId};
use tenon_tensor::{DataType, Tensor, convert};

/// The output of a translated layer; the error is the reason why it cannot be translated.
pub(super) type LayerResult = Result<LayerValue, String>;

/// The output of a layer, or an input that is moved to it.
#[derive(Debug, Clone, Copy)]
pub(super) enum LayerValue {
    /// The stored elements: integers if quantised.
    Stored(ValueId),
    /// The real values, dequantised.
    Real(ValueId),
}

/// The attributes of a node.
pub(super) type AttributeList<'a> = &'a [(&'a str, Attribute)];

/// A list of integers as an attribute.
pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Attribute {
    Attribute::Ints(values.into_iter().collect())
}

/// A string as an attribute.
pub(super) fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

/// The graph of one case and its inputs.
pub(super) struct GraphBuilder<'a> {
    pub(super) case: &'a LayerCase,
    graph: Graph,
    inputs: BTreeMap<String, Tensor>,
}

impl<'a> GraphBuilder<'a> {
    pub(super) fn new(case: &'a LayerCase) -> Self {
        Self {
            case,
            graph: Graph::new(&case.name),
            inputs: BTreeMap::new(),
        }
    }

    /// Input `index` of the case.
    pub(super) fn input(&self, index: usize) -> Result<&'a CaseTensor, String> {
        let tensor = self.case.inputs.get(index);
        tensor.ok_or_else(|| format!("input {index} is missing"))
    }

    /// Its rank.
    pub(super) fn rank(&self, index: usize) -> Result<usize, String> {
        Ok(self.input(index)?.shape().len())
    }

    /// Adds input `index`, with its stored elements, to the inputs of the graph.
    pub(super) fn stored_input(&mut self, index: usize) -> Result<ValueId, String> {
        let tensor = self.input(index)?;
        let name = format!("input{index}");
        let id = self.graph.add_input(&name, tensor.elements.ty().clone());
        self.inputs.insert(name, tensor.elements.clone());
        Ok(id)
    }

    /// The real values of input `index`.
    pub(super) fn real_input(&mut self, index: usize) -> Result<ValueId, String> {
        let (stored, tensor) = (self.stored_input(index)?, self.input(index)?);
        self.real(stored, tensor, tensor.kind.is_quantised())
    }

    /// The real values of a constant tensor, such as weights.
    pub(super) fn real_constant(&mut self, tensor: &CaseTensor) -> Result<ValueId, String> {
        let stored = self.constant(tensor.elements.clone());
        self.real(stored, tensor, tensor.kind.is_quantised())
    }

    /// The real values of a bias: its integers have a scale if input 0 is quantised.
    pub(super) fn bias_constant(&mut self, tensor: &CaseTensor) -> Result<ValueId, String> {
        let stored = self.constant(tensor.elements.clone());
        self.real(stored, tensor, self.input(0)?.kind.is_quantised())
    }

    /// The real values of a tensor whose elements are in the graph.
    fn real(
        &mut self,
        stored: ValueId,
        tensor: &CaseTensor,
        is_quantised: bool,
    ) -> Result<ValueId, String> {
        if is_quantised {
            self.dequantise(stored, tensor)
        } else {
            Ok(stored)
        }
    }

    /// Input `index` for a layer that moves elements: stored elements if the output has the same
    /// encoding, otherwise real values.
    pub(super) fn movable_input(&mut self, index: usize) -> Result<LayerValue, String> {
        if self.input(index)?.has_same_encoding(&self.case.output) {
            self.stored_input(index).map(LayerValue::Stored)
        } else {
            self.real_input(index).map(LayerValue::Real)
        }
    }

    /// A constant.
    pub(super) fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant{}", self.graph.values.len());
        self.graph.add_constant(name, tensor)
    }

    /// A constant list of integers.
    pub(super) fn int_list(&mut self, values: &[i64]) -> Result<ValueId, String> {
        let tensor = Tensor::from_slice([values.len()], values);
        Ok(self.constant(tensor.map_err(|error| error.to_string())?))
    }

    /// A scalar constant of the type that the layer computes in.
    pub(super) fn scalar(&mut self, value: f32) -> Result<ValueId, String> {
        self.scalar_of(self.compute_type(), value)
    }

    /// A scalar constant of a type.
    pub(super) fn scalar_of(&mut self, dtype: DataType, value: f32) -> Result<ValueId, String> {
        let scalar = Tensor::scalar(value).and_then(|scalar| convert(&scalar, dtype));
        Ok(self.constant(scalar.map_err(|error| error.to_string())?))
    }

    /// A constant image of ones with one channel and the height and width of input 0.
    pub(super) fn ones_like_planes(&mut self) -> Result<ValueId, String> {
        let shape = self.input(0)?.shape();
        let planes = if self.case.channels_last()? {
            &shape[1..shape.len() - 1]
        } else {
            &shape[2..]
        };
        let shape = [&[1, 1], planes].concat();
        let ones = vec![1f32; shape.iter().product()];
        let ones =
            Tensor::from_slice(shape, &ones).and_then(|ones| convert(&ones, self.compute_type()));
        Ok(self.constant(ones.map_err(|error| error.to_string())?))
    }

    /// An empty list, for an omitted input.
    pub(super) fn empty_list(&mut self) -> Result<ValueId, String> {
        let empty = Tensor::from_slice::<f32>([0], &[]);
        Ok(self.constant(empty.map_err(|error| error.to_string())?))
    }

    /// The element type of the real values of input 0.
    pub(super) fn compute_type(&self) -> DataType {
        match self.case.inputs.first() {
            Some(tensor) if !tensor.kind.is_quantised() => tensor.kind.storage(),
            _ => DataType::F32,
        }
    }

    /// A node with one output.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: AttributeList<'_>,
    ) -> Result<ValueId, String> {
        let op = operator(op).ok_or_else(|| format!("there is no operator {op}"))?;
        let output = self.graph.values.len();
        let output = self.graph.add_value(format!("value{output}"), None);
        let attributes = attributes.iter().cloned();
        self.graph.add_node(Node {
            name: format!("{}{}", op.name, self.graph.nodes.len()),
            op,
            attributes: attributes
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Attributes>(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
        });
        Ok(output)
    }

    /// Casts the elements to another type.
    pub(super) fn cast(&mut self, value: ValueId, to: DataType) -> Result<ValueId, String> {
        self.node("Cast", &[value], &[("to", text(to.name()))])
    }

    /// Permutes the dimensions.
    pub(super) fn transpose(&mut self, value: ValueId, order: &[i64]) -> Result<ValueId, String> {
        let order = ints(order.iter().copied());
        self.node("Transpose", &[value], &[("perm", order)])
    }

    /// Changes the shape.
    pub(super) fn reshape(&mut self, value: ValueId, shape: &[i64]) -> Result<ValueId, String> {
        let shape = self.int_list(shape)?;
        self.node("Reshape", &[value, shape], &[])
    }

    /// Moves channels from the last dimension, if the case has them there, to the second.
    pub(super) fn with_channels_first(
        &mut self,
        value: ValueId,
        rank: usize,
    ) -> Result<ValueId, String> {
        if self.case.channels_last()? {
            self.transpose(value, &last_to_second(rank))
        } else {
            Ok(value)
        }
    }

    /// Moves channels from the second dimension to that of the case.
    pub(super) fn in_case_layout(
        &mut self,
        value: ValueId,
        rank: usize,
    ) -> Result<ValueId, String> {
        if self.case.channels_last()? {
            self.transpose(value, &second_to_last(rank))
        } else {
            Ok(value)
        }
    }

    /// (integers - offset) scale, in f32.
    fn dequantise(&mut self, stored: ValueId, tensor: &CaseTensor) -> Result<ValueId, String> {
        let scales = Tensor::from_slice([tensor.scales.len()], &tensor.scales);
        let mut scales = scales.map_err(|error| error.to_string())?;
        let mut axis = vec![("axis", Attribute::Int(tensor.axis as i64))];
        if tensor.scales.len() == 1 {
            scales = scales.reshaped([]).map_err(|error| error.to_string())?;
            axis.clear();
        }
        let scales = self.constant(scales);
        if tensor.offset == 0 {
            return self.node("DequantizeLinear", &[stored, scales], &axis);
        }
        if let Some(zero) = self.zero_point(tensor)? {
            return self.node("DequantizeLinear", &[stored, scales, zero], &axis);
        }
        // ONNX's operator has no offset beyond the range of the type.
        let wide = self.cast(stored, DataType::F32)?;
        let zero = self.scalar(tensor.offset as f32)?;
        let centred = self.node("Sub", &[wide, zero], &[])?;
        self.node("Mul", &[centred, scales], &[])
    }

    /// The offset as a scalar of the integer type, if it is in its range.
    fn zero_point(&mut self, tensor: &CaseTensor) -> Result<Option<ValueId>, String> {
        let scalar = match tensor.kind.storage() {
            DataType::U8 => u8::try_from(tensor.offset).ok().map(Tensor::scalar),
            DataType::I8 => i8::try_from(tensor.offset).ok().map(Tensor::scalar),
            DataType::I16 => i16::try_from(tensor.offset).ok().map(Tensor::scalar),
            _ => None,
        };
        let scalar = scalar.transpose().map_err(|error| error.to_string())?;
        Ok(scalar.map(|scalar| self.constant(scalar)))
    }

    /// Quantises real values to the output's type.
    fn quantise(&mut self, values: ValueId) -> Result<ValueId, String> {
        let output = &self.case.output;
        let scale = output.scales.first().copied().unwrap_or(1.0);
        let scale = Tensor::scalar(scale).map_err(|error| error.to_string())?;
        let scale = self.constant(scale);
        if let Some(zero) = self.zero_point(output)? {
            return self.node("QuantizeLinear", &[values, scale, zero], &[]);
        }
        let steps = self.node("Div", &[values, scale], &[])?;
        let zero = self.scalar(output.offset as f32)?;
        let shifted = self.node("Add", &[steps, zero], &[])?;
        let rounded = self.node("Round", &[shifted], &[])?;
        // A cast from floating point saturates.
        self.cast(rounded, output.kind.storage())
    }

    /// Adds the output; returns the graph and its inputs.
    pub(super) fn finish(
        mut self,
        output: LayerValue,
    ) -> Result<(Graph, BTreeMap<String, Tensor>), String> {
        let output = match output {
            LayerValue::Real(value) if self.case.output.kind.is_quantised() => {
                self.quantise(value)?
            }
            LayerValue::Stored(value) | LayerValue::Real(value) => value,
        };
        self.graph.outputs.push(output);
        Ok((self.graph, self.inputs))
    }
}

/// `[0, 3, 1, 2]` for four dimensions.
fn last_to_second(rank: usize) -> Vec<i64> {
    let last = rank as i64 - 1;
    [0, last].into_iter().chain(1..last).collect()
}

/// `[0, 2, 3, 1]` for four dimensions.
fn second_to_last(rank: usize) -> Vec<i64> {
    let rank = rank as i64;
    [0].into_iter().chain(2..rank).chain([1]).collect()
}
