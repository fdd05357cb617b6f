//! Recurrent networks without gates, and SVDF (Nakkiran et al., "Compressing Deep Neural Networks using a Rank-Constrained
//! Topology", 2015).

use super::{
    expect_operands, extent, joined, one_direction, product, reals, set_directions, time_first,
};
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto::{self, Attributes};
use crate::schema::tflite::ActivationFunctionType as Activation;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The inputs of one direction.
struct Direction {
    weights: usize,
    recurrent: usize,
    bias: usize,
}

/// One step: the product with the state is 0.
pub(crate) fn rnn(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_rnnoptions();
    let activation = options.map_or(Activation::NONE, |it| it.fused_activation_function());
    expect_operands(op, &[4])?;
    let (x, weights, bias) = (op.real(0)?, op.real(1)?, op.real(3)?);
    let y = product(op, &x, &weights)?;
    let y = op.emit("Add", &[&y, &bias], Vec::new())?;
    let y = op.activated(y, activation)?;
    op.set(0, y)
}

pub(crate) fn sequence_rnn(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_sequence_rnnoptions();
    let (activation, is_first) = options.map_or((Activation::NONE, false), |it| {
        (it.fused_activation_function(), it.time_major())
    });
    expect_operands(op, &[4])?;
    let x = time_first(op, 0, is_first)?;
    let direction = Direction {
        weights: 1,
        recurrent: 2,
        bias: 3,
    };
    let weights = op.real(1)?;
    let y = sequence(op, &x, weights, &direction, activation, false)?;
    super::set_sequence(op, 0, y, is_first)
}

/// The auxiliary input of the second layer of a stack is its backward input, or has weights for both directions.
pub(crate) fn bidirectional_rnn(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_bidirectional_sequence_rnnoptions();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let activation = options.fused_activation_function();
    let is_first = options.time_major();
    expect_operands(op, &[4, 8])?;
    let x = time_first(op, 0, is_first)?;
    let mut inputs = [x.clone(), x];
    let mut weights = [op.real(1)?, op.real(5)?];
    if op.has_input(9) {
        let auxiliary = time_first(op, 9, is_first)?;
        if op.has_input(10) && op.has_input(11) {
            for (direction, index) in [10, 11].into_iter().enumerate() {
                let more = op.real(index)?;
                let parts = [inputs[direction].clone(), auxiliary.clone()];
                inputs[direction] = joined(op, &parts, 2)?;
                weights[direction] = joined(op, &[weights[direction].clone(), more], 1)?;
            }
        } else {
            inputs[1] = auxiliary;
        }
    }
    let [forward, backward] = [[1, 2, 3], [5, 6, 7]].map(|[weights, recurrent, bias]| Direction {
        weights,
        recurrent,
        bias,
    });
    let ([a, b], [of_a, of_b]) = (inputs, weights);
    let both = [
        sequence(op, &a, of_a, &forward, activation, false)?,
        sequence(op, &b, of_b, &backward, activation, true)?,
    ];
    set_directions(op, both, options.merge_outputs(), is_first)
}

/// The outputs [time, batch, units] of a sequence [time, batch, inputs].
fn sequence(
    op: &mut Operation<'_, '_>,
    x: &str,
    weights: String,
    direction: &Direction,
    activation: Activation,
    is_reverse: bool,
) -> Result<String> {
    let units = extent(op, direction.weights, 0)?;
    let weights = one_direction(op, &weights)?;
    let [recurrent, bias] = [direction.recurrent, direction.bias];
    let recurrent = op.real(recurrent)?;
    let recurrent = one_direction(op, &recurrent)?;
    let bias = op.real(bias)?;
    let bias = both_biases(op, &bias)?;
    let mut attributes = function(activation)?;
    attributes.push(proto::int("hidden_size", units));
    if is_reverse {
        attributes.push(proto::text("direction", "reverse"));
    }
    let y = op.emit("RNN", &[x, &weights, &recurrent, &bias], attributes)?;
    let axes = op.i64_constant(&[1]);
    op.emit("Squeeze", &[&y, &axes], Vec::new())
}

/// A bias for one direction, with the one of the recurrent weights that ONNX has: zeros.
pub(super) fn both_biases(op: &mut Operation<'_, '_>, bias: &str) -> Result<String> {
    let zero = op.scalar_of(data_type::FLOAT, 0.0)?;
    let zeros = op.emit("Mul", &[bias, &zero], Vec::new())?;
    let both = joined(op, &[bias.to_owned(), zeros], 0)?;
    one_direction(op, &both)
}

/// An activation as attributes of RNN, whose `clip` limits the argument of the function.
fn function(activation: Activation) -> Result<Attributes> {
    let (name, clip) = match activation {
        Activation::NONE => ("Affine", None),
        Activation::RELU => ("Relu", None),
        Activation::RELU6 => ("Relu", Some(6.0)),
        Activation::RELU_N1_TO_1 => ("Affine", Some(1.0)),
        Activation::TANH => ("Tanh", None),
        other => {
            let name = other.variant_name().unwrap_or("unknown");
            return Err(unsupported(format!("activation {name} is not supported")));
        }
    };
    let mut attributes = vec![proto::texts("activations", &[name])];
    if name == "Affine" {
        attributes.push(proto::floats("activation_alpha", &[1.0]));
        attributes.push(proto::floats("activation_beta", &[0.0]));
    }
    attributes.extend(clip.map(|clip| proto::float("clip", clip)));
    Ok(attributes)
}

/// Inputs: x, weights of features, weights of time, bias, state. Of the state only the newest entry is not 0: the
/// features of this execution.
pub(crate) fn svdf(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_svdfoptions();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    expect_operands(op, &[4])?;
    op.expect_rank(0, 2)?;
    let (filters, rank) = (extent(op, 1, 0)?, i64::from(options.rank()));
    if rank <= 0 || filters % rank != 0 {
        return Err(invalid("the rank does not divide the number of filters")
            .expected(format_args!("a divisor of {filters}"))
            .found(rank));
    }
    let operands = reals(op, &[0, 1, 2])?;
    let features = product(op, &operands[0], &operands[1])?;
    let bounds = [-1, i64::MAX, 1].map(|value| op.i64_constant(&[value]));
    let [start, end, axis] = &bounds;
    let newest = op.emit("Slice", &[&operands[2], start, end, axis], Vec::new())?;
    let newest = op.emit("Squeeze", &[&newest, axis], Vec::new())?;
    let parts = op.emit("Mul", &[&features, &newest], Vec::new())?;
    let shape = op.i64_constant(&[-1, filters / rank, rank]);
    let parts = op.emit("Reshape", &[&parts, &shape], Vec::new())?;
    let last = op.i64_constant(&[2]);
    let keeps = vec![proto::int("keepdims", 0)];
    let mut y = op.emit("ReduceSum", &[&parts, &last], keeps)?;
    if op.has_input(3) {
        let bias = op.real(3)?;
        y = op.emit("Add", &[&y, &bias], Vec::new())?;
    }
    let y = op.activated(y, options.fused_activation_function())?;
    op.set(0, y)
}
