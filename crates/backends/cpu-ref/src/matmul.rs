//! Matrix products, Einsum and determinants.

use crate::activation::Activation;
use crate::elements::Elements;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, numeric, scratch, unsupported, unsupported_type,
};
use crate::loop_nest::{LoopNest, broadcast, strides};
use crate::number::{Accumulator, Number, WidenedArithmetic};
use tenon_base::{Result, stop};
use tenon_graph::geometry::{Equation, Label};
use tenon_tensor::{DataType, Element, Shape};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("MatMul", matmul),
    ("Gemm", gemm),
    ("tenon.MatMul", fused),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", qlinear_matmul),
    ("Einsum", einsum),
    ("Det", det),
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

    /// Calls `store` with the index in the output, the row, the column and the sum of every element.
    /// `row` holds the sums of one row.
    fn compute<S: Accumulator>(
        &self,
        a: impl Fn(usize, usize) -> S,
        b: impl Fn(usize, usize) -> S,
        row: &mut [S],
        mut store: impl FnMut(usize, usize, usize, S),
    ) {
        let ([a_row, a_column], [b_row, b_column]) = (self.a, self.b);
        self.batches.for_each(|[out, a_start, b_start]| {
            for i in 0..self.m {
                stop::checkpoint();
                let a_start = a_start + i * a_row;
                row.fill(S::default());
                if b_column == 1 {
                    for k in 0..self.k {
                        stop::checkpoint();
                        let x = a(a_start + k * a_column, i);
                        let b_start = b_start + k * b_row;
                        for (j, sum) in row.iter_mut().enumerate() {
                            *sum = sum.plus_product(x, b(b_start + j, j));
                        }
                    }
                } else {
                    for (j, sum) in row.iter_mut().enumerate() {
                        stop::checkpoint();
                        let b_start = b_start + j * b_column;
                        for k in 0..self.k {
                            let x = a(a_start + k * a_column, i);
                            *sum = sum.plus_product(x, b(b_start + k * b_row, j));
                        }
                    }
                }
                for (j, &sum) in row.iter().enumerate() {
                    store(out + i * self.n + j, i, j, sum);
                }
            }
        });
    }
}

fn matmul(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 1, [false; 2])?;
    let width = products.n;
    numeric!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let to = outputs.slice::<T>(0)?;
        let row = scratch(&mut outputs, width)?;
        let (a, b) = (|at: usize, _| a[at].term(), |at: usize, _| b[at].term());
        products.compute(a, b, row, |at, _, _, sum| to[at] = T::total(sum));
        Ok(())
    })
    .with_scratch(width))
}

fn gemm(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [
        node.attributes.flag("transA", false)?,
        node.attributes.flag("transB", false)?,
    ];
    let products = BatchedProduct::of(node, 1, flags)?;
    let width = products.n;
    let alpha = f64::from(node.attributes.float("alpha", 1.0)?);
    let beta = f64::from(node.attributes.float("beta", 1.0)?);
    let out = node.output(0)?.shape();
    let added = match node.optional(2) {
        Some(c) => broadcast(c.shape(), out)?,
        None => vec![0, 0],
    };
    let at_c = move |i: usize, j: usize| i * added[0] as usize + j * added[1] as usize;
    numeric!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let c = inputs.optional::<T>(2)?;
        let to = outputs.slice::<T>(0)?;
        let row = scratch(&mut outputs, width)?;
        let (a, b) = (|at: usize, _| a[at].term(), |at: usize, _| b[at].term());
        products.compute(a, b, row, |at, i, j, sum| {
            let scaled = sum.scaled(alpha);
            to[at] = T::total(match c {
                Some(c) => scaled.added(c[at_c(i, j)].term().scaled(beta)),
                None => scaled,
            });
        });
        Ok(())
    })
    .with_scratch(width))
}

/// act(scale A' B' + bias + Z).
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let flags = [
        node.attributes.flag("trans_a", false)?,
        node.attributes.flag("trans_b", false)?,
    ];
    let products = BatchedProduct::of(node, 1, flags)?;
    let width = products.n;
    let scale = f64::from(node.attributes.float("scale", 1.0)?);
    let activation = Activation::of(node)?;
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let row = scratch(&mut outputs, width)?;
        let (a, b) = (|at: usize, _| a[at].term(), |at: usize, _| b[at].term());
        products.compute(a, b, row, |at, _, j, sum| {
            let bias = bias.map_or(0.0, |bias| bias[j].to_f64());
            let z = z.map_or(0.0, |z| z[at].to_f64());
            to[at] = T::from_f64(activation.apply(sum * scale + bias + z));
        });
        Ok(())
    })
    .with_scratch(width))
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

fn matmul_integer(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 1, [false; 2])?;
    let width = products.n;
    let (rows, columns) = (
        ParameterStride::new(node, 2, products.m)?,
        ParameterStride::new(node, 3, products.n)?,
    );
    bytes!(node, 0, 1, A, B => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<A>(0)?, inputs.slice::<B>(1)?);
        let (a_zero, b_zero) = (inputs.optional::<A>(2)?, inputs.optional::<B>(3)?);
        let a = |at: usize, i| a[at].term() - a_zero.map_or(0, |zero| zero[rows.at(i)].term());
        let b = |at: usize, j| b[at].term() - b_zero.map_or(0, |zero| zero[columns.at(j)].term());
        let to = outputs.slice::<i32>(0)?;
        let row = scratch::<i64>(&mut outputs, width)?;
        products.compute(a, b, row, |at, _, _, sum| to[at] = sum as i32);
        Ok(())
    })
    .with_scratch(width))
}

fn qlinear_matmul(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let products = BatchedProduct::of(node, 3, [false; 2])?;
    let width = products.n;
    let rows = [
        ParameterStride::new(node, 1, products.m)?,
        ParameterStride::new(node, 2, products.m)?,
    ];
    let columns = [
        ParameterStride::new(node, 4, products.n)?,
        ParameterStride::new(node, 5, products.n)?,
    ];
    let types = [node.dtype(1)?, node.dtype(4)?, node.dtype(6)?];
    bytes!(node, 0, 3, A, B => bytes!(node, 7, Y => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<A>(0)?, inputs.slice::<B>(3)?);
        let (a_zero, b_zero) = (inputs.slice::<A>(2)?, inputs.slice::<B>(5)?);
        let a_scale = Elements::new(&inputs, 1, types[0])?;
        let b_scale = Elements::new(&inputs, 4, types[1])?;
        let y_scale = Elements::new(&inputs, 6, types[2])?.at(0);
        let y_zero = f64::from(inputs.slice::<Y>(7)?[0]);
        let a = |at: usize, i| a[at].term() - a_zero[rows[1].at(i)].term();
        let b = |at: usize, j| b[at].term() - b_zero[columns[1].at(j)].term();
        let to = outputs.slice::<Y>(0)?;
        let row = scratch::<i64>(&mut outputs, width)?;
        products.compute(a, b, row, |at, i, j, sum| {
            let scale = a_scale.at(rows[0].at(i)) * b_scale.at(columns[0].at(j)) / y_scale;
            to[at] = Y::from_f64((sum as f64 * scale).round_ties_even() + y_zero);
        });
        Ok(())
    })
    .with_scratch(width)))
}

/// Most inputs of a supported `Einsum`.
const TERMS: usize = 4;

fn einsum(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let count = node.inputs.len();
    if count > TERMS {
        return Err(unsupported(format!(
            "no kernel for more than {TERMS} inputs"
        )));
    }
    let shapes = (0..count)
        .map(|index| node.shape(index))
        .collect::<Result<Vec<_>>>()?;
    let equation = Equation::new(node.attributes.string("equation", "")?, &shapes)?;
    // A label that occurs twice in a term has the sum of both strides (the diagonal).
    let steps = |input: usize, label: Label| -> isize {
        let Some(shape) = shapes.get(input) else {
            return 0;
        };
        let strides = strides(shape);
        let labels = equation.inputs[input].iter().enumerate();
        labels
            .filter(|&(axis, &at)| at == label && shape[axis] != 1)
            .map(|(axis, _)| strides[axis])
            .sum()
    };
    let summed: Vec<Label> = equation
        .extents
        .keys()
        .copied()
        .filter(|label| !equation.output.contains(label))
        .collect();
    let extents = |labels: &[Label]| -> Vec<usize> {
        labels
            .iter()
            .map(|label| equation.extents.get(label).copied().unwrap_or(1))
            .collect()
    };
    let all = |labels: &[Label]| -> [Vec<isize>; TERMS] {
        std::array::from_fn(|input| labels.iter().map(|&label| steps(input, label)).collect())
    };
    let [a, b, c, d] = all(&equation.output);
    let own = strides(node.output(0)?.shape());
    let outer = LoopNest::new(&extents(&equation.output), [&own, &a, &b, &c, &d]);
    let [a, b, c, d] = all(&summed);
    let inner = LoopNest::new(&extents(&summed), [&a, &b, &c, &d]);
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let mut terms: [&[T]; TERMS] = [&[]; TERMS];
        for (index, term) in terms.iter_mut().enumerate().take(count) {
            *term = inputs.slice::<T>(index)?;
        }
        let to = outputs.slice::<T>(0)?;
        outer.for_each(|[out, starts @ ..]| {
            let mut sum = <T as Number>::Widened::ZERO;
            inner.for_each(|at| {
                let product = (0..count).fold(<T as Number>::Widened::ONE, |product, n| {
                    product.times(terms[n][starts[n] + at[n]].widen())
                });
                sum = sum.plus(product);
            });
            to[out] = T::narrow(sum);
        });
        Ok(())
    })))
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
            *to = T::from_f64(determinant(matrix, size));
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

/// The dot product of two slices.
pub(crate) fn dot<T: Number + Element>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn determinants() {
        assert_eq!(determinant(&mut [0.0, 1.0, 1.0, 0.0], 2), -1.0);
        assert_eq!(determinant(&mut [2.0, 0.0, 0.0, 3.0], 2), 6.0);
        assert_eq!(determinant(&mut [1.0, 2.0, 2.0, 4.0], 2), 0.0);
        assert_eq!(determinant(&mut [], 0), 1.0);
    }
}
