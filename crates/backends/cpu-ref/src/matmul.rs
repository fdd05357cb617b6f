//! Matrix products, determinants and inverses.

use crate::activation::Activation;
use crate::chunks::for_each_chunk_of;
use crate::elements::Elements;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, numeric, scratch, unsupported, unsupported_type,
};
use crate::lanes::{SUM, TOTALS};
use crate::loop_nest::{LoopNest, broadcast, strides};
use crate::number::{Accumulator, Number, read_terms};
use crate::product::{Extents, Order, product};
use crate::quantize::{QuantizedSum, Weights, quantized_output};
use tenon_base::{Result, stop, vectorized};
use tenon_tensor::{DataType, Shape};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("MatMul", matmul),
    ("Gemm", gemm),
    ("tenon.MatMul", fused),
    ("tenon.QuantizedMatMul", fused_quantized),
    ("tenon.WeightOnlyMatMul", weight_only),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", qlinear_matmul),
    ("Det", det),
    ("tenon.Inverse", inverse),
];

/// A product of matrices [m, k] and [k, n] for each index of the batch dimensions.
pub(crate) struct BatchedProduct {
    /// The starts of the matrices of the output, of A and of B.
    batches: LoopNest<3>,
    m: usize,
    n: usize,
    k: usize,
    /// The row and column strides of A.
    a: [usize; 2],
    /// The row and column strides of B.
    b: [usize; 2],
}

impl BatchedProduct {
    /// The product of tensors of these shapes (of at least two dimensions), each optionally transposed.
    fn new(a: &[usize], b: &[usize], [transpose_a, transpose_b]: [bool; 2]) -> Result<Self> {
        let matrix = |shape: &[usize], transpose: bool| {
            let [.., rows, columns] = *shape else {
                return ([0, 0], [0, 0]);
            };
            if transpose {
                ([columns, rows], [1, columns])
            } else {
                ([rows, columns], [columns, 1])
            }
        };
        let ([m, k], a_strides) = matrix(a, transpose_a);
        let ([_, n], b_strides) = matrix(b, transpose_b);
        let (a_lead, b_lead) = (&a[..a.len() - 2], &b[..b.len() - 2]);
        let lead = Shape::new(a_lead)
            .broadcast(&Shape::new(b_lead))
            .unwrap_or_default();
        let of = |lead_of: &[usize], size: usize| -> Result<Vec<isize>> {
            let strides = broadcast(&Shape::new(lead_of), &lead)?;
            Ok(strides
                .iter()
                .map(|stride| stride * size as isize)
                .collect())
        };
        let out: Vec<isize> = strides(&lead)
            .iter()
            .map(|s| s * (m * n) as isize)
            .collect();
        let batches = LoopNest::new(&lead, [&out, &of(a_lead, m * k)?, &of(b_lead, k * n)?]);
        Ok(Self {
            batches,
            m,
            n,
            k,
            a: a_strides,
            b: b_strides,
        })
    }

    /// The product of inputs 0 and `right`; a vector is a row on the left, a column on the right.
    fn of(node: &Node<'_>, right: usize, transposed: [bool; 2]) -> Result<Self> {
        let (mut a, mut b) = (node.shape(0)?.to_vec(), node.shape(right)?.to_vec());
        if a.len() == 1 {
            a.insert(0, 1);
        }
        if b.len() == 1 {
            b.push(1);
        }
        Self::new(&a, &b, transposed)
    }

    fn b_order(&self) -> Order {
        if self.b[0] == 1 && self.b[1] != 1 {
            Order::Columns
        } else {
            Order::Rows
        }
    }

    /// Computes all sums of products.
    ///
    /// * `a(start, step, i, to)` writes the elements of row `i` of A, which are at `start`, `start + step`...
    /// * `b(start, step, j, to)` writes those of columns `j`, `j + 1`... of B; of column `j` alone if
    ///   [`b_order`](Self::b_order) is columns;
    /// * `store(to, at, i, j, sums)` writes the elements of row `i` from column `j` on, which are those of the output
    ///   from `at` on.
    fn compute<S: Accumulator, T: Send>(
        &self,
        to: &mut [T],
        a: impl Fn(usize, usize, usize, &mut [S]) + Sync,
        b: impl Fn(usize, usize, usize, &mut [S]) + Sync,
        store: impl Fn(&mut [T], usize, usize, usize, &[S]) + Sync,
    ) {
        let Self { m, n, k, .. } = *self;
        let ([a_row, a_column], [b_row, b_column]) = (self.a, self.b);
        let order = self.b_order();
        // One row is divided by columns.
        let unit = if m == 1 { 1 } else { n };
        let operations = to.len().saturating_mul(k);
        for_each_chunk_of(to, unit, operations, |first, mut rest| {
            let mut at = first;
            while !rest.is_empty() {
                let (row, column) = (at / n % m, at % n);
                let (rows, columns) = if m == 1 {
                    (1, rest.len().min(n - column))
                } else {
                    (m.min(row + rest.len() / n) - row, n)
                };
                let [_, a_start, b_start] = self.batches.at(at / n / m);
                let block = rest.split_off_mut(..rows * columns).unwrap_or_default();
                product(
                    Extents {
                        rows,
                        columns,
                        depth: k,
                        b: order,
                    },
                    |i, k, to| {
                        a(
                            a_start + (row + i) * a_row + k * a_column,
                            a_column,
                            row + i,
                            to,
                        )
                    },
                    |k, j, to| {
                        let start = b_start + k * b_row + (column + j) * b_column;
                        let step = if order == Order::Rows {
                            b_column
                        } else {
                            b_row
                        };
                        b(start, step, column + j, to);
                    },
                    |i, j, sums| {
                        let within = i * columns + j;
                        let to = &mut block[within..within + sums.len()];
                        store(to, at + within, row + i, column + j, sums);
                    },
                );
                at += rows * columns;
            }
        });
    }
}

/// The elements of a matrix for [`BatchedProduct::compute`].
fn operand<T: Number>(from: &[T]) -> impl Fn(usize, usize, usize, &mut [T::Accumulator]) + Sync {
    |start, step, _, to| read_terms(from, start, step as isize, to)
}

fn matmul(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 1, [false; 2])?;
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        products.compute(outputs.slice::<T>(0)?, operand(a), operand(b), |to, _, _, _, sums| {
            to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = T::total(sum));
        });
        Ok(())
    })))
}

fn gemm(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [
        node.attributes.flag("transA", false)?,
        node.attributes.flag("transB", false)?,
    ];
    let products = BatchedProduct::of(node, 1, flags)?;
    let alpha = f64::from(node.attributes.float("alpha", 1.0)?);
    let beta = f64::from(node.attributes.float("beta", 1.0)?);
    let out = node.output(0)?.shape();
    let added = match node.optional(2) {
        Some(c) => broadcast(c.shape(), out)?,
        None => vec![0, 0],
    };
    let at_c = move |i: usize, j: usize| i * added[0] as usize + j * added[1] as usize;
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let c = inputs.optional::<T>(2)?;
        products.compute(outputs.slice::<T>(0)?, operand(a), operand(b), |to, _, i, first, sums| {
            for ((to, sum), j) in to.iter_mut().zip(sums).zip(first..) {
                let scaled = sum.scaled(alpha);
                *to = T::total(match c {
                    Some(c) => scaled.added(c[at_c(i, j)].term().scaled(beta)),
                    None => scaled,
                });
            }
        });
        Ok(())
    })))
}

/// act(scale A' B' + bias + Z).
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [
        node.attributes.flag("trans_a", false)?,
        node.attributes.flag("trans_b", false)?,
    ];
    let products = BatchedProduct::of(node, 1, flags)?;
    let scale = f64::from(node.attributes.float("scale", 1.0)?);
    let activation = Activation::of(node)?;
    let weights = node.dtype(1)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, Elements::new(&inputs, 1, weights)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        products.compute(outputs.slice::<T>(0)?, operand(a), |start, _, _, to| b.reals(start, to), |to, at, _, j, sums| {
            for (nth, (to, sum)) in to.iter_mut().zip(sums).enumerate() {
                let bias = bias.map_or(0.0, |bias| bias[j + nth].to_f64());
                let z = z.map_or(0.0, |z| z[at + nth].to_f64());
                *to = T::of_f64(activation.apply(sum * scale + bias + z));
            }
        });
        Ok(())
    })))
}

/// quantize(activation(dequantize(A) dequantize(B') + bias + dequantize(Z))).
fn fused_quantized(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [false, node.attributes.flag("trans_b", false)?];
    let products = BatchedProduct::of(node, 3, flags)?;
    // The elements of B that are read together are of one column, or of columns one after the other.
    let along = usize::from(products.b_order() == Order::Rows);
    let sum = QuantizedSum::of(node)?;
    quantized_output!(node, Y => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let sum = sum.bind::<Y>(&inputs)?;
        products.compute(
            outputs.slice::<Y>(0)?,
            |start, step, _, to| sum.left(start, step, to),
            |start, step, column, to| sum.right((start, step), (column, along), to),
            |to, at, _, first, sums| {
                for (nth, (to, &total)) in to.iter_mut().zip(sums).enumerate() {
                    *to = sum.finish(at + nth, first + nth, total);
                }
            },
        );
        Ok(())
    })))
}

/// activation(A dequantize(B') + bias + Z).
fn weight_only(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [false, node.attributes.flag("trans_b", false)?];
    let products = BatchedProduct::of(node, 1, flags)?;
    let weights = Weights::of(node)?;
    let activation = Activation::of(node)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let a = inputs.slice::<T>(0)?;
        let (bias, z) = (inputs.optional::<T>(4)?, inputs.optional::<T>(5)?);
        let weights = weights.bind(&inputs)?;
        products.compute(
            outputs.slice::<T>(0)?,
            |start, step, _, to: &mut [f64]| {
                for (nth, to) in to.iter_mut().enumerate() {
                    *to = a[start + nth * step].to_f64();
                }
            },
            // The elements that are read together are one after the other in either order.
            |start, _, _, to| weights(start, to),
            |to, at, _, j, sums| {
                for (nth, (to, sum)) in to.iter_mut().zip(sums).enumerate() {
                    let bias = bias.map_or(0.0, |bias| bias[j + nth].to_f64());
                    let z = z.map_or(0.0, |z| z[at + nth].to_f64());
                    *to = T::of_f64(activation.apply(sum + bias + z));
                }
            },
        );
        Ok(())
    })))
}

/// The stride of a quantization parameter: 0 per tensor, 1 per row or column.
#[derive(Debug, Clone, Copy)]
struct ParameterStride {
    step: usize,
}

impl ParameterStride {
    /// `input` has one element, or `count`.
    fn new(node: &Node<'_>, input: usize, count: usize) -> Result<Self, BuildError> {
        match node.optional(input).map(|ty| ty.elements()) {
            None | Some(1) => Ok(Self { step: 0 }),
            Some(found) if found == count => Ok(Self { step: 1 }),
            Some(_) => Err(unsupported(format!(
                "input {input} requires one element, or one per row or column"
            ))),
        }
    }

    fn at(self, index: usize) -> usize {
        index * self.step
    }
}

/// Evaluates `$body` with `$A` and `$B` as the types of quantized inputs `$a` and `$b`.
macro_rules! bytes {
    ($node:expr, $a:expr, $b:expr, $A:ident, $B:ident => $body:expr) => {
        bytes!($node, $a, $A => bytes!($node, $b, $B => $body))
    };
    ($node:expr, $input:expr, $T:ident => $body:expr) => {
        match $node.dtype($input)? {
            DataType::U8 => { type $T = u8; $body }
            DataType::I8 => { type $T = i8; $body }
            found => Err(unsupported_type($input, found)),
        }
    };
}
pub(crate) use bytes;

/// Quantized elements less their zero points, in f64, in which products of bytes and their sums are exact. `zero(i)`
/// is the zero point of row or column `i`, of which `along` elements are apart in one.
pub(crate) fn quantized<T: Copy + Into<f64> + Sync>(
    from: &[T],
    zero: impl Fn(usize) -> f64 + Sync,
    along: usize,
) -> impl Fn(usize, usize, usize, &mut [f64]) + Sync {
    move |start, step, first, to| {
        for (nth, to) in to.iter_mut().enumerate() {
            *to = from[start + nth * step].into() - zero(first + nth * along);
        }
    }
}

fn matmul_integer(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 1, [false; 2])?;
    let (rows, columns) = (
        ParameterStride::new(node, 2, products.m)?,
        ParameterStride::new(node, 3, products.n)?,
    );
    bytes!(node, 0, 1, A, B => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a_zero, b_zero) = (inputs.optional::<A>(2)?, inputs.optional::<B>(3)?);
        let a_zero = |i: usize| a_zero.map_or(0.0, |zero| zero[rows.at(i)].into());
        let b_zero = |j: usize| b_zero.map_or(0.0, |zero| zero[columns.at(j)].into());
        let a = quantized(inputs.slice::<A>(0)?, a_zero, 0);
        let b = quantized(inputs.slice::<B>(1)?, b_zero, 1);
        products.compute(outputs.slice::<i32>(0)?, a, b, |to, _, _, _, sums| {
            to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum as i64 as i32);
        });
        Ok(())
    })))
}

fn qlinear_matmul(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 3, [false; 2])?;
    let rows = [
        ParameterStride::new(node, 1, products.m)?,
        ParameterStride::new(node, 2, products.m)?,
    ];
    let columns = [
        ParameterStride::new(node, 4, products.n)?,
        ParameterStride::new(node, 5, products.n)?,
    ];
    let types = [node.dtype(1)?, node.dtype(4)?, node.dtype(6)?];
    bytes!(node, 0, 3, A, B => bytes!(node, 7, Y => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a_zero, b_zero) = (inputs.slice::<A>(2)?, inputs.slice::<B>(5)?);
        let a_scale = Elements::new(&inputs, 1, types[0])?;
        let b_scale = Elements::new(&inputs, 4, types[1])?;
        let y_scale = Elements::new(&inputs, 6, types[2])?.at(0);
        let y_zero = f64::from(inputs.slice::<Y>(7)?[0]);
        let a = quantized(inputs.slice::<A>(0)?, |i| a_zero[rows[1].at(i)].into(), 0);
        let b = quantized(inputs.slice::<B>(3)?, |j| b_zero[columns[1].at(j)].into(), 1);
        products.compute(outputs.slice::<Y>(0)?, a, b, |to, _, i, first, sums| {
            for ((to, sum), j) in to.iter_mut().zip(sums).zip(first..) {
                let scale = a_scale.at(rows[0].at(i)) * b_scale.at(columns[0].at(j)) / y_scale;
                *to = Y::of_f64((sum * scale).round_ties_even() + y_zero);
            }
        });
        Ok(())
    }))))
}

/// Gaussian elimination with partial pivoting.
fn det(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let size = node.shape(0)?.last().copied().unwrap_or(0);
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let to = outputs.slice::<T>(0)?;
        let matrix = scratch::<f64>(&mut outputs, size * size)?;
        for (nth, to) in to.iter_mut().enumerate() {
            let from = &from[nth * matrix.len()..(nth + 1) * matrix.len()];
            matrix.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
            *to = T::of_f64(determinant(matrix, size));
        }
        Ok(())
    })
    .with_scratch(size * size))
}

fn determinant(matrix: &mut [f64], size: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..size {
        let height = |row: usize, matrix: &[f64]| matrix[row * size + column].abs();
        let best = (column..size)
            .max_by(|&a, &b| height(a, matrix).total_cmp(&height(b, matrix)))
            .unwrap_or(column);
        if best != column {
            (0..size).for_each(|at| matrix.swap(best * size + at, column * size + at));
            product = -product;
        }
        let pivot = matrix[column * size + column];
        product *= pivot;
        if pivot == 0.0 {
            return 0.0;
        }
        for row in column + 1..size {
            stop::checkpoint();
            let factor = matrix[row * size + column] / pivot;
            for at in column..size {
                matrix[row * size + at] -= factor * matrix[column * size + at];
            }
        }
    }
    product
}

/// Gauss-Jordan elimination with partial pivoting, of the rows of the matrix and of the unit matrix behind it.
fn inverse(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let size = node.shape(0)?.last().copied().unwrap_or(0);
    let elements = size.saturating_mul(2).saturating_mul(size);
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let to = outputs.slice::<T>(0)?;
        let rows = scratch::<f64>(&mut outputs, elements)?;
        // Without elements there is no matrix.
        let matrix = (size * size).max(1);
        for (from, to) in from.chunks_exact(matrix).zip(to.chunks_exact_mut(matrix)) {
            rows.fill(0.0);
            for (at, row) in rows.chunks_exact_mut(2 * size).enumerate() {
                let from = from[at * size..].iter();
                row.iter_mut().take(size).zip(from).for_each(|(to, from)| *to = from.to_f64());
                row[size + at] = 1.0;
            }
            invert(rows, size);
            for (row, to) in rows.chunks_exact(2 * size).zip(to.chunks_exact_mut(size)) {
                to.iter_mut().zip(&row[size..]).for_each(|(to, from)| *to = T::of_f64(*from));
            }
        }
        Ok(())
    })
    .with_scratch(elements))
}

/// Makes the left half of the rows the unit matrix, by which the right half becomes the inverse.
fn invert(rows: &mut [f64], size: usize) {
    let width = 2 * size;
    for column in 0..size {
        let height = |row: usize| rows[row * width + column].abs();
        let best = (column..size).max_by(|&a, &b| height(a).total_cmp(&height(b)));
        let best = best.unwrap_or(column);
        for at in column..width {
            rows.swap(best * width + at, column * width + at);
        }
        let pivot = rows[column * width + column];
        for at in column..width {
            rows[column * width + at] /= pivot;
        }
        for row in (0..size).filter(|&row| row != column) {
            stop::checkpoint();
            let factor = rows[row * width + column];
            for at in column..width {
                rows[row * width + at] -= factor * rows[column * width + at];
            }
        }
    }
}

/// The dot product of two slices.
pub(crate) fn dot<A: Number, B: Number>(a: &[A], b: &[B]) -> f64 {
    let mut totals = [0.0; TOTALS];
    vectorized!(for (a, b) in a.chunks(TOTALS).zip(b.chunks(TOTALS)) {
        for ((total, a), b) in totals.iter_mut().zip(a).zip(b) {
            *total += a.to_f64() * b.to_f64();
        }
    });
    (SUM.join)(&mut totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_of_any_length() {
        for len in [0, 1, 7, 31, 32, 33, 128, 300] {
            let values: Vec<f32> = (0..len).map(|value| value as f32).collect();
            let squares: usize = (0..len).map(|value| value * value).sum();
            assert_eq!(dot(&values, &values), squares as f64);
        }
    }

    #[test]
    fn inverses() {
        let mut rows = [0.0, 2.0, 1.0, 0.0, 4.0, 0.0, 0.0, 1.0];
        invert(&mut rows, 2);
        assert_eq!(rows, [1.0, 0.0, 0.0, 0.25, 0.0, 1.0, 0.5, 0.0]);
        let mut singular = [1.0, 2.0, 1.0, 0.0, 2.0, 4.0, 0.0, 1.0];
        invert(&mut singular, 2);
        assert!(!singular[2].is_finite());
        invert(&mut [], 0);
    }

    #[test]
    fn determinants() {
        assert_eq!(determinant(&mut [0.0, 1.0, 1.0, 0.0], 2), -1.0);
        assert_eq!(determinant(&mut [2.0, 0.0, 0.0, 3.0], 2), 6.0);
        assert_eq!(determinant(&mut [1.0, 2.0, 2.0, 4.0], 2), 0.0);
        assert_eq!(determinant(&mut [], 0), 1.0);
    }
}
