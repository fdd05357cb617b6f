//! Constants: tensors from shapes and attributes alone.

use super::movement::listed;
use super::rows::*;
use super::shapes::{Inferred, dtype_attribute, expect_scalar, invalid, one, rank, same_dtype};
use crate::operator::{AttributeDef, OperandDef};
use crate::{Attribute, DataType, Inference};
use tenon_tensor::TensorType;

const SIZE: OperandDef = known(required("size", INDICES));
const PERIODIC: AttributeDef = int(
    "periodic",
    "1: one period of a repeated window, 0: symmetric; default 1",
);
const WINDOW_TYPE: AttributeDef = string("output_datatype", "the element type; default f32");

operators! { "constant"
    /// The tensor in its one attribute.
    Compute "Constant" () -> (required("output", ANY))
        [
            tensor("value", "a tensor"),
            float("value_float", "a number, as f32[]"),
            floats("value_floats", "f32 values, as f32[n]"),
            int("value_int", "an integer, as i64[]"),
            ints("value_ints", "integers, as i64[n]"),
        ] constant;
    /// One element repeated to a shape.
    Compute "ConstantOfShape" (known(required("input", I64))) -> (required("output", ANY))
        [tensor("value", "the element, in a tensor of one; default 0 as f32")] constant_of_shape;
    /// The values from `start` to before `limit`, `delta` apart.
    Compute "Range"
        (known(required("start", SIGNED)), known(required("limit", SIGNED)),
         known(required("delta", SIGNED)))
        -> (required("output", SIGNED))
        [int("stash_type", "1: 16-bit types are computed in f32; default 1")] range;
    /// The input's shape, or the part of it from dimension `start` to before `end`.
    Compute "Shape" (required("data", ANY)) -> (required("shape", I64))
        [
            int("start", "the first dimension, may count from the end; default 0"),
            int("end", "the dimension to stop before, may count from the end; default all"),
        ] shape;
    /// The number of elements of the input.
    Compute "Size" (required("data", ANY)) -> (required("size", I64)) [] size;
    /// A matrix of the input's shape: 1 on a diagonal, else 0.
    Compute "EyeLike" (required("input", PLAIN)) -> (required("output", PLAIN))
        [
            string("dtype", "the element type; default the input's"),
            int("k", "the diagonal; above the main one when positive; default 0"),
        ] eye_like;
    /// A Hann window with `size` samples.
    Compute "HannWindow" (SIZE) -> (required("output", NUMERIC)) [WINDOW_TYPE, PERIODIC] window;
    /// A Hamming window with `size` samples.
    Compute "HammingWindow" (SIZE) -> (required("output", NUMERIC)) [WINDOW_TYPE, PERIODIC] window;
    /// A Blackman window with `size` samples.
    Compute "BlackmanWindow" (SIZE) -> (required("output", NUMERIC)) [WINDOW_TYPE, PERIODIC] window;
}

fn constant(node: &Inference<'_>) -> Inferred {
    let mut given = node.attributes.iter();
    let (Some((_, value)), None) = (given.next(), given.next()) else {
        return Err(
            invalid("a constant needs exactly one attribute").found(node.attributes.iter().count())
        );
    };
    match value {
        Attribute::Tensor(tensor) => Ok(vec![tensor.ty().clone()]),
        Attribute::Float(_) => one(DataType::F32, []),
        Attribute::Floats(values) => one(DataType::F32, [values.len()]),
        Attribute::Int(_) => one(DataType::I64, []),
        Attribute::Ints(values) => one(DataType::I64, [values.len()]),
        other => Err(invalid("a constant cannot hold this").found(other.kind())),
    }
}

fn constant_of_shape(node: &Inference<'_>) -> Inferred {
    let dtype = match node.attributes.tensor("value")? {
        None => DataType::F32,
        Some(tensor) if tensor.ty().elements() == 1 => tensor.dtype(),
        Some(tensor) => {
            return Err(invalid("attribute 'value' is not one element")
                .expected("one element")
                .found(tensor.shape()));
        }
    };
    rank(node.input(0)?, "input", 1..=1)?;
    one(dtype, listed(node, 0, "input")?)
}

fn range(node: &Inference<'_>) -> Inferred {
    let names = ["start", "limit", "delta"];
    let dtype = same_dtype(node, &names)?;
    for (index, name) in names.iter().enumerate() {
        expect_scalar(node, index, name)?;
    }
    let count = if dtype.is_integer() {
        let value = |index| {
            Ok(node
                .ints(index)?
                .and_then(|v| v.first().copied())
                .unwrap_or(0))
        };
        integer_steps(value(0)?, value(1)?, value(2)?)
    } else {
        let value = |index| {
            Ok(node
                .float_values(index)?
                .and_then(|v| v.first().copied())
                .unwrap_or(0.0))
        };
        float_steps(value(0)?, value(1)?, value(2)?)
    };
    let count = count.ok_or_else(|| {
        invalid("input 'delta' does not lead from 'start' to 'limit'")
            .expected("a number that is not 0")
    })?;
    one(dtype, [count])
}

fn integer_steps(start: i64, limit: i64, delta: i64) -> Option<usize> {
    let (span, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
    if delta == 0 {
        return None;
    }
    let whole = span / delta;
    let rest = span % delta != 0 && (span < 0) == (delta < 0);
    usize::try_from((whole + i128::from(rest)).max(0)).ok()
}

fn float_steps(start: f64, limit: f64, delta: f64) -> Option<usize> {
    let count = ((limit - start) / delta).ceil().max(0.0);
    // `max` turns a NaN into 0: the inputs are checked instead.
    let sane = start.is_finite() && limit.is_finite() && delta.is_finite() && delta != 0.0;
    (sane && count < 9e15).then_some(count as usize)
}

fn shape(node: &Inference<'_>) -> Inferred {
    let dims = node.input(0)?.shape().len();
    let dims = i64::try_from(dims).unwrap_or(i64::MAX);
    let clamp = |value: i64| {
        (if value < 0 {
            value.saturating_add(dims)
        } else {
            value
        })
        .clamp(0, dims)
    };
    let start = clamp(node.attributes.int("start", 0)?);
    let end = clamp(node.attributes.int("end", dims)?);
    one(DataType::I64, [usize::try_from(end - start).unwrap_or(0)])
}

fn size(node: &Inference<'_>) -> Inferred {
    node.input(0)?;
    one(DataType::I64, [])
}

fn eye_like(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 2..=2)?;
    one(
        dtype_attribute(node, "dtype", input.dtype())?,
        input.shape().clone(),
    )
}

fn window(node: &Inference<'_>) -> Inferred {
    expect_scalar(node, 0, "size")?;
    let dims = listed(node, 0, "size")?;
    Ok(vec![TensorType::new(
        dtype_attribute(node, "output_datatype", DataType::F32)?,
        dims,
    )?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_their_steps() {
        assert_eq!(integer_steps(3, 9, 3), Some(2));
        assert_eq!(integer_steps(10, 4, -2), Some(3));
        assert_eq!(integer_steps(0, 7, 2), Some(4));
        assert_eq!(integer_steps(0, -7, 2), Some(0));
        assert_eq!(integer_steps(0, 1, 0), None);
        assert_eq!(
            integer_steps(i64::MIN, i64::MAX, 1),
            Some(u64::MAX as usize)
        );
        assert_eq!(float_steps(0.0, 1.0, 0.3), Some(4));
        assert_eq!(float_steps(0.0, 1.0, f64::NAN), None);
        assert_eq!(float_steps(0.0, 1.0, 1e-300), None);
    }
}
