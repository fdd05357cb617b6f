//! Training outputs of operators, as separate nodes.

use super::inputs::scalar_like;
use crate::draft::{Draft, DraftNode};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor, convert};

/// The mask is all true. A ratio of 0 drops nothing in training either.
pub(super) fn dropout(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let ratio = node.inputs.get(1).copied().flatten();
    let ratio = draft
        .constant(ratio)
        .map(|ratio| convert(ratio, DataType::F64));
    if ratio
        .transpose()?
        .is_some_and(|ratio| ratio.as_slice() == Some(&[0f64][..]))
    {
        node.inputs.truncate(1);
    }
    if let Some(mask) = node.outputs.get(1).copied().flatten() {
        let shape = draft.step(&node, "Shape", Attributes::new(), &node.inputs[..1]);
        let kept = Attribute::Tensor(Tensor::from_bools([1], &[true])?);
        let kept = Attributes::new().with("value", kept);
        draft.step_into(&node, "ConstantOfShape", kept, &[Some(shape)], mask);
    }
    node.outputs.truncate(1);
    Ok(node)
}

/// Normalization with the statistics of the batch, and the running statistics.
pub(super) fn batch_normalization(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let &[Some(x), scale, bias, Some(mean), Some(variance)] = &*node.inputs else {
        return Ok(node);
    };
    if !node.attributes.flag("training_mode", false)? {
        return Ok(node);
    }
    let momentum = node.attributes.float("momentum", 0.9)?;
    let mut steps = NodeEmitter { draft, node: &node };
    let axes = steps.ints("axes", &[0, 2])?;
    let batch_mean = steps.channels(x, axes)?;
    let along = steps.ints("along", &[1, -1, 1])?;
    let flat = steps.flat(x)?;
    let centre = steps.make("Reshape", &[batch_mean, along]);
    let apart = steps.make("Sub", &[flat, centre]);
    let squares = steps.make("Mul", &[apart, apart]);
    let batch_variance = steps.mean(squares, axes);
    let given = [(mean, batch_mean), (variance, batch_variance)];
    for (index, (before, now)) in given.into_iter().enumerate() {
        if let Some(output) = node.outputs.get(index + 1).copied().flatten() {
            steps.running(before, now, momentum, output)?;
        }
    }
    node.inputs = vec![Some(x), scale, bias, Some(batch_mean), Some(batch_variance)];
    node.attributes.remove("training_mode");
    node.outputs.truncate(1);
    Ok(node)
}

/// Emits nodes before another one.
struct NodeEmitter<'a> {
    draft: &'a mut Draft,
    node: &'a DraftNode,
}

impl NodeEmitter<'_> {
    fn make(&mut self, operator: &str, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.draft
            .step(self.node, operator, Attributes::new(), &inputs)
    }

    fn ints(&mut self, what: &str, ints: &[i64]) -> Result<ValueId> {
        self.draft.ints_for(self.node, what, ints)
    }

    /// The tensor reshaped to batch, channels and the product of the other dimensions.
    fn flat(&mut self, x: ValueId) -> Result<ValueId> {
        let shape = self.ints("flat", &[0, 0, -1])?;
        Ok(self.make("Reshape", &[x, shape]))
    }

    fn mean(&mut self, x: ValueId, axes: ValueId) -> ValueId {
        let keep = Attributes::new().with("keepdims", Attribute::Int(0));
        let inputs = [Some(x), Some(axes)];
        self.draft.step(self.node, "ReduceMean", keep, &inputs)
    }

    /// The mean of each channel.
    fn channels(&mut self, x: ValueId, axes: ValueId) -> Result<ValueId> {
        let flat = self.flat(x)?;
        Ok(self.mean(flat, axes))
    }

    /// `before * momentum + now * (1 - momentum)`
    fn running(
        &mut self,
        before: ValueId,
        now: ValueId,
        momentum: f32,
        output: ValueId,
    ) -> Result<()> {
        let mut part = |value, share: f32| -> Result<ValueId> {
            let share = scalar_like(self.draft, self.node, share)?;
            let share = self.draft.constant_for(self.node, "share", share);
            Ok(self.make("Mul", &[value, share]))
        };
        let inputs = [
            Some(part(before, momentum)?),
            Some(part(now, 1.0 - momentum)?),
        ];
        let attributes = Attributes::new();
        self.draft
            .step_into(self.node, "Add", attributes, &inputs, output);
        Ok(())
    }
}
