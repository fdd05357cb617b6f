//! Long short-term memory (Hochreiter and Schmidhuber, 1997) of one step, or over sequences.

use super::cell::{Cell, CellOptions};
use super::{
    expect_operands, extent, joined, one_direction, reals, set_directions, set_sequence, time_first,
};
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite::{ActivationFunctionType as Activation, LSTMOptions};
use tenon_base::Result;

/// The inputs of one direction; gates are in the order input, forget, cell, output.
pub(super) struct Direction {
    pub weights: [usize; 4],
    pub recurrent: [usize; 4],
    /// Of the input, forget and output gate.
    pub peepholes: [usize; 3],
    pub biases: [usize; 4],
    /// Weights and bias.
    pub projection: [usize; 2],
    pub normalization: Option<[usize; 4]>,
    pub auxiliary: Option<[usize; 4]>,
}

/// The inputs of operators of one direction.
const FORWARD: Direction = Direction {
    weights: [1, 2, 3, 4],
    recurrent: [5, 6, 7, 8],
    peepholes: [9, 10, 11],
    biases: [12, 13, 14, 15],
    projection: [16, 17],
    normalization: Some([20, 21, 22, 23]),
    auxiliary: None,
};
const STATES: [usize; 2] = [18, 19];

/// The inputs of the operator of two directions.
const BOTH: [Direction; 2] = [
    Direction {
        normalization: None,
        auxiliary: Some([40, 41, 42, 43]),
        ..FORWARD
    },
    Direction {
        weights: [18, 19, 20, 21],
        recurrent: [22, 23, 24, 25],
        peepholes: [26, 27, 28],
        biases: [29, 30, 31, 32],
        projection: [33, 34],
        normalization: None,
        auxiliary: Some([44, 45, 46, 47]),
    },
];
const STATES_OF_BOTH: [usize; 4] = [35, 36, 37, 38];
const AUXILIARY: usize = 39;

/// The gates in the order of ONNX: input, output, forget, cell.
const ORDER: [usize; 4] = [0, 3, 1, 2];

/// One step.
pub(crate) fn full_lstm(op: &mut Operation<'_, '_>, options: LSTMOptions<'_>) -> Result<()> {
    let options = CellOptions {
        activation: options.fused_activation_function(),
        cell_clip: options.cell_clip(),
        projection_clip: options.proj_clip(),
    };
    expect_operands(op, &STATES)?;
    op.expect_rank(0, 2)?;
    let x = op.real(0)?;
    let cell = Cell::new(op, &FORWARD, options, false)?;
    let arguments = cell.arguments(op, &x)?;
    let y = cell.first_step(op, &arguments)?;
    op.set(0, y)
}

pub(crate) fn sequence_lstm(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_unidirectional_sequence_lstmoptions();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    if options.diagonal_recurrent_tensors() {
        return Err(unsupported("diagonal recurrent weights are not supported"));
    }
    let is_first = options.time_major();
    let options = CellOptions {
        activation: options.fused_activation_function(),
        cell_clip: options.cell_clip(),
        projection_clip: options.proj_clip(),
    };
    expect_operands(op, &STATES)?;
    let x = time_first(op, 0, is_first)?;
    let y = sequence(op, &x, &FORWARD, options, false, false)?;
    set_sequence(op, 0, y, is_first)
}

/// The auxiliary input of the second layer of a stack is its backward input, or has weights for both directions.
pub(crate) fn bidirectional_lstm(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_bidirectional_sequence_lstmoptions();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let (is_first, is_merged) = (options.time_major(), options.merge_outputs());
    let options = CellOptions {
        activation: options.fused_activation_function(),
        cell_clip: options.cell_clip(),
        projection_clip: options.proj_clip(),
    };
    expect_operands(op, &STATES_OF_BOTH)?;
    let x = time_first(op, 0, is_first)?;
    let mut inputs = [x.clone(), x];
    let has_weights = op.has_input(41);
    if op.has_input(AUXILIARY) {
        let auxiliary = time_first(op, AUXILIARY, is_first)?;
        if has_weights {
            let parts = [inputs[0].clone(), auxiliary];
            let both = joined(op, &parts, 2)?;
            inputs = [both.clone(), both];
        } else {
            inputs[1] = auxiliary;
        }
    }
    let [forward, backward] = &BOTH;
    let both = [
        sequence(op, &inputs[0], forward, options, has_weights, false)?,
        sequence(op, &inputs[1], backward, options, has_weights, true)?,
    ];
    set_directions(op, both, is_merged, is_first)
}

/// The outputs [time, batch, units] of a sequence [time, batch, inputs]: by ONNX's LSTM, or with what it does not have by a Scan.
fn sequence(
    op: &mut Operation<'_, '_>,
    x: &str,
    direction: &Direction,
    options: CellOptions,
    has_auxiliary: bool,
    is_reverse: bool,
) -> Result<String> {
    let has_normalization = direction
        .normalization
        .is_some_and(|inputs| op.has_input(inputs[1]));
    let function = match options.activation {
        Activation::TANH => Some("Tanh"),
        Activation::RELU => Some("Relu"),
        _ => None,
    };
    let is_clipped = options.cell_clip != 0.0 || options.projection_clip != 0.0;
    match function {
        Some(function)
            if !has_normalization && !is_clipped && !op.has_input(direction.projection[0]) =>
        {
            plain_sequence(op, x, direction, function, has_auxiliary, is_reverse)
        }
        _ => {
            let cell = Cell::new(op, direction, options, has_auxiliary)?;
            cell.sequence(op, x, is_reverse)
        }
    }
}

/// The LSTM of ONNX.
fn plain_sequence(
    op: &mut Operation<'_, '_>,
    x: &str,
    direction: &Direction,
    function: &'static str,
    has_auxiliary: bool,
    is_reverse: bool,
) -> Result<String> {
    let cells = extent(op, direction.weights[1], 0)?;
    let mut weights = gates(op, direction.weights)?;
    if let Some(auxiliary) = direction.auxiliary.filter(|_| has_auxiliary) {
        let more = gates(op, auxiliary)?;
        weights = joined(op, &[weights, more], 1)?;
    }
    let weights = one_direction(op, &weights)?;
    let recurrent = gates(op, direction.recurrent)?;
    let recurrent = one_direction(op, &recurrent)?;
    let bias = gates(op, direction.biases)?;
    let bias = super::simple::both_biases(op, &bias)?;
    let mut inputs = vec![x.to_owned(), weights, recurrent, bias];
    if let [Some(input), Some(forget), Some(output)] = peepholes(op, direction)? {
        inputs.extend([String::new(), String::new(), String::new()]);
        let all = joined(op, &[input, output, forget], 0)?;
        inputs.push(one_direction(op, &all)?);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let functions = ["Sigmoid", function, function];
    let mut attributes = vec![
        proto::int("hidden_size", cells),
        proto::texts("activations", &functions),
    ];
    if is_reverse {
        attributes.push(proto::text("direction", "reverse"));
    }
    let y = op.emit("LSTM", &inputs, attributes)?;
    let axes = op.i64_constant(&[1]);
    op.emit("Squeeze", &[&y, &axes], Vec::new())
}

/// The operands of four gates, joined in the order of ONNX.
fn gates(op: &mut Operation<'_, '_>, inputs: [usize; 4]) -> Result<String> {
    let operands = operands(op, inputs)?;
    joined(op, &ORDER.map(|gate| operands[gate].clone()), 0)
}

/// The operands of four gates. Without those of the input gate it is 1 minus the forget gate: the logistic function of the
/// negative argument.
pub(super) fn operands(op: &mut Operation<'_, '_>, inputs: [usize; 4]) -> Result<[String; 4]> {
    let [_, forget, cell, output] = inputs;
    let all = reals(op, &[forget, cell, output])?;
    let input = if op.has_input(inputs[0]) {
        op.real(inputs[0])?
    } else {
        op.emit("Neg", &[&all[0]], Vec::new())?
    };
    let [forget, cell, output] = [0, 1, 2].map(|index| all[index].clone());
    Ok([input, forget, cell, output])
}

/// The operands of the input, forget and output gate by which the state is multiplied.
pub(super) fn peepholes(
    op: &mut Operation<'_, '_>,
    direction: &Direction,
) -> Result<[Option<String>; 3]> {
    let [input, forget, output] = direction.peepholes;
    if !op.has_input(forget) || !op.has_input(output) {
        return Ok([None, None, None]);
    }
    let (of_forget, of_output) = (op.real(forget)?, op.real(output)?);
    let is_coupled = !op.has_input(direction.weights[0]);
    let of_input = if is_coupled {
        op.emit("Neg", &[&of_forget], Vec::new())?
    } else {
        op.real(input)?
    };
    Ok([Some(of_input), Some(of_forget), Some(of_output)])
}
