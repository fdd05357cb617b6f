//! Elements by computed positions.

use super::movement::{axis, moved};
use crate::model::unsupported;
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

pub(super) fn gather(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_gather_options();
    let (along, batch) = options.map_or((0, 0), |it| {
        (i64::from(it.axis()), i64::from(it.batch_dims()))
    });
    if batch == 0 {
        let positions = op.i64s(1)?;
        return moved(op, "Gather", &[&positions], vec![proto::int("axis", along)]);
    }
    let (rank, positions_rank) = (op.info(0)?.rank(), op.info(1)?.rank());
    let batch = if batch < 0 {
        batch.saturating_add(positions_rank as i64)
    } else {
        batch
    };
    if axis(along, rank)? as i64 != batch {
        return Err(unsupported(
            "batch dimensions that are not all dimensions before the axis are not supported",
        ));
    }
    let positions = op.i64s(1)?;
    let last = op.i64_constant(&[-1]);
    let positions = op.emit("Unsqueeze", &[&positions, &last], Vec::new())?;
    moved(
        op,
        "GatherND",
        &[&positions],
        vec![proto::int("batch_dims", batch)],
    )
}

pub(super) fn gather_nd(op: &mut Operation<'_, '_>) -> Result<()> {
    let positions = op.i64s(1)?;
    moved(op, "GatherND", &[&positions], Vec::new())
}

/// Inputs: positions, table. Rows of a quantised table may have real values in the output.
pub(super) fn embedding(op: &mut Operation<'_, '_>) -> Result<()> {
    let info = op.info(1)?;
    let one_form = op.has_one_form(&[1], &[0])?;
    let has_one_scale = info.quantised().is_some_and(|it| it.scales.len() == 1);
    let positions = op.i64s(0)?;
    let attributes = vec![proto::int("axis", 0)];
    if one_form || has_one_scale {
        let table = op.stored(1)?;
        let rows = op.emit("Gather", &[&table, &positions], attributes)?;
        if one_form {
            return op.set_stored(0, rows);
        }
        let rows = op.dequantised(rows, &info)?;
        return op.set(0, rows);
    }
    let table = op.real(1)?;
    let rows = op.emit("Gather", &[&table, &positions], attributes)?;
    op.set(0, rows)
}

/// Inputs: positions, updates, shape. Updates of the same position are added.
pub(super) fn scatter_nd(op: &mut Operation<'_, '_>) -> Result<()> {
    let info = op.info(1)?;
    if info.quantised().is_some() {
        return Err(unsupported("quantised updates are not supported"));
    }
    let (positions, updates, shape) = (op.i64s(0)?, op.stored(1)?, op.i64_list(2)?);
    let zero = op.scalar_of(info.dtype, 0.0)?;
    let zeros = op.emit("Expand", &[&zero, &shape], Vec::new())?;
    let reduction = if info.dtype == data_type::BOOL {
        "none"
    } else {
        "add"
    };
    let attributes = vec![proto::text("reduction", reduction)];
    let y = op.emit("ScatterND", &[&zeros, &positions, &updates], attributes)?;
    op.set_stored(0, y)
}

/// Inputs: positions, depth, the value at the position, the value elsewhere.
pub(super) fn one_hot(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_one_hot_options();
    let along = options.map_or(-1, |it| i64::from(it.axis()));
    if !op.has_one_form(&[2, 3], &[0])? {
        return Err(unsupported(
            "values of another quantisation are not supported",
        ));
    }
    let (positions, depth) = (op.i64s(0)?, op.i64_list(1)?);
    // ONNX counts negative positions from the end; here they have no value.
    let zero = op.i64_scalar(0);
    let is_negative = op.emit("Less", &[&positions, &zero], Vec::new())?;
    let positions = op.emit("Where", &[&is_negative, &depth, &positions], Vec::new());
    let positions = positions?;
    let list = op.i64_constant(&[1]);
    let mut values = Vec::with_capacity(2);
    for index in [3, 2] {
        let value = op.stored(index)?;
        values.push(op.emit("Reshape", &[&value, &list], Vec::new())?);
    }
    let values = op.emit(
        "Concat",
        &[&values[0], &values[1]],
        vec![proto::int("axis", 0)],
    )?;
    let y = op.emit(
        "OneHot",
        &[&positions, &depth, &values],
        vec![proto::int("axis", along)],
    )?;
    op.set_stored(0, y)
}
