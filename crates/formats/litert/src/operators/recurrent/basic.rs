//! The older form of one step of an LSTM, with one matrix of weights.

use super::product;
use crate::model::unsupported;
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::ActivationFunctionType as Activation;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// Inputs: x, previous output, weights [4 cells, inputs + cells], bias, previous state. Outputs: output, state, the joined
/// inputs, the arguments of the gates. The gates are input, cell, forget and output.
pub(crate) fn basic_lstm(op: &mut Operation<'_, '_>, activation: Activation) -> Result<()> {
    if activation != Activation::TANH {
        return Err(unsupported("another activation than TANH is not supported"));
    }
    if op.info(0)?.dtype != data_type::FLOAT {
        return Err(
            unsupported("a quantised LSTM of kernel BASIC is not supported")
                .help("convert the model with f32 activations"),
        );
    }
    let x = op.real(0)?;
    let (before, state) = (previous(op, 1)?, previous(op, 4)?);
    let (weights, bias) = (op.real(2)?, op.real(3)?);
    let inputs = op.emit("Concat", &[&x, &before], vec![proto::int("axis", 1)])?;
    let arguments = product(op, &inputs, &weights)?;
    let arguments = op.emit("Add", &[&arguments, &bias], Vec::new())?;
    let split = vec![proto::int("axis", 1), proto::int("num_outputs", 4)];
    let gates = op.emit_many("Split", &[&arguments], split, 4)?;
    let input = op.emit("Sigmoid", &[&gates[0]], Vec::new())?;
    let cell = op.emit("Tanh", &[&gates[1]], Vec::new())?;
    let forget = op.emit("Sigmoid", &[&gates[2]], Vec::new())?;
    let output = op.emit("Sigmoid", &[&gates[3]], Vec::new())?;
    let new = op.emit("Mul", &[&input, &cell], Vec::new())?;
    let kept = op.emit("Mul", &[&forget, &state], Vec::new())?;
    let state = op.emit("Add", &[&new, &kept], Vec::new())?;
    let y = op.emit("Tanh", &[&state], Vec::new())?;
    let y = op.emit("Mul", &[&output, &y], Vec::new())?;
    let results = [y, state, inputs, arguments];
    for (index, result) in results.into_iter().enumerate().take(op.outputs.len()) {
        op.set(index, result)?;
    }
    Ok(())
}

/// A state of the inputs; a variable is 0.
fn previous(op: &mut Operation<'_, '_>, index: usize) -> Result<String> {
    let info = op.info(index)?;
    if !info.is_variable || op.has_value(index)? {
        return op.real(index);
    }
    let shape = op.i64_constant(&info.shape);
    let zero = op.scalar_of(data_type::FLOAT, 0.0)?;
    op.emit("Expand", &[&zero, &shape], Vec::new())
}
