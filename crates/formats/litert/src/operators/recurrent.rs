//! Recurrent networks. Their states are variables, which are 0 at the start of each execution.

mod basic;
mod cell;
mod lstm;
mod simple;

pub(super) use basic::basic_lstm;
pub(super) use lstm::{bidirectional_lstm, full_lstm, sequence_lstm};
pub(super) use simple::{bidirectional_rnn, rnn, sequence_rnn, svdf};

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::LSTMKernelType;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// One step of an LSTM, in one of two forms.
pub(super) fn lstm(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_lstmoptions();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    match options.kernel_type() {
        LSTMKernelType::BASIC => basic_lstm(op, options.fused_activation_function()),
        _ => full_lstm(op, options),
    }
}

/// Input and output 0 have real values, of f32 or quantised, and states are variables. Between steps of quantised networks
/// values are f32: the interpreter rounds them to integers.
fn expect_operands(op: &mut Operation<'_, '_>, states: &[usize]) -> Result<()> {
    for info in [op.info(0)?, op.output_info(0)?] {
        if info.dtype != data_type::FLOAT && info.quantised().is_none() {
            return Err(unsupported(
                "an input or output that is neither f32 nor quantised is not supported",
            ));
        }
    }
    for &state in states {
        if op.has_input(state) && !op.info(state)?.is_variable {
            return Err(unsupported(
                "an initial state that is no variable is not supported",
            ));
        }
    }
    Ok(())
}

/// Input `index`, a sequence, with its time as the first dimension.
fn time_first(op: &mut Operation<'_, '_>, index: usize, is_first: bool) -> Result<String> {
    op.expect_rank(index, 3)?;
    let x = op.real(index)?;
    if is_first {
        return Ok(x);
    }
    op.emit("Transpose", &[&x], swapped())
}

/// Sets output `index` to a sequence with its time as the first dimension.
fn set_sequence(
    op: &mut Operation<'_, '_>,
    index: usize,
    value: String,
    is_first: bool,
) -> Result<()> {
    let value = if is_first {
        value
    } else {
        op.emit("Transpose", &[&value], swapped())?
    };
    op.set(index, value)
}

/// Sets the outputs to the sequences of two directions, joined or separate.
fn set_directions(
    op: &mut Operation<'_, '_>,
    [forward, backward]: [String; 2],
    is_merged: bool,
    is_first: bool,
) -> Result<()> {
    if is_merged {
        let axis = vec![proto::int("axis", 2)];
        let both = op.emit("Concat", &[&forward, &backward], axis)?;
        return set_sequence(op, 0, both, is_first);
    }
    set_sequence(op, 0, forward, is_first)?;
    set_sequence(op, 1, backward, is_first)
}

fn swapped() -> proto::Attributes {
    vec![proto::ints("perm", vec![1, 0, 2])]
}

/// A value with a first dimension of 1: the direction.
fn one_direction(op: &mut Operation<'_, '_>, value: &str) -> Result<String> {
    let axes = op.i64_constant(&[0]);
    op.emit("Unsqueeze", &[value, &axes], Vec::new())
}

/// Several operands in sequence along a dimension.
fn joined(op: &mut Operation<'_, '_>, parts: &[String], axis: i64) -> Result<String> {
    if let [one] = parts {
        return Ok(one.clone());
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    op.emit("Concat", &parts, vec![proto::int("axis", axis)])
}

/// Operands of inputs.
fn reals(op: &mut Operation<'_, '_>, inputs: &[usize]) -> Result<Vec<String>> {
    inputs.iter().map(|&index| op.real(index)).collect()
}

/// x W'
fn product(op: &mut Operation<'_, '_>, x: &str, weights: &str) -> Result<String> {
    let weights = transposed(op, weights)?;
    op.emit("MatMul", &[x, &weights], Vec::new())
}

fn transposed(op: &mut Operation<'_, '_>, matrix: &str) -> Result<String> {
    op.emit(
        "Transpose",
        &[matrix],
        vec![proto::ints("perm", vec![1, 0])],
    )
}

/// The extent of a dimension of input `index`, which must be known.
fn extent(op: &mut Operation<'_, '_>, index: usize, axis: usize) -> Result<i64> {
    let info = op.info(index)?;
    let extent = info.shape.get(axis).copied().filter(|&extent| extent >= 0);
    extent.ok_or_else(|| {
        invalid(format!("input {index} has the wrong shape"))
            .expected(format_args!("more than {axis} dimensions of known extents"))
            .found(format_args!("{:?}", info.shape))
    })
}
