//! Operators that move elements. Quantised elements are moved as they are stored where inputs and outputs have the same scale.

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto::{self, Attributes};
use crate::schema::tflite as schema;
use crate::tensor::TensorInfo;
use schema::{ActivationFunctionType as Activation, MirrorPadMode};
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// One node that moves the elements of input 0; the other operands are as given.
pub(super) fn moved(
    op: &mut Operation<'_, '_>,
    operator: &str,
    operands: &[&str],
    attributes: Attributes,
) -> Result<()> {
    let one_form = op.has_one_form(&[0], &[0])?;
    let x = op.operand(0, one_form)?;
    let inputs: Vec<&str> = [x.as_str()]
        .into_iter()
        .chain(operands.iter().copied())
        .collect();
    let y = op.emit(operator, &inputs, attributes)?;
    op.set_result(0, y, one_form)
}

/// A dimension, counted from the end if it is negative.
pub(super) fn axis(value: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    let counted = if value < 0 {
        value.saturating_add(rank)
    } else {
        value
    };
    let found = usize::try_from(counted).ok().filter(|_| counted < rank);
    found.ok_or_else(|| {
        invalid("a dimension does not exist")
            .expected(format_args!("from {} to {}", -rank, rank - 1))
            .found(value)
    })
}

/// The scalar constant that represents 0 in a stored tensor.
pub(super) fn zero(op: &mut Operation<'_, '_>, info: &TensorInfo) -> Result<String> {
    let Some(quantisation) = info.quantised() else {
        return op.scalar_of(info.dtype, 0.0);
    };
    let zero = match quantisation.zero_points.as_slice() {
        &[zero] => zero,
        several if several.iter().all(|&zero| zero == 0) => 0,
        _ => {
            return Err(unsupported(
                "padding of a tensor with several zero points is not supported",
            ));
        }
    };
    let zero = op.i64_scalar(zero);
    op.cast(&zero, data_type::INT64, info.dtype)
}

pub(super) fn transpose(op: &mut Operation<'_, '_>) -> Result<()> {
    let order = op.ints(1, "order of the dimensions")?;
    moved(op, "Transpose", &[], vec![proto::ints("perm", order)])
}

pub(super) fn concatenation(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_concatenation_options();
    let (along, activation) = options.map_or((0, Activation::NONE), |it| {
        (it.axis(), it.fused_activation_function())
    });
    joined(op, along.into(), activation)
}

/// All inputs, one after the other.
fn joined(op: &mut Operation<'_, '_>, along: i64, activation: Activation) -> Result<()> {
    let all: Vec<usize> = (0..op.inputs.len()).collect();
    let one_form = activation == Activation::NONE && op.has_one_form(&all, &[0])?;
    let mut parts = Vec::with_capacity(all.len());
    for index in all {
        parts.push(op.operand(index, one_form)?);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let y = op.emit("Concat", &parts, vec![proto::int("axis", along)])?;
    if one_form {
        return op.set_stored(0, y);
    }
    let y = op.activated(y, activation)?;
    op.set(0, y)
}

/// All inputs along a new dimension.
pub(super) fn pack(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_pack_options();
    let along: i64 = options.map_or(0, |it| it.axis()).into();
    let all: Vec<usize> = (0..op.inputs.len()).collect();
    let one_form = op.has_one_form(&all, &[0])?;
    let axes = op.i64_constant(&[along]);
    let mut parts = Vec::with_capacity(all.len());
    for index in all {
        let part = op.operand(index, one_form)?;
        parts.push(op.emit("Unsqueeze", &[&part, &axes], Vec::new())?);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let y = op.emit("Concat", &parts, vec![proto::int("axis", along)])?;
    op.set_result(0, y, one_form)
}

/// The parts along a dimension, without it.
pub(super) fn unpack(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_unpack_options();
    let along: i64 = options.map_or(0, |it| it.axis()).into();
    let one_form = op.has_one_form(&[0], &(0..op.outputs.len()).collect::<Vec<_>>())?;
    let x = op.operand(0, one_form)?;
    let axes = op.i64_constant(&[along]);
    let parts = split_parts(op, x, along)?;
    for (index, part) in parts.into_iter().enumerate() {
        let y = op.emit("Squeeze", &[&part, &axes], Vec::new())?;
        op.set_result(index, y, one_form)?
    }
    Ok(())
}

/// As many equal parts as there are outputs.
fn split_parts(op: &mut Operation<'_, '_>, x: String, along: i64) -> Result<Vec<String>> {
    let count = op.outputs.len();
    let attributes = vec![
        proto::int("axis", along),
        proto::int("num_outputs", count as i64),
    ];
    op.emit_many("Split", &[&x], attributes, count)
}

/// Inputs: dimension, tensor.
pub(super) fn split(op: &mut Operation<'_, '_>) -> Result<()> {
    let along = op.scalar(0, "dimension")?;
    let one_form = op.has_one_form(&[1], &(0..op.outputs.len()).collect::<Vec<_>>())?;
    let x = op.operand(1, one_form)?;
    let parts = split_parts(op, x, along)?;
    set_parts(op, parts, one_form)
}

/// Inputs: tensor, sizes, dimension.
pub(super) fn split_v(op: &mut Operation<'_, '_>) -> Result<()> {
    let along = op.scalar(2, "dimension")?;
    let one_form = op.has_one_form(&[0], &(0..op.outputs.len()).collect::<Vec<_>>())?;
    let x = op.operand(0, one_form)?;
    let mut sizes = op.ints(1, "sizes")?;
    if let Some(open) = sizes.iter().position(|&size| size == -1) {
        let info = op.info(0)?;
        let extent = info.shape[axis(along, info.rank())?];
        let others = sizes
            .iter()
            .filter(|&&size| size != -1)
            .fold(0i64, |sum, &size| sum.saturating_add(size));
        if extent < 0 {
            return Err(unsupported(
                "a size of -1 along a dimension that is not known is not supported",
            ));
        }
        sizes[open] = extent.saturating_sub(others);
    }
    let sizes = op.i64_constant(&sizes);
    let count = op.outputs.len();
    let parts = op.emit_many(
        "Split",
        &[&x, &sizes],
        vec![proto::int("axis", along)],
        count,
    )?;
    set_parts(op, parts, one_form)
}

fn set_parts(op: &mut Operation<'_, '_>, parts: Vec<String>, one_form: bool) -> Result<()> {
    for (index, part) in parts.into_iter().enumerate() {
        op.set_result(index, part, one_form)?
    }
    Ok(())
}

/// Padding with 0, or with input 2: pairs of amounts become all amounts before, then all after.
pub(super) fn pad(op: &mut Operation<'_, '_>) -> Result<()> {
    let amounts = pad_amounts(op)?;
    let info = op.info(0)?;
    if !op.has_one_form(&[0], &[0])? {
        return Err(unsupported(
            "padding that changes the quantisation is not supported",
        ));
    }
    let value = if op.has_input(2) {
        if !op.has_one_form(&[0, 2], &[])? {
            return Err(unsupported(
                "a padding value of another quantisation is not supported",
            ));
        }
        let value = op.stored(2)?;
        let shape = op.i64_constant(&[]);
        op.emit("Reshape", &[&value, &shape], Vec::new())?
    } else {
        zero(op, &info)?
    };
    let x = op.stored(0)?;
    let y = op.emit("Pad", &[&x, &amounts, &value], Vec::new())?;
    op.set_stored(0, y)
}

fn pad_amounts(op: &mut Operation<'_, '_>) -> Result<String> {
    if let Some(pairs) = op.constant_ints(1)? {
        let pairs = pairs.as_chunks::<2>().0;
        let sides = [0, 1].map(|side| pairs.iter().map(|pair| pair[side]).collect::<Vec<i64>>());
        return Ok(op.i64_constant(&sides.concat()));
    }
    let pairs = op.i64s(1)?;
    let sides = op.emit(
        "Transpose",
        &[&pairs],
        vec![proto::ints("perm", vec![1, 0])],
    )?;
    let shape = op.i64_constant(&[-1]);
    op.emit("Reshape", &[&sides, &shape], Vec::new())
}

/// Padding with mirrored elements, without those of the border (REFLECT) or with them (SYMMETRIC).
pub(super) fn mirror_pad(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_mirror_pad_options();
    let mode = options.map_or(MirrorPadMode::REFLECT, |it| it.mode());
    if mode == MirrorPadMode::REFLECT {
        let amounts = pad_amounts(op)?;
        return moved(op, "Pad", &[&amounts], vec![proto::text("mode", "reflect")]);
    }
    let pairs = op.ints(1, "paddings")?;
    let one_form = op.has_one_form(&[0], &[0])?;
    let mut x = op.operand(0, one_form)?;
    for (along, &[before, after]) in pairs.as_chunks::<2>().0.iter().enumerate() {
        let along = along as i64;
        let mut parts = vec![x.clone()];
        if before > 0 {
            parts.insert(0, mirrored(op, &x, along, before - 1, i64::MIN + 1)?);
        }
        if after > 0 {
            parts.push(mirrored(op, &x, along, -1, -1 - after)?);
        }
        if parts.len() > 1 {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            x = op.emit("Concat", &parts, vec![proto::int("axis", along)])?;
        }
    }
    op.set_result(0, x, one_form)
}

/// Elements from `start` down to the one before `end`.
fn mirrored(
    op: &mut Operation<'_, '_>,
    x: &str,
    along: i64,
    start: i64,
    end: i64,
) -> Result<String> {
    let bounds = [start, end, along, -1].map(|value| op.i64_constant(&[value]));
    let inputs: Vec<&str> = [x]
        .into_iter()
        .chain(bounds.iter().map(String::as_str))
        .collect();
    op.emit("Slice", &inputs, Vec::new())
}

/// The first elements of each row in reverse order; input 1 has the counts.
pub(super) fn reverse_sequence(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_reverse_sequence_options();
    let (time, batch) = options.map_or((0, 0), |it| (it.seq_dim(), it.batch_dim()));
    let lengths = op.i64s(1)?;
    let attributes = vec![
        proto::int("time_axis", time.into()),
        proto::int("batch_axis", batch.into()),
    ];
    moved(op, "ReverseSequence", &[&lengths], attributes)
}
