//! Operators on shapes: the elements stay, or are all the same.

use super::movement::moved;
use crate::model::unsupported;
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The shape is input 1, or an option.
pub(super) fn reshape(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_reshape_options();
    let option = options.and_then(|options| options.new_shape());
    let shape = if op.has_input(1) {
        op.constant_ints(1)?
    } else {
        let shape = option.map(|shape| shape.iter().map(i64::from).collect());
        Some(shape.ok_or_else(|| unsupported("a Reshape without a shape is not supported"))?)
    };
    match shape {
        Some(shape) => {
            let zeros = shape.contains(&0) && !shape.contains(&-1);
            let shape = op.i64_constant(&shape);
            moved(
                op,
                "Reshape",
                &[&shape],
                vec![proto::int("allowzero", zeros.into())],
            )
        }
        None => {
            let shape = op.i64_list(1)?;
            moved(op, "Reshape", &[&shape], Vec::new())
        }
    }
}

/// Dimensions of extent 1 are removed: those of the option, or all.
pub(super) fn squeeze(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_squeeze_options();
    let axes: Vec<i64> = options
        .and_then(|it| it.squeeze_dims())
        .into_iter()
        .flatten()
        .map(i64::from)
        .collect();
    if axes.is_empty() {
        return moved(op, "Squeeze", &[], Vec::new());
    }
    let axes = op.i64_constant(&axes);
    moved(op, "Squeeze", &[&axes], Vec::new())
}

pub(super) fn expand_dims(op: &mut Operation<'_, '_>) -> Result<()> {
    let axes = op.ints(1, "dimension")?;
    let axes = op.i64_constant(&axes);
    moved(op, "Unsqueeze", &[&axes], Vec::new())
}

pub(super) fn tile(op: &mut Operation<'_, '_>) -> Result<()> {
    let repeats = op.i64_list(1)?;
    moved(op, "Tile", &[&repeats], Vec::new())
}

pub(super) fn broadcast(op: &mut Operation<'_, '_>) -> Result<()> {
    let shape = op.i64_list(1)?;
    moved(op, "Expand", &[&shape], Vec::new())
}

/// The shape that two shapes are broadcast to.
pub(super) fn broadcast_args(op: &mut Operation<'_, '_>) -> Result<()> {
    let (a, b) = (op.info(0)?, op.info(1)?);
    let (&[long], &[short]) = (a.shape.as_slice(), b.shape.as_slice()) else {
        return Err(unsupported("shapes that are no lists are not supported"));
    };
    if long < 0 || short < 0 {
        return Err(unsupported("shapes of unknown length are not supported"));
    }
    let mut shapes = [op.i64_list(0)?, op.i64_list(1)?];
    let missing = long.abs_diff(short) as usize;
    if missing > 0 {
        if missing > 64 {
            return Err(unsupported(
                "shapes of more than 64 dimensions are not supported",
            ));
        }
        let ones = op.i64_constant(&vec![1; missing]);
        let shorter = usize::from(short < long);
        shapes[shorter] = op.emit(
            "Concat",
            &[&ones, &shapes[shorter]],
            vec![proto::int("axis", 0)],
        )?;
    }
    let one = op.i64_constant(&[1]);
    let is_one = op.emit("Equal", &[&shapes[0], &one], Vec::new())?;
    let y = op.emit("Where", &[&is_one, &shapes[1], &shapes[0]], Vec::new())?;
    let dtype = op.output_info(0)?.dtype;
    let y = op.cast(&y, data_type::INT64, dtype)?;
    op.set_stored(0, y)
}

/// Inputs: shape, value.
pub(super) fn fill(op: &mut Operation<'_, '_>) -> Result<()> {
    let one_form = op.has_one_form(&[1], &[0])?;
    let value = op.operand(1, one_form)?;
    let shape = op.i64_list(0)?;
    let y = op.emit("Expand", &[&value, &shape], Vec::new())?;
    op.set_result(0, y, one_form)
}

/// Zeros of the shape of the input.
pub(super) fn zeros(op: &mut Operation<'_, '_>) -> Result<()> {
    let (info, x) = (op.info(0)?, op.stored(0)?);
    let shape = op.emit("Shape", &[&x], Vec::new())?;
    let zero = super::movement::zero(op, &info)?;
    let y = op.emit("Expand", &[&zero, &shape], Vec::new())?;
    op.set_stored(0, y)
}

pub(super) fn range(op: &mut Operation<'_, '_>) -> Result<()> {
    let mut bounds = Vec::with_capacity(3);
    for index in 0..3 {
        let bound = op.real(index)?;
        // Some converters write lists of one element.
        let bound = if op.info(index)?.rank() == 0 {
            bound
        } else {
            let shape = op.i64_constant(&[]);
            op.emit("Reshape", &[&bound, &shape], Vec::new())?
        };
        bounds.push(bound);
    }
    let y = op.emit("Range", &[&bounds[0], &bounds[1], &bounds[2]], Vec::new())?;
    op.set(0, y)
}

pub(super) fn shape(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.stored(0)?;
    let shape = op.emit("Shape", &[&x], Vec::new())?;
    let dtype = op.output_info(0)?.dtype;
    let y = op.cast(&shape, data_type::INT64, dtype)?;
    op.set_stored(0, y)
}

/// The number of dimensions.
pub(super) fn rank(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.stored(0)?;
    let shape = op.emit("Shape", &[&x], Vec::new())?;
    let rank = op.emit("Size", &[&shape], Vec::new())?;
    let dtype = op.output_info(0)?.dtype;
    let y = op.cast(&rank, data_type::INT64, dtype)?;
    op.set_stored(0, y)
}
