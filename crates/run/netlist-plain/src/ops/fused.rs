//! Fused ops (netlist 3.7): runs the ops of all schedules in order, on whole tensors.

use super::{Context, Faults, MatmulOptions, matmul, relu, relu_of, simple};
use crate::error::failed;
use crate::format::to_integers;
use crate::tensor::Tensor;
use crate::tm;
use std::borrow::Borrow;
use std::collections::HashMap;
use tenon_base::{Location, Result};
use tenon_netlist::{Attributes, Buffer, DataFormat, FusedOp, Op, OpKind, ScheduledOp};

/// A tensor in a buffer: an input of the op, or the output of a scheduled op.
enum BufferTensor<'t> {
    Input(&'t Tensor),
    Computed(Tensor),
}

impl Borrow<Tensor> for BufferTensor<'_> {
    fn borrow(&self) -> &Tensor {
        match self {
            Self::Input(tensor) => tensor,
            Self::Computed(tensor) => tensor,
        }
    }
}

/// The contents of the buffers.
type Buffers<'t> = HashMap<Buffer, BufferTensor<'t>>;

/// Runs the schedules of `fused_op` on the inputs of an op.
pub fn fused<T: Borrow<Tensor>>(
    context: &Context<'_>,
    fused_op: &FusedOp,
    inputs: &[T],
    faults: &mut Faults,
) -> Result<Tensor> {
    if fused_op.custom_kernel_path.is_some() {
        return Err(failed("a custom kernel of the original is not supported"));
    }
    let mut buffers: Buffers<'_> = HashMap::new();
    for (index, input) in inputs.iter().enumerate() {
        let buffer = Buffer::Input(index as u32);
        buffers.insert(buffer, BufferTensor::Input(input.borrow()));
    }
    for scheduled in fused_op.schedules.iter().flatten() {
        let output = scheduled_op(context, scheduled, &buffers, faults).map_err(|error| {
            let location = Location::field(format!("scheduled op '{}'", scheduled.name.value));
            error.at(location)
        })?;
        buffers.insert(scheduled.output.value, BufferTensor::Computed(output));
    }
    match buffers.remove(&Buffer::Output) {
        Some(BufferTensor::Computed(output)) => Ok(output),
        _ => Err(failed("no op of its fused op writes the output")),
    }
}

fn scheduled_op(
    context: &Context<'_>,
    scheduled: &ScheduledOp,
    buffers: &Buffers<'_>,
    faults: &mut Faults,
) -> Result<Tensor> {
    let mut inputs = Vec::new();
    for (buffer, tms) in &scheduled.inputs {
        let content = buffers.get(&buffer.value);
        let content = content.ok_or_else(|| failed(format!("{} is empty", buffer.value)))?;
        let mut tensor = BufferTensor::Input(content.borrow());
        for tm in tms {
            tensor = BufferTensor::Computed(tm::apply(tensor.borrow(), tm.value)?);
        }
        inputs.push(tensor);
    }
    let (kind, attributes) = (scheduled.kind.value, &scheduled.attributes);
    // (dest - zero point) * input0: the operands of a dequantization are swapped (netlist 3.7).
    if kind == OpKind::Dequantization
        && scheduled
            .inputs
            .get(1)
            .is_some_and(|(b, _)| b.value == Buffer::Dest)
    {
        inputs.swap(0, 1);
    }
    let output = scheduled.output.value;
    let output_format = format_of(context.op, output);
    // Elements of an in-place buffer that the op does not compute keep their values (netlist 3.7).
    let reads_output = scheduled
        .inputs
        .iter()
        .any(|(buffer, _)| buffer.value == output);
    let old = buffers.get(&output).filter(|_| reads_output);
    let old = old.map(Borrow::borrow);
    let result = match kind {
        OpKind::Matmul => matmul(
            &MatmulOptions {
                groups: 1,
                ..MatmulOptions::default()
            },
            &inputs,
        )?,
        _ => simple(kind, attributes, &inputs, context.small_tiles, old, faults)?,
    };
    let result = match scheduled_relu(context.op, attributes, output) {
        Some((threshold, max)) => relu(result, threshold, max),
        None => result,
    };
    Ok(to_integers(result, output_format))
}

/// The ReLU of a scheduled op. That of the base op is applied when the output is written.
fn scheduled_relu(op: &Op, attributes: &Attributes, output: Buffer) -> Option<(f32, bool)> {
    relu_of(attributes).or_else(|| match output {
        Buffer::Output => relu_of(&op.attributes),
        _ => None,
    })
}

/// The declared format of a buffer.
fn format_of(op: &Op, buffer: Buffer) -> DataFormat {
    match buffer {
        Buffer::Intermediate(_) => op.intermed_df.value,
        Buffer::Dest => op
            .acc_df
            .map_or(op.intermed_df.value, |format| format.value),
        _ => op.out_df.value,
    }
}
