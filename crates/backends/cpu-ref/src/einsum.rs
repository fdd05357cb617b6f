//! Einsum: matrix products where it is one, else the definition.

use crate::chunks::{for_each_chunk, for_each_chunk_of};
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, numeric, unsupported};
use crate::loop_nest::{LoopNest, strides};
use crate::number::{Number, WidenedArithmetic, read_terms};
use crate::product::{Extents, Order, product};
use tenon_base::Result;
use tenon_graph::geometry::{Equation, Label};
use tenon_tensor::Shape;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("Einsum", einsum)];

/// Most inputs of a supported `Einsum`.
const TERMS: usize = 4;

/// The strides of each term of an equation along a list of labels.
struct TermStrides<'a> {
    equation: &'a Equation,
    shapes: &'a [&'a Shape],
}

impl TermStrides<'_> {
    /// The stride of a term along a label: 0 if it does not have it, the sum of both strides (the diagonal) if it
    /// occurs twice.
    fn of(&self, term: usize, label: Label) -> isize {
        let Some(shape) = self.shapes.get(term) else {
            return 0;
        };
        let strides = strides(shape);
        let labels = self.equation.inputs[term].iter().enumerate();
        labels
            .filter(|&(axis, &at)| at == label && shape[axis] != 1)
            .map(|(axis, _)| strides[axis])
            .sum()
    }

    fn along(&self, term: usize, labels: &[Label]) -> Vec<isize> {
        labels.iter().map(|&label| self.of(term, label)).collect()
    }

    fn extents(&self, labels: &[Label]) -> Vec<usize> {
        let extent = |label| self.equation.extents.get(label).copied().unwrap_or(1);
        labels.iter().map(extent).collect()
    }

    /// The labels that are summed over.
    fn summed(&self) -> Vec<Label> {
        let all = self.equation.extents.keys().copied();
        all.filter(|label| !self.equation.output.contains(label))
            .collect()
    }
}

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
    let strides_of = TermStrides {
        equation: &equation,
        shapes: &shapes,
    };
    if let Some(contraction) = Contraction::new(&strides_of) {
        return numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let terms = [inputs.slice::<T>(0)?, inputs.slice::<T>(1)?];
            contraction.compute(terms, outputs.slice::<T>(0)?);
            Ok(())
        })));
    }
    let all = |labels: &[Label]| -> [Vec<isize>; TERMS] {
        std::array::from_fn(|term| strides_of.along(term, labels))
    };
    let [a, b, c, d] = all(&equation.output);
    let outer = LoopNest::new(&strides_of.extents(&equation.output), [&a, &b, &c, &d]);
    let summed = strides_of.summed();
    let [a, b, c, d] = all(&summed);
    let inner = LoopNest::new(&strides_of.extents(&summed), [&a, &b, &c, &d]);
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let mut terms: [&[T]; TERMS] = [&[]; TERMS];
        for (index, term) in terms.iter_mut().enumerate().take(count) {
            *term = inputs.slice::<T>(index)?;
        }
        for_each_chunk(outputs.slice::<T>(0)?, |first, to| {
            for (to, nth) in to.iter_mut().zip(first..) {
                let starts = outer.at(nth);
                let mut sum = <T as Number>::Widened::ZERO;
                inner.for_each(|at| {
                    let product = (0..count).fold(<T as Number>::Widened::ONE, |product, n| {
                        product.times(terms[n][starts[n] + at[n]].widen())
                    });
                    sum = sum.plus(product);
                });
                *to = T::narrow(sum);
            }
        });
        Ok(())
    })))
}

/// An Einsum of two terms, one of which does not have the last label of the output: matrix products, whose columns are
/// that label.
struct Contraction {
    /// The term that has the columns.
    right: usize,
    /// Extent and stride in that term.
    columns: (usize, usize),
    /// The rows: a label of the output that only the other term has. Extent, and the strides in the output and in the
    /// other term.
    rows: (usize, [usize; 2]),
    /// The other labels of the output, with the positions in the output, the left and the right term.
    batches: LoopNest<3>,
    count: usize,
    /// The labels that are summed over, with the positions in the left and the right term.
    terms: LoopNest<2>,
    depth: usize,
    /// Elements of the output for one index of its first label.
    unit: usize,
    /// Whether the first label of the output is that of the rows.
    rows_are_first: bool,
}

impl Contraction {
    fn new(strides_of: &TermStrides<'_>) -> Option<Self> {
        let output = &strides_of.equation.output;
        let (&last, lead) = output.split_last()?;
        if strides_of.shapes.len() != 2 {
            return None;
        }
        let right = (0..2).find(|&term| strides_of.of(1 - term, last) == 0)?;
        let left = 1 - right;
        let extents = strides_of.extents(output);
        let own = strides(&Shape::new(extents.clone()));
        // Elements of the right term are converted once for all rows.
        let row = (0..lead.len())
            .filter(|&axis| strides_of.of(right, lead[axis]) == 0)
            .max_by_key(|&axis| extents[axis]);
        let rows = row.map_or((1, [0, 0]), |axis| {
            let strides = [own[axis], strides_of.of(left, lead[axis])];
            (extents[axis], strides.map(|stride| stride as usize))
        });
        let rest = (0..lead.len()).filter(|&axis| Some(axis) != row);
        let labels: Vec<Label> = rest.clone().map(|axis| lead[axis]).collect();
        let out: Vec<isize> = rest.map(|axis| own[axis]).collect();
        let batch_extents = strides_of.extents(&labels);
        let [a, b] = [left, right].map(|term| strides_of.along(term, &labels));
        let summed = strides_of.summed();
        let sum_extents = strides_of.extents(&summed);
        let [sum_a, sum_b] = [left, right].map(|term| strides_of.along(term, &summed));
        Some(Self {
            right,
            columns: (extents[lead.len()], strides_of.of(right, last) as usize),
            rows,
            count: batch_extents.iter().product(),
            batches: LoopNest::new(&batch_extents, [&out, &a, &b]),
            depth: sum_extents.iter().product(),
            terms: LoopNest::new(&sum_extents, [&sum_a, &sum_b]),
            unit: strides_of
                .extents(&output[1..])
                .iter()
                .product::<usize>()
                .max(1)
                * if lead.is_empty() { extents[0] } else { 1 },
            rows_are_first: row == Some(0),
        })
    }

    fn compute<T: Number>(&self, terms: [&[T]; 2], to: &mut [T]) {
        let (a, b) = (terms[1 - self.right], terms[self.right]);
        let (columns, column_step) = self.columns;
        let (rows, [row_step, a_step]) = self.rows;
        let operations = to.len().saturating_mul(self.depth);
        for_each_chunk_of(to, self.unit, operations, |first, to| {
            // The part of the output is all of some indices of its first label.
            let (rows, first_row, batches) = if self.rows_are_first {
                (to.len() / self.unit, first / self.unit, 0..self.count)
            } else {
                let each = rows * columns;
                (rows, 0, first / each..(first + to.len()) / each)
            };
            for batch in batches {
                let [out, a_start, b_start] = self.batches.at(batch);
                let out = out + first_row * row_step - first;
                let a_start = a_start + first_row * a_step;
                product(
                    Extents {
                        rows,
                        columns,
                        depth: self.depth,
                        b: Order::Rows,
                    },
                    |i, k, terms| {
                        let mut nth = 0;
                        self.terms
                            .for_each_run(k, terms.len(), |[at, _], [step, _], count| {
                                let start = a_start + i * a_step + at;
                                read_terms(a, start, step, &mut terms[nth..nth + count]);
                                nth += count;
                            });
                    },
                    |k, j, terms| {
                        let start = b_start + self.terms.at(k)[1] + j * column_step;
                        read_terms(b, start, column_step as isize, terms);
                    },
                    |i, j, sums| {
                        let to = &mut to[out + i * row_step + j..][..sums.len()];
                        to.iter_mut()
                            .zip(sums)
                            .for_each(|(to, &sum)| *to = T::total(sum));
                    },
                );
            }
        });
    }
}
