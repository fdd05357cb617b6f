//! Shared checks of the shape functions. Errors name the input or attribute, with expected and found.

use crate::Inference;
use std::fmt;
use std::ops::RangeInclusive;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Shape, TensorType};

/// The result of a shape function.
pub(crate) type Inferred = Result<Vec<TensorType>>;

/// An error in the model.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

/// One output.
pub(crate) fn one(dtype: DataType, shape: impl Into<Shape>) -> Inferred {
    Ok(vec![TensorType::new(dtype, shape)?])
}

/// The output is of the first input's type.
pub(crate) fn same(node: &Inference<'_>) -> Inferred {
    Ok(vec![node.input(0)?.clone()])
}

/// The output is of the first input's shape.
pub(crate) fn same_shape(node: &Inference<'_>, dtype: DataType) -> Inferred {
    one(dtype, node.input(0)?.shape().clone())
}

/// The common type of the present inputs among `names`, the first inputs.
pub(crate) fn same_dtype(node: &Inference<'_>, names: &[&str]) -> Result<DataType> {
    let first = node.input(0)?.dtype();
    for (index, name) in names.iter().enumerate().skip(1) {
        if let Some(ty) = node.optional(index) {
            expect_dtype(ty, name, first)?;
        }
    }
    Ok(first)
}

/// The type of all inputs but the `weights` inputs behind the first, which may have one type of 16 bits beside f32.
pub(crate) fn dtype_beside_weights(
    node: &Inference<'_>,
    names: &[&str],
    weights: usize,
) -> Result<DataType> {
    let narrow = node.input(1)?.dtype();
    let dtype = node.input(0)?.dtype();
    if dtype != DataType::F32 || !matches!(narrow, DataType::F16 | DataType::BF16) {
        return same_dtype(node, names);
    }
    for (index, name) in names.iter().enumerate().skip(1) {
        if let Some(ty) = node.optional(index) {
            expect_dtype(ty, name, if index <= weights { narrow } else { dtype })?;
        }
    }
    Ok(dtype)
}

/// Checks the element type of an input.
pub(crate) fn expect_dtype(ty: &TensorType, name: &str, expected: DataType) -> Result<()> {
    if ty.dtype() == expected {
        return Ok(());
    }
    Err(
        invalid(format!("input '{name}' has the wrong element type"))
            .expected(expected)
            .found(ty.dtype()),
    )
}

/// Checks the shape of an input.
pub(crate) fn expect_shape(ty: &TensorType, name: &str, expected: &[usize]) -> Result<()> {
    if **ty.shape() == *expected {
        return Ok(());
    }
    Err(invalid(format!("input '{name}' has the wrong shape"))
        .expected(format_args!("{expected:?}"))
        .found(ty.shape()))
}

/// Checks the shape of an optional input.
pub(crate) fn expect_optional_shape(
    node: &Inference<'_>,
    index: usize,
    name: &str,
    expected: &[usize],
) -> Result<()> {
    node.optional(index)
        .map_or(Ok(()), |ty| expect_shape(ty, name, expected))
}

/// Checks that an input has one element.
pub(crate) fn expect_scalar(node: &Inference<'_>, index: usize, name: &str) -> Result<()> {
    match node.optional(index) {
        Some(ty) if ty.elements() != 1 => Err(invalid(format!("input '{name}' is not a scalar"))
            .expected("one element")
            .found(ty.shape())),
        _ => Ok(()),
    }
}

/// Checks that an input is a scalar or has one element for each of `count` filters or columns.
pub(crate) fn one_or_each(
    node: &Inference<'_>,
    index: usize,
    name: &str,
    count: usize,
) -> Result<()> {
    match node.optional(index) {
        Some(ty) if ty.elements() != 1 && **ty.shape() != [count] => {
            Err(invalid(format!("input '{name}' has the wrong shape"))
                .expected(format_args!("a scalar or [{count}]"))
                .found(ty.shape()))
        }
        _ => Ok(()),
    }
}

/// Checks the rank of an input and returns it.
pub(crate) fn rank(ty: &TensorType, name: &str, expected: RangeInclusive<usize>) -> Result<usize> {
    let rank = ty.shape().len();
    if expected.contains(&rank) {
        return Ok(rank);
    }
    let (low, high) = (*expected.start(), *expected.end());
    let expected = match high {
        _ if low == high => format!("{low}"),
        usize::MAX => format!("at least {low}"),
        _ => format!("{low} to {high}"),
    };
    Err(
        invalid(format!("input '{name}' has the wrong number of dimensions"))
            .expected(expected)
            .found(format_args!("{rank} in {}", ty.shape())),
    )
}

/// An axis, possibly counted from the end, of a tensor of `rank` dimensions. `name` is its source in
/// messages ("attribute 'axis'").
pub(crate) fn axis(value: i64, rank: usize, name: &str) -> Result<usize> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    if rank == 0 || value < -signed || value >= signed {
        return Err(invalid(format!("{name} is not a dimension of the tensor"))
            .expected(if rank == 0 {
                "a tensor of at least 1 dimension".to_owned()
            } else {
                format!("{} to {}", -signed, signed - 1)
            })
            .found(value));
    }
    Ok((if value < 0 { value + signed } else { value }) as usize)
}

/// The attribute `axis` of a tensor of `rank` dimensions.
pub(crate) fn axis_attribute(node: &Inference<'_>, default: i64, rank: usize) -> Result<usize> {
    axis(
        node.attributes.int("axis", default)?,
        rank,
        "attribute 'axis'",
    )
}

/// Distinct axes, in their order.
pub(crate) fn axes(values: &[i64], rank: usize, name: &str) -> Result<Vec<usize>> {
    let mut seen = vec![false; rank];
    let mut axes = Vec::with_capacity(values.len().min(rank));
    for &value in values {
        let one = axis(value, rank, name)?;
        if std::mem::replace(&mut seen[one], true) {
            return Err(invalid(format!("{name} names dimension {one} twice"))
                .found(format_args!("{values:?}")));
        }
        axes.push(one);
    }
    Ok(axes)
}

/// A count or extent: not negative.
pub(crate) fn extent(value: i64, name: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        invalid(format!("{name} is negative"))
            .expected("at least 0")
            .found(value)
    })
}

/// A count or extent of at least 1.
pub(crate) fn positive(value: i64, name: &str) -> Result<usize> {
    usize::try_from(value)
        .ok()
        .filter(|&value| value > 0)
        .ok_or_else(|| {
            invalid(format!("{name} is out of range"))
                .expected("at least 1")
                .found(value)
        })
}

/// `a * b`, or an error that names the extent that overflows.
pub(crate) fn product(a: usize, b: usize, name: &str) -> Result<usize> {
    a.checked_mul(b)
        .ok_or_else(|| too_large(name, format_args!("{a} x {b}")))
}

/// `a + b`, or an error that names the extent that overflows.
pub(crate) fn sum(a: usize, b: usize, name: &str) -> Result<usize> {
    a.checked_add(b)
        .ok_or_else(|| too_large(name, format_args!("{a} + {b}")))
}

/// An extent that does not fit the address space.
pub(crate) fn too_large(name: &str, found: impl fmt::Display) -> Error {
    invalid(format!("{name} is larger than memory can be")).found(found)
}

/// The shape to which the inputs `names`, the first inputs, are broadcast.
pub(crate) fn broadcast(node: &Inference<'_>, names: &[&str]) -> Result<Shape> {
    let mut shape = node.input(0)?.shape().clone();
    for (index, name) in names.iter().enumerate().skip(1) {
        if let Some(ty) = node.optional(index) {
            shape = shape.broadcast(ty.shape()).ok_or_else(|| {
                invalid(format!(
                    "input '{name}' does not broadcast with those before it"
                ))
                .expected(format_args!("a shape that fits {shape}"))
                .found(ty.shape())
            })?;
        }
    }
    Ok(shape)
}

/// Checks that an input can be broadcast to `shape`.
pub(crate) fn broadcasts_to(ty: &TensorType, name: &str, shape: &[usize]) -> Result<()> {
    let target = Shape::new(shape);
    if ty
        .shape()
        .broadcast(&target)
        .is_some_and(|both| both == target)
    {
        return Ok(());
    }
    Err(invalid(format!("input '{name}' does not broadcast to {target}")).found(ty.shape()))
}

/// A text attribute that must be one of `choices`.
pub(crate) fn choice<'a>(
    node: &Inference<'a>,
    name: &str,
    default: &'a str,
    choices: &[&str],
) -> Result<&'a str> {
    let found = node.attributes.string(name, default)?;
    if choices.contains(&found) {
        return Ok(found);
    }
    Err(invalid(format!("attribute '{name}' has an unknown value"))
        .expected(choices.join(" or "))
        .found(format_args!("'{found}'")))
}

/// An attribute that names an element type.
pub(crate) fn dtype_attribute(
    node: &Inference<'_>,
    name: &str,
    default: DataType,
) -> Result<DataType> {
    match node.attributes.string(name, "")? {
        "" => Ok(default),
        text => text.parse().map_err(|_| {
            invalid(format!("attribute '{name}' is not an element type"))
                .expected("a name such as f32 or i64")
                .found(format_args!("'{text}'"))
        }),
    }
}

/// An integer attribute that must be in `range`.
pub(crate) fn choice_of(
    node: &Inference<'_>,
    name: &str,
    default: i64,
    range: RangeInclusive<i64>,
) -> Result<i64> {
    let found = node.attributes.int(name, default)?;
    if range.contains(&found) {
        return Ok(found);
    }
    Err(invalid(format!("attribute '{name}' is out of range"))
        .expected(format_args!("{} to {}", range.start(), range.end()))
        .found(found))
}
