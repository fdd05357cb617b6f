//! What rules inspect.

use super::Rewriter;
use std::borrow::Cow;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Node, ValueId};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, Shape, Tensor, TensorType, convert};

impl Rewriter<'_> {
    /// The node that produces a value, unless it is an input or a constant.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self.nodes.get(self.position(value)?)?.as_ref()
    }

    /// The producer of input `index` of `node`, if its operator is `op`.
    pub fn producer_of(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        self.producer(value)
            .filter(|producer| producer.op.name == op)
    }

    /// The same producer, if `node` is the only user of its only output.
    pub fn sole_producer_of(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        let producer = self.producer_of(node, index, op)?;
        (self.uses(value) == 1 && producer.outputs.iter().flatten().count() == 1)
            .then_some(producer)
    }

    /// The value of input `index` of `node`.
    pub fn input(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.inputs.get(index).copied().flatten()
    }

    /// Number of uses of a value, the graph's outputs included.
    pub fn uses(&self, value: ValueId) -> u32 {
        self.uses[value.index()]
    }

    /// The elements of a constant.
    pub fn constant(&self, value: Option<ValueId>) -> Option<&Tensor> {
        self.graph.value(value?).constant.as_ref()
    }

    /// The elements of a value that are known for the example sizes: of a constant, or of sizes.
    pub fn known(&self, value: Option<ValueId>) -> Option<&Tensor> {
        self.graph.value(value?).known()
    }

    /// Whether the extent of a dimension, counted from the end, is the same for all sizes.
    pub fn is_fixed(&self, value: ValueId, from_end: usize) -> bool {
        let extents = self.extents(value);
        let extent = extents.and_then(|extents| extents.iter().rev().nth(from_end));
        extent.is_none_or(|extent| extent.constant().is_some())
    }

    /// The extents of a value as expressions, in a graph with symbols.
    pub fn extents(&self, value: ValueId) -> Option<&[SizeExpr]> {
        self.graph.value(value).extents.as_deref()
    }

    /// The type of a value; every value has one after specialising.
    pub fn ty(&self, value: ValueId) -> Result<&TensorType> {
        let value = self.graph.value(value);
        value.ty.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("value '{}' has no type", value.name),
            )
        })
    }

    /// Whether two values have the same type for all sizes.
    pub fn same_type(&self, a: ValueId, b: ValueId) -> Result<bool> {
        // Different expressions may have the same value for the example sizes: a size, and its minimum with another.
        let same = match (self.extents(a), self.extents(b)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        Ok(same && self.ty(a)? == self.ty(b)?)
    }

    /// The shape of a value.
    pub fn shape(&self, value: ValueId) -> Result<&Shape> {
        Ok(self.ty(value)?.shape())
    }

    /// Whether a value's elements are f32, or of a type that backends compute in f32: the types of the fused
    /// operators.
    pub fn is_float(&self, value: ValueId) -> bool {
        let types = [DataType::F32, DataType::F16, DataType::BF16];
        self.ty(value).is_ok_and(|ty| types.contains(&ty.dtype()))
    }

    /// The elements of a constant of a type for which [`Rewriter::is_float`] holds, in f32.
    pub fn floats(&self, value: Option<ValueId>) -> Option<Cow<'_, [f32]>> {
        let tensor = self
            .constant(value)
            .filter(|_| value.is_some_and(|value| self.is_float(value)))?;
        match tensor.as_slice::<f32>() {
            Some(elements) => Some(Cow::Borrowed(elements)),
            None => {
                let tensor = convert(tensor, DataType::F32).ok()?;
                tensor
                    .as_slice::<f32>()
                    .map(|elements| Cow::Owned(elements.to_vec()))
            }
        }
    }

    /// The element of a constant of one element, of a type for which [`Rewriter::is_float`] holds.
    pub fn scalar(&self, value: Option<ValueId>) -> Option<f32> {
        let is_scalar = self.constant(value)?.ty().elements() == 1;
        is_scalar
            .then(|| self.floats(value)?.first().copied())
            .flatten()
    }

    /// For a node with two inputs of which one is a constant of one element: the other input, and
    /// that element.
    pub fn scalar_operand(&self, node: &Node) -> Option<(ValueId, f32)> {
        match node.inputs.as_slice() {
            &[Some(a), Some(b)] => {
                let left = self.scalar(Some(a)).map(|element| (b, element));
                self.scalar(Some(b)).map(|element| (a, element)).or(left)
            }
            _ => None,
        }
    }
}
