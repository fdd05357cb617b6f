//! The graph of a case while it is made.

use super::case::{Given, LayerCase};
use std::collections::BTreeMap;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, Graph, Node, ValueId};
use tenon_tensor::{DataType, Tensor, convert};

/// What a layer's translation answers: what it made, or why it cannot.
pub(super) type Made = Result<Flow, String>;

/// A value on its way to the output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flow {
    /// Elements as they are stored: integers that stand for other numbers where quantised.
    Stored(ValueId),
    /// The numbers themselves.
    Numbers(ValueId),
}

/// Attributes in a list.
pub(super) type List<'a> = &'a [(&'a str, Attribute)];

/// A list of integers as an attribute.
pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Attribute {
    Attribute::Ints(values.into_iter().collect())
}

/// A text as an attribute.
pub(super) fn text(value: &str) -> Attribute {
    Attribute::String(value.into())
}

/// A graph for one case, with what goes in.
pub(super) struct Build<'a> {
    pub(super) case: &'a LayerCase,
    graph: Graph,
    inputs: BTreeMap<String, Tensor>,
}

impl<'a> Build<'a> {
    pub(super) fn new(case: &'a LayerCase) -> Self {
        Self {
            case,
            graph: Graph::new(&case.name),
            inputs: BTreeMap::new(),
        }
    }

    /// Input `index` of the case.
    pub(super) fn given(&self, index: usize) -> Result<&'a Given, String> {
        let given = self.case.inputs.get(index);
        given.ok_or_else(|| format!("input {index} is missing"))
    }

    /// Its rank.
    pub(super) fn rank(&self, index: usize) -> Result<usize, String> {
        Ok(self.given(index)?.shape().len())
    }

    /// Input `index` as it is stored, as an input of the graph.
    pub(super) fn stored(&mut self, index: usize) -> Result<ValueId, String> {
        let given = self.given(index)?;
        let name = format!("input{index}");
        let id = self.graph.add_input(&name, given.tensor.ty().clone());
        self.inputs.insert(name, given.tensor.clone());
        Ok(id)
    }

    /// The numbers of input `index`.
    pub(super) fn numbers(&mut self, index: usize) -> Result<ValueId, String> {
        let (stored, given) = (self.stored(index)?, self.given(index)?);
        match given.kind.is_quantised() {
            true => self.dequantised(stored, given),
            false => Ok(stored),
        }
    }

    /// The numbers of a tensor that is known when compiling, such as weights.
    pub(super) fn known(&mut self, given: &Given) -> Result<ValueId, String> {
        let stored = self.constant(given.tensor.clone());
        match given.kind.is_quantised() {
            true => self.dequantised(stored, given),
            false => Ok(stored),
        }
    }

    /// The same of what is added to products: wide integers with a scale, where those of input 0
    /// are quantised.
    pub(super) fn bias(&mut self, given: &Given) -> Result<ValueId, String> {
        let stored = self.constant(given.tensor.clone());
        match self.given(0)?.kind.is_quantised() {
            true => self.dequantised(stored, given),
            false => Ok(stored),
        }
    }

    /// Input `index` for a layer that moves elements: as stored, when that is what the output
    /// wants, else its numbers.
    pub(super) fn moved(&mut self, index: usize) -> Result<Flow, String> {
        if self.given(index)?.means_the_same(&self.case.output) {
            self.stored(index).map(Flow::Stored)
        } else {
            self.numbers(index).map(Flow::Numbers)
        }
    }

    /// A constant.
    pub(super) fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant{}", self.graph.values.len());
        self.graph.add_constant(name, tensor)
    }

    /// A list of integers.
    pub(super) fn list(&mut self, values: &[i64]) -> Result<ValueId, String> {
        let tensor = Tensor::from_slice([values.len()], values);
        Ok(self.constant(tensor.map_err(|error| error.to_string())?))
    }

    /// A number of the type that the layer computes in.
    pub(super) fn number(&mut self, value: f32) -> Result<ValueId, String> {
        self.number_of(self.computes_in(), value)
    }

    /// A number of a type.
    pub(super) fn number_of(&mut self, dtype: DataType, value: f32) -> Result<ValueId, String> {
        let scalar = Tensor::scalar(value).and_then(|scalar| convert(&scalar, dtype));
        Ok(self.constant(scalar.map_err(|error| error.to_string())?))
    }

    /// One image of ones with one channel and the planes of input 0, as a constant.
    pub(super) fn ones_of_planes(&mut self) -> Result<ValueId, String> {
        let shape = self.given(0)?.shape();
        let planes = match self.case.channels_last()? {
            true => &shape[1..shape.len() - 1],
            false => &shape[2..],
        };
        let shape = [&[1, 1], planes].concat();
        let ones = vec![1f32; shape.iter().product()];
        let ones =
            Tensor::from_slice(shape, &ones).and_then(|ones| convert(&ones, self.computes_in()));
        Ok(self.constant(ones.map_err(|error| error.to_string())?))
    }

    /// An empty list of numbers, which stands for an input that is left out.
    pub(super) fn no_numbers(&mut self) -> Result<ValueId, String> {
        let empty = Tensor::from_slice::<f32>([0], &[]);
        Ok(self.constant(empty.map_err(|error| error.to_string())?))
    }

    /// The element type of the numbers of input 0.
    pub(super) fn computes_in(&self) -> DataType {
        match self.case.inputs.first() {
            Some(given) if !given.kind.is_quantised() => given.kind.storage(),
            _ => DataType::F32,
        }
    }

    /// A node with one output.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: List<'_>,
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

    /// The elements as another type.
    pub(super) fn cast(&mut self, value: ValueId, to: DataType) -> Result<ValueId, String> {
        self.node("Cast", &[value], &[("to", text(to.name()))])
    }

    /// The dimensions in another order.
    pub(super) fn transposed(&mut self, value: ValueId, order: &[i64]) -> Result<ValueId, String> {
        let order = ints(order.iter().copied());
        self.node("Transpose", &[value], &[("perm", order)])
    }

    /// The same elements in another shape.
    pub(super) fn reshaped(&mut self, value: ValueId, shape: &[i64]) -> Result<ValueId, String> {
        let shape = self.list(shape)?;
        self.node("Reshape", &[value, shape], &[])
    }

    /// Channels brought from the last dimension to the second, when they stand there.
    pub(super) fn channels_second(
        &mut self,
        value: ValueId,
        rank: usize,
    ) -> Result<ValueId, String> {
        match self.case.channels_last()? {
            false => Ok(value),
            true => self.transposed(value, &last_to_second(rank)),
        }
    }

    /// Channels brought back to where the case has them.
    pub(super) fn as_laid_out(&mut self, value: ValueId, rank: usize) -> Result<ValueId, String> {
        match self.case.channels_last()? {
            false => Ok(value),
            true => self.transposed(value, &second_to_last(rank)),
        }
    }

    /// (integers - offset) scale, in f32.
    fn dequantised(&mut self, stored: ValueId, given: &Given) -> Result<ValueId, String> {
        let scales = Tensor::from_slice([given.scales.len()], &given.scales);
        let mut scales = scales.map_err(|error| error.to_string())?;
        let mut axis = vec![("axis", Attribute::Int(given.axis as i64))];
        if given.scales.len() == 1 {
            scales = scales.reshaped([]).map_err(|error| error.to_string())?;
            axis.clear();
        }
        let scales = self.constant(scales);
        if given.offset == 0 {
            return self.node("DequantizeLinear", &[stored, scales], &axis);
        }
        if let Some(zero) = self.zero_point(given)? {
            return self.node("DequantizeLinear", &[stored, scales, zero], &axis);
        }
        // An offset beyond the range of the type: ONNX's operator cannot say it.
        let wide = self.cast(stored, DataType::F32)?;
        let zero = self.number(given.offset as f32)?;
        let moved = self.node("Sub", &[wide, zero], &[])?;
        self.node("Mul", &[moved, scales], &[])
    }

    /// The offset as a scalar of the integers' type, when it is in its range.
    fn zero_point(&mut self, given: &Given) -> Result<Option<ValueId>, String> {
        let scalar = match given.kind.storage() {
            DataType::U8 => u8::try_from(given.offset).ok().map(Tensor::scalar),
            DataType::I8 => i8::try_from(given.offset).ok().map(Tensor::scalar),
            DataType::I16 => i16::try_from(given.offset).ok().map(Tensor::scalar),
            _ => None,
        };
        let scalar = scalar.transpose().map_err(|error| error.to_string())?;
        Ok(scalar.map(|scalar| self.constant(scalar)))
    }

    /// Integers that stand for `numbers` in the output.
    fn quantised(&mut self, numbers: ValueId) -> Result<ValueId, String> {
        let output = &self.case.output;
        let scale = output.scales.first().copied().unwrap_or(1.0);
        let scale = Tensor::scalar(scale).map_err(|error| error.to_string())?;
        let scale = self.constant(scale);
        if let Some(zero) = self.zero_point(output)? {
            return self.node("QuantizeLinear", &[numbers, scale, zero], &[]);
        }
        let steps = self.node("Div", &[numbers, scale], &[])?;
        let zero = self.number(output.offset as f32)?;
        let moved = self.node("Add", &[steps, zero], &[])?;
        let whole = self.node("Round", &[moved], &[])?;
        // A cast from floating point holds numbers in the range of the integers.
        self.cast(whole, output.kind.storage())
    }

    /// The graph, and what goes in.
    pub(super) fn finish(
        mut self,
        made: Flow,
    ) -> Result<(Graph, BTreeMap<String, Tensor>), String> {
        let made = match made {
            Flow::Numbers(value) if self.case.output.kind.is_quantised() => {
                self.quantised(value)?
            }
            Flow::Stored(value) | Flow::Numbers(value) => value,
        };
        self.graph.outputs.push(made);
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
