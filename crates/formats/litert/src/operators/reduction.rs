//! Reductions over dimensions.

use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// Input 1 lists the dimensions.
pub(super) fn reduction(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let is_order = matches!(operator, "ReduceMax" | "ReduceMin");
    let one_form = is_order && op.has_one_form(&[0], &[0])?;
    let x = op.operand(0, one_form)?;
    let y = reduced(op, operator, x)?;
    op.set_result(0, y, one_form)
}

fn reduced(op: &mut Operation<'_, '_>, operator: &str, x: String) -> Result<String> {
    let options = op.operator.builtin_options_as_reducer_options();
    let keeps_dims = options.is_some_and(|options| options.keep_dims());
    let axes = op.i64_list(1)?;
    let attributes = vec![
        proto::int("keepdims", keeps_dims.into()),
        // Without dimensions nothing is reduced.
        proto::int("noop_with_empty_axes", 1),
    ];
    op.emit(operator, &[&x, &axes], attributes)
}

/// Any or all of bools: the maximum or minimum of 0 and 1.
pub(super) fn of_bools(op: &mut Operation<'_, '_>, operator: &str) -> Result<()> {
    let x = op.stored(0)?;
    let x = op.cast(&x, data_type::BOOL, data_type::INT32)?;
    let y = reduced(op, operator, x)?;
    let y = op.cast(&y, data_type::INT32, data_type::BOOL)?;
    op.set_stored(0, y)
}

pub(super) fn cumulative_sum(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_cumsum_options();
    let (exclusive, reverse) = options.map_or((false, false), |it| (it.exclusive(), it.reverse()));
    let along = op.scalar(1, "dimension")?;
    let (x, along) = (op.real(0)?, op.i64_scalar(along));
    let attributes = vec![
        proto::int("exclusive", exclusive.into()),
        proto::int("reverse", reverse.into()),
    ];
    let y = op.emit("CumSum", &[&x, &along], attributes)?;
    op.set(0, y)
}
