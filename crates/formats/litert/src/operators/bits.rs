//! Operators on the bits of elements.

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

pub(super) fn xor(op: &mut Operation<'_, '_>) -> Result<()> {
    let operator = match op.info(0)?.dtype {
        data_type::BOOL => "Xor",
        _ => "BitwiseXor",
    };
    let (a, b) = (op.stored(0)?, op.stored(1)?);
    let y = op.emit(operator, &[&a, &b], Vec::new())?;
    op.set_stored(0, y)
}

/// A shift that keeps the sign, by 0 to all bits but one.
pub(super) fn right_shift(op: &mut Operation<'_, '_>) -> Result<()> {
    let info = op.info(0)?;
    let (x, amount) = (op.stored(0)?, op.stored(1)?);
    let [least, most] = [0, info.bits as i64 - 1].map(|value| op.i64_scalar(value));
    let least = op.cast(&least, data_type::INT64, info.dtype)?;
    let most = op.cast(&most, data_type::INT64, info.dtype)?;
    let amount = op.emit("Clip", &[&amount, &least, &most], Vec::new())?;
    let y = op.emit("BitShift", &[&x, &amount], vec![right()])?;
    op.set_stored(0, y)
}

fn right() -> tenon_onnx::proto::AttributeProto {
    proto::text("direction", "RIGHT")
}

/// The bits of the elements as those of another type; the last dimension has the parts of wider elements.
pub(super) fn bit_cast(op: &mut Operation<'_, '_>) -> Result<()> {
    let (from, to) = (op.info(0)?, op.output_info(0)?);
    let (Some(narrow), Some(wide)) = (unsigned(from.bits), unsigned(to.bits)) else {
        return Err(unsupported(
            "elements of less than a byte are not supported",
        ));
    };
    let x = op.stored(0)?;
    if from.bits == to.bits {
        let y = bits_as(op, &x, from.dtype, to.dtype)?;
        return op.set_stored(0, y);
    }
    let last = op.i64_constant(&[-1]);
    let y = if from.bits > to.bits {
        let x = bits_as(op, &x, from.dtype, narrow)?;
        let x = op.emit("Unsqueeze", &[&x, &last], Vec::new())?;
        let amounts = positions(op, from.bits, to.bits, narrow)?;
        let parts = op.emit("BitShift", &[&x, &amounts], vec![right()])?;
        let mask = op.i64_scalar((1 << to.bits) - 1);
        let mask = op.cast(&mask, data_type::INT64, narrow)?;
        let parts = op.emit("BitwiseAnd", &[&parts, &mask], Vec::new())?;
        let parts = op.cast(&parts, narrow, wide)?;
        bits_as(op, &parts, wide, to.dtype)?
    } else {
        let count = (to.bits / from.bits) as i64;
        if from.shape.last() != Some(&count) {
            return Err(invalid("the last dimension has the wrong extent")
                .expected(count)
                .found(format_args!("{:?}", from.shape)));
        }
        let x = bits_as(op, &x, from.dtype, narrow)?;
        let x = op.cast(&x, narrow, wide)?;
        let amounts = positions(op, to.bits, from.bits, wide)?;
        let left = vec![proto::text("direction", "LEFT")];
        let parts = op.emit("BitShift", &[&x, &amounts], left)?;
        // Parts have no bits in common, so that their sum has those of all.
        let keeps = vec![proto::int("keepdims", 0)];
        let whole = op.emit("ReduceSum", &[&parts, &last], keeps)?;
        bits_as(op, &whole, wide, to.dtype)?
    };
    op.set_stored(0, y)
}

/// The same bits as elements of another type of the same width.
fn bits_as(op: &mut Operation<'_, '_>, value: &str, from: i32, to: i32) -> Result<String> {
    if from == to {
        return Ok(value.to_owned());
    }
    op.emit("BitCast", &[value], vec![proto::int("to", to.into())])
}

/// The positions of the parts of an element: 0, `narrow`, ... below `wide`.
fn positions(op: &mut Operation<'_, '_>, wide: usize, narrow: usize, to: i32) -> Result<String> {
    let all: Vec<i64> = (0..wide as i64).step_by(narrow).collect();
    let all = op.i64_constant(&all);
    op.cast(&all, data_type::INT64, to)
}

/// The type of integers of this width.
fn unsigned(bits: usize) -> Option<i32> {
    Some(match bits {
        8 => data_type::UINT8,
        16 => data_type::UINT16,
        32 => data_type::UINT32,
        64 => data_type::UINT64,
        _ => return None,
    })
}
