//! Matrix products.

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use crate::schema::tflite as schema;
use schema::{ActivationFunctionType as Activation, FullyConnectedOptionsWeightsFormat as Format};
use tenon_base::Result;

/// activation(x W' + bias): x of rows, W [outputs, inputs].
pub(super) fn fully_connected(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_fully_connected_options();
    let (activation, keeps_dims, format) =
        options.map_or((Activation::NONE, false, Format::DEFAULT), |it| {
            (
                it.fused_activation_function(),
                it.keep_num_dims(),
                it.weights_format(),
            )
        });
    if format != Format::DEFAULT {
        return Err(unsupported("shuffled weights are not supported"));
    }
    let (x_info, w_info) = (op.info(0)?, op.info(1)?);
    let &[_, inputs] = w_info.shape.as_slice() else {
        return Err(invalid("the weights have the wrong shape")
            .expected("two dimensions")
            .found(format_args!("{:?}", w_info.shape)));
    };
    let mut x = op.real(0)?;
    let is_matrix = x_info.rank() == 2 && x_info.shape.last() == Some(&inputs);
    if !is_matrix && !keeps_dims {
        let shape = op.i64_constant(&[-1, inputs]);
        if x_info.quantised().is_some() {
            // Before the real values, so that the product is between quantised operands.
            let stored = op.stored(0)?;
            let rows = op.emit("Reshape", &[&stored, &shape], Vec::new())?;
            x = op.dequantised(rows, &x_info)?;
        } else {
            x = op.emit("Reshape", &[&x, &shape], Vec::new())?;
        }
    }
    let weights = op.weights(1, &[1, 0])?;
    let mut y = op.emit("MatMul", &[&x, &weights], Vec::new())?;
    if op.has_input(2) {
        let bias = op.real(2)?;
        y = op.emit("Add", &[&y, &bias], Vec::new())?;
    }
    let y = op.activated(y, activation)?;
    op.set(0, y)
}

/// Products of matrices in the last two dimensions, each swapped or not.
pub(super) fn batch(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_batch_mat_mul_options();
    let swaps = options.map_or([false, false], |it| [it.adj_x(), it.adj_y()]);
    let mut operands = Vec::with_capacity(2);
    for (index, swap) in swaps.into_iter().enumerate() {
        let mut operand = op.real(index)?;
        if swap {
            let rank = op.info(index)?.rank();
            let mut order: Vec<i64> = (0..rank as i64).collect();
            let Some(last) = rank.checked_sub(2) else {
                return Err(invalid(format!(
                    "input {index} has less than two dimensions"
                )));
            };
            order.swap(last, last + 1);
            operand = op.emit("Transpose", &[&operand], vec![proto::ints("perm", order)])?;
        }
        operands.push(operand);
    }
    let y = op.emit("MatMul", &[&operands[0], &operands[1]], Vec::new())?;
    op.set(0, y)
}
