//! `MatMul` of f64 and of integers, which wrap: B is packed in panels of one cache line of columns, and
//! each tile of the output is summed in registers by loops that the compiler vectorises.

use super::Kernel;
use super::matmul::{extend_vectors, pair_batches};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, pool, stop};
use tenon_tensor::{DataType, Element, Shape};

/// Rows of a tile.
const ROWS: usize = 6;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 17;

/// An element type of products.
trait Term: Element + Default {
    /// `self + a * b`.
    fn plus_product(self, a: Self, b: Self) -> Self;
}

impl Term for f64 {
    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

macro_rules! integer_terms {
    ($($integer:ty),*) => {
        $(impl Term for $integer {
            #[inline(always)]
            fn plus_product(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
        })*
    };
}

// Sums of unsigned integers have the same bits.
integer_terms!(i32, i64);

/// A batched product `[batch, M, K] x [batch, K, N]` with panels of `WIDTH` columns.
struct PlainMatMul<T, const WIDTH: usize> {
    level: Level,
    rows: usize,
    depth: usize,
    columns: usize,
    /// The batch dimensions of the output, of A and of B.
    batches: [Shape; 3],
    element: PhantomData<fn(T)>,
}

/// The kernel, or the reason that there is none.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let found = signature.input(0)?.dtype();
    match found {
        DataType::F64 => Ok(Box::new(PlainMatMul::<f64, 8>::of(signature)?)),
        DataType::I64 | DataType::U64 => Ok(Box::new(PlainMatMul::<i64, 8>::of(signature)?)),
        DataType::I32 | DataType::U32 => Ok(Box::new(PlainMatMul::<i32, 16>::of(signature)?)),
        _ => Err(Reason::InputType { input: 0, found }.into()),
    }
}

impl<T: Term, const WIDTH: usize> PlainMatMul<T, WIDTH> {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (a, b) = (signature.input(0)?, signature.input(1)?);
        let (mut a, mut b) = (a.shape().to_vec(), b.shape().to_vec());
        extend_vectors(&mut a, &mut b);
        let ([a_batch @ .., rows, depth], [b_batch @ .., _, columns]) = (&a[..], &b[..]) else {
            return Err(refuse("no kernel for scalars as operands"));
        };
        let (a_batch, b_batch) = (Shape::new(a_batch), Shape::new(b_batch));
        let batch = a_batch.broadcast(&b_batch);
        let batch = batch.ok_or_else(|| refuse("no kernel for batches that are not broadcast"))?;
        Ok(Self {
            level: signature.level,
            rows: *rows,
            depth: *depth,
            columns: *columns,
            batches: [batch, a_batch, b_batch],
            element: PhantomData,
        })
    }

    /// Elements of a packed matrix of B.
    fn packed(&self) -> usize {
        let panels = self.columns.div_ceil(WIDTH);
        panels.saturating_mul(WIDTH).saturating_mul(self.depth)
    }

    /// Packs one matrix of B.
    fn pack(&self, from: &[T], to: &mut [T]) {
        for (panel, to) in to.chunks_exact_mut(self.depth * WIDTH).enumerate() {
            let first = panel * WIDTH;
            let count = (self.columns - first).min(WIDTH);
            let rows = from.chunks_exact(self.columns);
            for (to, from) in to.chunks_exact_mut(WIDTH).zip(rows) {
                to[..count].copy_from_slice(&from[first..first + count]);
                to[count..].fill(T::default());
            }
        }
    }
}

impl<T: Term, const WIDTH: usize> Kernel for PlainMatMul<T, WIDTH> {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan {
            scratch_bytes: self.packed().saturating_mul(size_of::<T>()),
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(BoundPlainMatMul {
            pairs: pair_batches(&self.batches)?,
            matmul: *self,
        }))
    }
}

/// A product, ready to execute.
struct BoundPlainMatMul<T, const WIDTH: usize> {
    matmul: PlainMatMul<T, WIDTH>,
    /// For each matrix of the output the indices of its matrices of A and B.
    pairs: Vec<(usize, usize)>,
}

impl<T: Term, const WIDTH: usize> Workload for BoundPlainMatMul<T, WIDTH> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let matmul = &self.matmul;
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let output = outputs.slice::<T>(0)?;
        let (rows, depth, columns) = (matmul.rows, matmul.depth, matmul.columns);
        let packed = super::scratch::<T>(&mut outputs, matmul.packed())?;
        let parallel = (rows * columns).saturating_mul(depth) >= PARALLEL_OPERATIONS / 2;
        let tiles = rows.div_ceil(ROWS);
        let chunk = tiles.div_ceil(if parallel { 4 * pool::threads() } else { 1 }) * ROWS;
        let mut packed_matrix = None;
        for (output, &(a_index, b_index)) in
            output.chunks_exact_mut(rows * columns).zip(&self.pairs)
        {
            if packed_matrix != Some(b_index) {
                matmul.pack(&b[b_index * depth * columns..][..depth * columns], packed);
                packed_matrix = Some(b_index);
            }
            let (a, packed) = (&a[a_index * rows * depth..][..rows * depth], &*packed);
            for_each_chunk(output, chunk * columns, parallel, |index, output| {
                let a = &a[index * chunk * depth..][..output.len() / columns * depth];
                matmul.level.run(PlainRows::<T, WIDTH> {
                    a,
                    panels: packed,
                    depth,
                    columns,
                    output,
                });
            });
        }
        Ok(())
    }
}

/// Some rows of a product.
struct PlainRows<'a, T, const WIDTH: usize> {
    a: &'a [T],
    panels: &'a [T],
    depth: usize,
    columns: usize,
    output: &'a mut [T],
}

impl<T: Term, const WIDTH: usize> VectorOp for PlainRows<'_, T, WIDTH> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let Self {
            a, depth, columns, ..
        } = self;
        let last = (self.output.len() / columns).saturating_sub(1);
        for (panel, b) in self.panels.chunks_exact(depth * WIDTH).enumerate() {
            stop::checkpoint();
            let b = b.as_chunks::<WIDTH>().0;
            let first = panel * WIDTH;
            let count = (columns - first).min(WIDTH);
            for (tile, output) in self.output.chunks_mut(ROWS * columns).enumerate() {
                // Rows after the last one repeat it.
                let rows: [&[T]; ROWS] =
                    std::array::from_fn(|row| &a[(tile * ROWS + row).min(last) * depth..][..depth]);
                let mut sums = [[T::default(); WIDTH]; ROWS];
                for (k, b) in b.iter().enumerate().take(depth) {
                    for (sums, row) in sums.iter_mut().zip(rows) {
                        let a = row[k];
                        for (sum, &b) in sums.iter_mut().zip(b) {
                            *sum = sum.plus_product(a, b);
                        }
                    }
                }
                for (output, sums) in output.chunks_exact_mut(columns).zip(&sums) {
                    output[first..first + count].copy_from_slice(&sums[..count]);
                }
            }
        }
    }
}
