//! Matmuls.

use super::quantize::expect_scales_of_product;
use super::rows::*;
use super::shapes::{Inferred, broadcasts_to, expect_scalar, invalid, one, rank, same_dtype};
use crate::geometry::Equation;
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::{Shape, TensorType};

operators! { "matmul"
    /// The matrix product of the last two dimensions; the others are broadcast. A vector on the left
    /// is a row, on the right a column, and its dimension is dropped from the result.
    Compute "MatMul" (required("A", NUMERIC), required("B", NUMERIC))
        -> (required("Y", NUMERIC)) [] matmul;
    /// alpha A' B' + beta C, of matrices; A' is A or its transpose. C is broadcast to the result.
    Compute "Gemm" (required("A", NUMERIC), required("B", NUMERIC), optional("C", NUMERIC))
        -> (required("Y", NUMERIC))
        [
            float("alpha", "factor of the product; default 1"),
            float("beta", "factor of C; default 1"),
            int("transA", "1: A is transposed; default 0"),
            int("transB", "1: B is transposed; default 0"),
        ] gemm;
    /// MatMul of bytes; sums are i32. Zero points are scalars, or one for each row of A and column of B.
    Compute "MatMulInteger"
        (required("A", BYTES), required("B", BYTES), optional("a_zero_point", BYTES),
         optional("b_zero_point", BYTES))
        -> (required("Y", I32)) [] matmul_integer;
    /// MatMul of quantized tensors with a quantized result.
    Compute "QLinearMatMul"
        (required("a", BYTES), required("a_scale", FLOATS), required("a_zero_point", BYTES),
         required("b", BYTES), required("b_scale", FLOATS), required("b_zero_point", BYTES),
         required("y_scale", FLOATS), required("y_zero_point", BYTES))
        -> (required("y", BYTES)) [] qlinear_matmul;
    /// Einstein summation: products of elements, summed over the dimensions that are not in the output.
    Compute "Einsum" (variadic("Inputs", NUMERIC)) -> (required("Output", NUMERIC))
        [must(string("equation", "a term of letters for each input, `->`, the output's letters"))]
        einsum;
    /// The determinant of the last two dimensions.
    Compute "Det" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] det;
    /// The inverse of the matrices in the last two dimensions; elements that are infinite or NaN for a singular one.
    Compute "tenon.Inverse" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] inverse;
}

/// The shape of the product of `a` and `b`, as NumPy defines it.
pub(super) fn product_shape(
    a: &TensorType,
    b: &TensorType,
    names: [&str; 2],
) -> Result<Vec<usize>> {
    rank(a, names[0], 1..=usize::MAX)?;
    rank(b, names[1], 1..=usize::MAX)?;
    let (mut left, mut right) = (a.shape().to_vec(), b.shape().to_vec());
    let (row, column) = (left.len() == 1, right.len() == 1);
    if row {
        left.insert(0, 1);
    }
    if column {
        right.push(1);
    }
    let (l, r) = (left.len(), right.len());
    if left[l - 1] != right[r - 2] {
        return Err(invalid(format!(
            "inputs '{}' and '{}' do not multiply",
            names[0], names[1]
        ))
        .expected(format_args!("{} rows", left[l - 1]))
        .found(format_args!("{} in {}", right[r - 2], b.shape())));
    }
    let batch = Shape::new(&left[..l - 2])
        .broadcast(&Shape::new(&right[..r - 2]))
        .ok_or_else(|| {
            invalid(format!(
                "inputs '{}' and '{}' do not broadcast",
                names[0], names[1]
            ))
            .expected(format_args!("dimensions that fit {}", a.shape()))
            .found(b.shape())
        })?;
    let mut shape = batch.to_vec();
    if !row {
        shape.push(left[l - 2]);
    }
    if !column {
        shape.push(right[r - 1]);
    }
    Ok(shape)
}

fn matmul(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["A", "B"])?;
    one(
        dtype,
        product_shape(node.input(0)?, node.input(1)?, ["A", "B"])?,
    )
}

fn gemm(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["A", "B", "C"])?;
    let sides = |index: usize, name: &str, flag: &str| -> Result<(usize, usize)> {
        let ty = node.input(index)?;
        rank(ty, name, 2..=2)?;
        let (rows, columns) = (ty.shape()[0], ty.shape()[1]);
        Ok(if node.attributes.flag(flag, false)? {
            (columns, rows)
        } else {
            (rows, columns)
        })
    };
    let (m, k) = sides(0, "A", "transA")?;
    let (inner, n) = sides(1, "B", "transB")?;
    if k != inner {
        return Err(invalid("inputs 'A' and 'B' do not multiply")
            .expected(format_args!("{k} rows of B"))
            .found(inner));
    }
    if let Some(c) = node.optional(2) {
        broadcasts_to(c, "C", &[m, n])?;
    }
    one(dtype, [m, n])
}

fn matmul_integer(node: &Inference<'_>) -> Inferred {
    one(
        DataType::I32,
        product_shape(node.input(0)?, node.input(1)?, ["A", "B"])?,
    )
}

fn qlinear_matmul(node: &Inference<'_>) -> Inferred {
    expect_scalar(node, 6, "y_scale")?;
    expect_scalar(node, 7, "y_zero_point")?;
    let shape = product_shape(node.input(0)?, node.input(3)?, ["a", "b"])?;
    expect_scales_of_product(node, [(1, "a_scale"), (4, "b_scale"), (6, "y_scale")])?;
    one(node.input(7)?.dtype(), shape)
}

fn einsum(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &vec!["Inputs"; node.inputs.len()])?;
    let shapes = (0..node.inputs.len())
        .map(|index| Ok(node.input(index)?.shape()))
        .collect::<Result<Vec<_>>>()?;
    one(
        dtype,
        Equation::new(node.attributes.string("equation", "")?, &shapes)?.shape(),
    )
}

fn det(node: &Inference<'_>) -> Inferred {
    let x = square(node)?;
    one(x.dtype(), x.shape()[..x.shape().len() - 2].to_vec())
}

fn inverse(node: &Inference<'_>) -> Inferred {
    Ok(vec![square(node)?.clone()])
}

/// The type of input X, whose last two dimensions must be equal.
fn square<'a>(node: &Inference<'a>) -> Result<&'a TensorType> {
    let x = node.input(0)?;
    let dims = rank(x, "X", 2..=usize::MAX)?;
    if x.shape()[dims - 2] != x.shape()[dims - 1] {
        return Err(invalid("input 'X' is not square").found(x.shape()));
    }
    Ok(x)
}
