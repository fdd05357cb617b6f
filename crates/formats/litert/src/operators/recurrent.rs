//! Recurrent networks.

use crate::model::unsupported;
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::ActivationFunctionType as Activation;
use tenon_base::Result;

/// Inputs of UNIDIRECTIONAL_SEQUENCE_LSTM: weights of the input, forget, cell and output gate.
const WEIGHTS: [usize; 4] = [1, 2, 3, 4];
const RECURRENT: [usize; 4] = [5, 6, 7, 8];
const PEEPHOLES: [usize; 3] = [9, 10, 11];
const BIASES: [usize; 4] = [12, 13, 14, 15];
const PROJECTION: [usize; 2] = [16, 17];
const STATES: [usize; 2] = [18, 19];
const NORMALIZATION: [usize; 4] = [20, 21, 22, 23];

/// The gates in the order of ONNX: input, output, forget, cell.
const ORDER: [usize; 4] = [0, 3, 1, 2];

/// An LSTM over a sequence, whose states are 0 at first.
pub(super) fn lstm(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_unidirectional_sequence_lstmoptions();
    let options = options.ok_or_else(|| unsupported("an LSTM without options is not supported"))?;
    if options.fused_activation_function() != Activation::TANH {
        return Err(unsupported("another activation than TANH is not supported"));
    }
    if options.cell_clip() != 0.0 || options.proj_clip() != 0.0 {
        return Err(unsupported("clipping is not supported"));
    }
    if options.diagonal_recurrent_tensors() {
        return Err(unsupported("diagonal recurrent weights are not supported"));
    }
    let unread = PROJECTION.into_iter().chain(NORMALIZATION);
    if unread.into_iter().any(|index| op.has_input(index)) {
        return Err(unsupported(
            "projection and layer normalization are not supported",
        ));
    }
    if WEIGHTS
        .into_iter()
        .chain(RECURRENT)
        .any(|index| !op.has_input(index))
    {
        return Err(unsupported(
            "coupled input and forget gates are not supported",
        ));
    }
    for state in STATES {
        if op.has_input(state) && !op.info(state)?.is_variable {
            return Err(unsupported(
                "an initial state that is no variable is not supported",
            ));
        }
    }
    if op.info(0)?.quantised().is_some() {
        return Err(unsupported("quantised sequences are not supported"));
    }
    op.expect_rank(0, 3)?;
    let hidden = op.info(RECURRENT[0])?.shape.last().copied().unwrap_or(0);
    let mut x = op.stored(0)?;
    let swap = || vec![proto::ints("perm", vec![1, 0, 2])];
    if !options.time_major() {
        x = op.emit("Transpose", &[&x], swap())?;
    }
    let weights = gates(op, WEIGHTS)?;
    let recurrent = gates(op, RECURRENT)?;
    let mut inputs = vec![x, weights, recurrent];
    let peepholes = PEEPHOLES.iter().all(|&index| op.has_input(index));
    if BIASES.iter().all(|&index| op.has_input(index)) {
        // ONNX has biases of the recurrent weights too.
        let bias = gates(op, BIASES)?;
        let zeros = op.scalar_of(tenon_onnx::proto::data_type::FLOAT, 0.0)?;
        let zeros = op.emit("Mul", &[&bias, &zeros], Vec::new())?;
        inputs.push(op.emit("Concat", &[&bias, &zeros], vec![proto::int("axis", 1)])?);
    } else {
        inputs.push(String::new());
    }
    if peepholes {
        inputs.extend([String::new(), String::new(), String::new()]);
        let [input, forget, output] = PEEPHOLES;
        let parts = joined(op, &[input, output, forget])?;
        inputs.push(parts);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let y = op.emit("LSTM", &inputs, vec![proto::int("hidden_size", hidden)])?;
    let axes = op.i64_constant(&[1]);
    let mut y = op.emit("Squeeze", &[&y, &axes], Vec::new())?;
    if !options.time_major() {
        y = op.emit("Transpose", &[&y], swap())?;
    }
    op.set(0, y)
}

/// The operands of four gates, joined in the order of ONNX, for one direction.
fn gates(op: &mut Operation<'_, '_>, inputs: [usize; 4]) -> Result<String> {
    joined(op, &ORDER.map(|gate| inputs[gate]))
}

fn joined(op: &mut Operation<'_, '_>, inputs: &[usize]) -> Result<String> {
    let mut parts = Vec::with_capacity(inputs.len());
    for &index in inputs {
        parts.push(op.real(index)?);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let all = op.emit("Concat", &parts, vec![proto::int("axis", 0)])?;
    let axes = op.i64_constant(&[0]);
    op.emit("Unsqueeze", &[&all, &axes], Vec::new())
}
