//! What rules emit.

use super::{CachedAssignment, Rewriter, operator_of, perm_attributes};
use crate::infer::infer_node;
use crate::specialise::set_sizes;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, Node, SizeElements, ValueId, extents_of_example};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, Shape, Tensor, convert};

impl Rewriter<'_> {
    /// Adds a constant with a unique name derived from `base`.
    pub fn add_constant(&mut self, base: &str, tensor: Tensor) -> ValueId {
        let name = self.names.value(base);
        let id = self.graph.add_constant(name, tensor);
        self.grow();
        id
    }

    /// A constant of `elements`, rounded to the element type of `like`; `None` where a finite element is infinite in
    /// that type.
    pub fn add_floats(
        &mut self,
        base: &str,
        shape: impl Into<Shape>,
        elements: &[f32],
        like: ValueId,
    ) -> Result<Option<ValueId>> {
        let wide = Tensor::from_slice(shape, elements)?;
        let dtype = self.ty(like)?.dtype();
        if dtype == DataType::F32 {
            return Ok(Some(self.add_constant(base, wide)));
        }
        let tensor = convert(&wide, dtype)?;
        let rounded = convert(&tensor, DataType::F32)?;
        let rounded = rounded.as_slice::<f32>().unwrap_or_default();
        let overflows = |(from, to): (&f32, &f32)| from.is_finite() && !to.is_finite();
        if elements.iter().zip(rounded).any(overflows) {
            return Ok(None);
        }
        Ok(Some(self.add_constant(base, tensor)))
    }

    /// Adds a node before the visited one and returns its only output.
    pub fn emit(
        &mut self,
        base: &str,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> Result<ValueId> {
        let name = self.names.node(base);
        let outputs = self.emit_as(name, op, attributes, inputs, 1)?;
        outputs
            .first()
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no output"))
    }

    /// Adds a node before `node` with its name and number of outputs; `node` is renamed to
    /// `NAME.suffix`.
    pub fn emit_for(
        &mut self,
        node: &mut Node,
        suffix: &str,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> Result<Vec<ValueId>> {
        let renamed = self.names.node(&format!("{}.{suffix}", node.name));
        let name = std::mem::replace(&mut node.name, renamed);
        self.emit_as(name, op, attributes, inputs, node.outputs.len())
    }

    fn emit_as(
        &mut self,
        name: String,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
        outputs: usize,
    ) -> Result<Vec<ValueId>> {
        let mut node = Node {
            name,
            op: operator_of(op)?,
            attributes,
            inputs: inputs.to_vec(),
            outputs: Vec::new(),
        };
        let types = infer_node(self.graph, &node, outputs)?;
        for ty in types.iter().take(outputs) {
            let name = self.names.value(&node.name);
            let value = self.graph.add_value(name, Some(ty.clone()));
            node.outputs.push(Some(value));
        }
        if !self.graph.symbols.is_empty() {
            set_sizes(self.graph, &node, &types)?;
        }
        self.grow();
        for value in inputs.iter().flatten() {
            self.uses[value.index()] += 1;
        }
        let outputs = node.outputs.iter().flatten().copied().collect();
        self.push(node, CachedAssignment::new());
        self.changed = true;
        Ok(outputs)
    }

    /// The shape of a Reshape, whose extents derive from those of `values`: a constant, or sizes if one is
    /// symbolic. With it the attributes.
    fn target_shape(
        &mut self,
        base: &str,
        values: &[ValueId],
        shape: &[usize],
    ) -> Result<(ValueId, Attributes)> {
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let tensor = Tensor::from_slice([extents.len()], &extents)?;
        let base = format!("{base}.shape");
        let expressions = match self.graph.symbols.is_empty() {
            true => None,
            false => Some(extents_of_example(self.graph, values, shape)?),
        };
        let is_fixed = |extents: &Vec<SizeExpr>| extents.iter().all(|it| it.constant().is_some());
        let attributes = reshape_attributes(shape, expressions.as_deref());
        let Some(expressions) = expressions.filter(|extents| !is_fixed(extents)) else {
            return Ok((self.add_constant(&base, tensor), attributes));
        };
        let name = self.names.value(&base);
        let id = self.graph.add_value(name, Some(tensor.ty().clone()));
        let value = self.graph.value_mut(id);
        value.extents = Some(vec![(shape.len() as i64).into()]);
        value.sizes = Some(SizeElements {
            elements: expressions,
            example: tensor,
        });
        self.grow();
        Ok((id, attributes))
    }

    /// Adds a Reshape before the visited node.
    pub fn reshape(&mut self, base: &str, value: ValueId, shape: &[usize]) -> Result<ValueId> {
        let (extents, attributes) = self.target_shape(base, &[value], shape)?;
        let inputs = [Some(value), Some(extents)];
        self.emit(base, "Reshape", attributes, &inputs)
    }

    /// A node with another operator, and the name and outputs of `node`.
    pub fn node_like(
        &self,
        node: &Node,
        op: &str,
        attributes: Attributes,
        inputs: Vec<Option<ValueId>>,
    ) -> Result<Node> {
        Ok(Node {
            name: node.name.clone(),
            op: operator_of(op)?,
            attributes,
            inputs,
            outputs: node.outputs.clone(),
        })
    }

    /// A Reshape to exactly `shape` with the outputs of `node`.
    pub fn reshaped_node(&mut self, node: &Node, value: ValueId, shape: &[usize]) -> Result<Node> {
        let outputs = node.outputs.iter().flatten().copied();
        let values: Vec<ValueId> = outputs.chain([value]).collect();
        let (extents, attributes) = self.target_shape(&node.name, &values, shape)?;
        let inputs = vec![Some(value), Some(extents)];
        self.node_like(node, "Reshape", attributes, inputs)
    }

    /// Adds a Transpose before the visited node.
    pub fn transpose(&mut self, base: &str, value: ValueId, perm: &[usize]) -> Result<ValueId> {
        self.emit(base, "Transpose", perm_attributes(perm), &[Some(value)])
    }

    pub(super) fn grow(&mut self) {
        let values = self.graph.values.len();
        self.uses.resize(values, 0);
        self.producer.resize(values, None);
        self.forward.resize(values, None);
    }
}

/// Attributes of a Reshape to exactly `shape`, the extents for the example sizes; with symbols they are expressions.
pub(crate) fn reshape_attributes(shape: &[usize], extents: Option<&[SizeExpr]>) -> Attributes {
    let mut extents = extents.unwrap_or_default().iter();
    let varies = extents.any(|extent| extent.constant().is_none());
    // Without allowzero an extent of 0 means "as in the input".
    if varies || shape.contains(&0) {
        Attributes::new().with("allowzero", Attribute::Int(1))
    } else {
        Attributes::new()
    }
}
