//! Fused ops (facts 3.7): the ops of all schedules in order, on whole tensors.

use super::{Context, Fault, Product, matmul, relu, relu_of, simple, to_integers, wrong};
use crate::tensor::Tensor;
use crate::tm;
use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use tenon_base::Result;
use tenon_netlist::{Attributes, Buffer, DataFormat, FusedOp, Op, OpKind, ScheduledOp};

/// What each buffer holds.
type Buffers<'t> = HashMap<Buffer, Cow<'t, Tensor>>;

/// What the schedules of `fused_op` make of the inputs of an op.
pub fn fused<T: Borrow<Tensor>>(
    context: &Context<'_>,
    fused_op: &FusedOp,
    inputs: &[T],
    faults: &mut Vec<Fault>,
) -> Result<Tensor> {
    let op = context.op;
    if fused_op.custom_kernel_path.is_some() {
        return Err(wrong(
            op,
            "a kernel in the original's own language cannot run here",
        ));
    }
    let mut buffers: Buffers<'_> = HashMap::new();
    for (index, input) in inputs.iter().enumerate() {
        let number = Buffer::Input(index as u32);
        buffers.insert(number, Cow::Borrowed(input.borrow()));
    }
    for scheduled in fused_op.schedules.iter().flatten() {
        let output = scheduled_op(context, scheduled, &buffers, faults).map_err(|why| {
            wrong(
                op,
                format!("'{}' of its fused op: {why}", scheduled.name.value),
            )
        })?;
        buffers.insert(scheduled.output.value, Cow::Owned(output));
    }
    let output = buffers.remove(&Buffer::Output).map(Cow::into_owned);
    output.ok_or_else(|| wrong(op, "no op of its fused op writes the output"))
}

fn scheduled_op(
    context: &Context<'_>,
    scheduled: &ScheduledOp,
    buffers: &Buffers<'_>,
    faults: &mut Vec<Fault>,
) -> Result<Tensor, String> {
    let mut inputs = Vec::new();
    for (buffer, tms) in &scheduled.inputs {
        let held = buffers.get(&buffer.value);
        let held = held.ok_or(format!("{} is empty", buffer.value))?;
        let mut tensor = Cow::Borrowed(&**held);
        for tm in tms {
            tensor = Cow::Owned(tm::apply(&tensor, tm.value)?);
        }
        inputs.push(tensor);
    }
    let kind = scheduled.kind.value;
    // (dest - zero point) * input0: the operands of a dequantization are swapped (facts 3.7).
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
    // What an op leaves out of the buffer it reads keeps its value (facts 10.6).
    let reads_output = scheduled
        .inputs
        .iter()
        .any(|(buffer, _)| buffer.value == output);
    let old = buffers.get(&output).filter(|_| reads_output);
    let old = old.map(|old| &**old);
    let result = match kind {
        OpKind::Matmul => matmul(
            &Product {
                groups: 1,
                ..Product::default()
            },
            &inputs,
        )?,
        _ => simple(
            kind,
            &scheduled.attributes,
            &inputs,
            context.small_tiles,
            old,
            faults,
        )?,
    };
    let result = match relu_asked(context.op, &scheduled.attributes, output) {
        Some((threshold, max)) => relu(result, threshold, max),
        None => result,
    };
    Ok(to_integers(result, output_format))
}

/// The relu of a scheduled op; what the base op asks for is done where the output is written.
fn relu_asked(op: &Op, attributes: &Attributes, output: Buffer) -> Option<(f32, bool)> {
    relu_of(attributes).or_else(|| match output {
        Buffer::Output => relu_of(&op.attributes),
        _ => None,
    })
}

/// The format that a buffer is declared to have.
fn format_of(op: &Op, buffer: Buffer) -> DataFormat {
    match buffer {
        Buffer::Intermediate(_) => op.intermed_df.value,
        Buffer::Dest => op
            .acc_df
            .map_or(op.intermed_df.value, |format| format.value),
        _ => op.out_df.value,
    }
}
