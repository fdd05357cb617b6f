//! Selection by conditions and order.

use super::movement::axis;
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// Input 1 where input 0 is true, else input 2. With `by_row`, a condition of one dimension selects rows.
pub(super) fn select(op: &mut Operation<'_, '_>, by_row: bool) -> Result<()> {
    let one_form = op.has_one_form(&[1, 2], &[0])?;
    let mut condition = op.stored(0)?;
    let (rank, operand_rank) = (op.info(0)?.rank(), op.info(1)?.rank());
    if by_row && rank == 1 && operand_rank > 1 {
        let axes: Vec<i64> = (1..operand_rank as i64).collect();
        let axes = op.i64_constant(&axes);
        condition = op.emit("Unsqueeze", &[&condition, &axes], Vec::new())?;
    }
    let (a, b) = (op.operand(1, one_form)?, op.operand(2, one_form)?);
    let y = op.emit("Where", &[&condition, &a, &b], Vec::new())?;
    op.set_result(0, y, one_form)
}

/// The positions of true elements, one row each.
pub(super) fn positions(op: &mut Operation<'_, '_>) -> Result<()> {
    let x = op.stored(0)?;
    let y = op.emit("NonZero", &[&x], Vec::new())?;
    let y = op.emit("Transpose", &[&y], vec![proto::ints("perm", vec![1, 0])])?;
    op.set_stored(0, y)
}

/// The position of the greatest or least element; a positive scale keeps the order.
pub(super) fn arg(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let along = op.scalar(1, "dimension")?;
    let rank = op.info(0)?.rank();
    let along = axis(along, rank)? as i64;
    let has_one_scale = op.has_one_form(&[0], &[])?;
    let x = op.operand(0, has_one_scale)?;
    let attributes = vec![proto::int("axis", along), proto::int("keepdims", 0)];
    let y = op.emit(operator, &[&x], attributes)?;
    let dtype = op.output_info(0)?.dtype;
    let y = op.cast(&y, data_type::INT64, dtype)?;
    op.set_stored(0, y)
}

/// The K greatest elements of the last dimension, and their positions.
pub(super) fn top_k(op: &mut Operation<'_, '_>) -> Result<()> {
    let one_form = op.has_one_form(&[0], &[0])?;
    let x = op.operand(0, one_form)?;
    let count = op.i64_list(1)?;
    let results = op.emit_many("TopK", &[&x, &count], vec![proto::int("axis", -1)], 2)?;
    op.set_result(0, results[0].clone(), one_form)?;
    if op.outputs.len() > 1 {
        let dtype = op.output_info(1)?.dtype;
        let positions = op.cast(&results[1], data_type::INT64, dtype)?;
        op.set_stored(1, positions)?;
    }
    Ok(())
}
