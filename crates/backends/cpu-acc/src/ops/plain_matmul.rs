//! `MatMul` and `Gemm` of f64 and of integers, which wrap: a blocked GEMM (Goto and van de Geijn,
//! "Anatomy of High-Performance Matrix Multiplication", 2008). B is packed in panels of one cache line
//! of columns; each tile of the output is summed in registers (`simd::terms`).

use super::Kernel;
use super::matmul::{extend_vectors, pair_batches};
use super::number::Number;
use super::{split_scratch, total_len};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::terms::{TermVectors, tile_sums};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, stop};
use tenon_tensor::{DataType, Shape, TensorType};

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 17;

/// Inner elements (KC) of a K block: the panels of a tile stay in the first level cache.
const KC: usize = 256;

/// Most rows (MC) of a chunk of the output: its rows of A stay in the second level cache during a K
/// block.
const MC: usize = 192;

/// An element type of products.
trait Term: Number {
    /// A factor of `Gemm`, where the type has it.
    fn factor(factor: f32) -> Option<Self>;
}

impl Term for f64 {
    fn factor(factor: f32) -> Option<Self> {
        Some(factor.into())
    }
}

// Sums of unsigned integers have the same bits.
impl Term for i32 {
    fn factor(factor: f32) -> Option<Self> {
        (factor == 1.0).then_some(1)
    }
}

impl Term for i64 {
    fn factor(factor: f32) -> Option<Self> {
        (factor == 1.0).then_some(1)
    }
}

/// The addition of C to a product.
struct Summand<T> {
    /// The factors of the product and of C.
    factors: [T; 2],
    /// Elements from a row of C to the next and from a column to the next; without it, C is 0.
    strides: Option<[usize; 2]>,
}

/// A batched product `[batch, M, K] x [batch, K, N]` with panels of `WIDTH` columns.
struct PlainMatMul<T, const WIDTH: usize> {
    level: Level,
    rows: usize,
    depth: usize,
    columns: usize,
    /// Whether A is stored as `[K, M]` and B as `[N, K]`.
    transposed: [bool; 2],
    /// The batch dimensions of the output, of A and of B.
    batches: [Shape; 3],
    summand: Option<Summand<T>>,
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

impl<T: Term> Summand<T> {
    /// The factors and C of a `Gemm`.
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let factor = |name| {
            let factor = signature.float(name, 1.0)?;
            T::factor(factor).ok_or_else(|| refuse_attribute(name, factor))
        };
        let c = signature.optional(2).map(TensorType::shape);
        // Shape inference checked that C is broadcast to the output.
        let strides = c.map(|c| match **c {
            [rows, columns] => [
                if rows == 1 { 0 } else { columns },
                usize::from(columns != 1),
            ],
            [columns] => [0, usize::from(columns != 1)],
            _ => [0, 0],
        });
        Ok(Self {
            factors: [factor("alpha")?, factor("beta")?],
            strides,
        })
    }

    /// Scales the rows of the output from `first` on and adds C.
    fn add(&self, c: Option<&[T]>, first: usize, columns: usize, output: &mut [T]) {
        let [alpha, beta] = self.factors;
        for (row, output) in output.chunks_exact_mut(columns).enumerate() {
            let Some((c, [down, right])) = c.zip(self.strides) else {
                output.iter_mut().for_each(|sum| *sum = sum.times(alpha));
                continue;
            };
            let c = &c[(first + row) * down..];
            if right == 0 {
                let c = c[0].times(beta);
                output
                    .iter_mut()
                    .for_each(|sum| *sum = sum.times(alpha).plus(c));
            } else {
                for (sum, &c) in output.iter_mut().zip(c) {
                    *sum = sum.times(alpha).plus(c.times(beta));
                }
            }
        }
    }
}

impl<T: Term, const WIDTH: usize> PlainMatMul<T, WIDTH> {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (a, b) = (signature.input(0)?, signature.input(1)?);
        let (mut a, mut b) = (a.shape().to_vec(), b.shape().to_vec());
        extend_vectors(&mut a, &mut b);
        let ([a_batch @ .., rows, depth], [b_batch @ .., b_rows, b_columns]) = (&a[..], &b[..])
        else {
            return Err(refuse("no kernel for scalars as operands"));
        };
        let (a_batch, b_batch) = (Shape::new(a_batch), Shape::new(b_batch));
        let batch = a_batch.broadcast(&b_batch);
        let batch = batch.ok_or_else(|| refuse("no kernel for batches that are not broadcast"))?;
        let is_gemm = signature.op.name == "Gemm";
        let transposed = if is_gemm {
            [
                signature.flag("transA", false)?,
                signature.flag("transB", false)?,
            ]
        } else {
            [false; 2]
        };
        let [a_transposed, b_transposed] = transposed;
        let (rows, depth) = if a_transposed {
            (depth, rows)
        } else {
            (rows, depth)
        };
        Ok(Self {
            level: signature.level,
            rows: *rows,
            depth: *depth,
            columns: if b_transposed { *b_rows } else { *b_columns },
            transposed,
            batches: [batch, a_batch, b_batch],
            summand: is_gemm.then(|| Summand::of(signature)).transpose()?,
        })
    }

    /// Elements of scratch memory: of a packed matrix of B, and of a transposed one of A.
    fn scratch(&self) -> [usize; 2] {
        let panels = self.columns.div_ceil(WIDTH);
        let packed = panels.saturating_mul(WIDTH).saturating_mul(self.depth);
        let [a_transposed, _] = self.transposed;
        let a = if a_transposed {
            self.rows.saturating_mul(self.depth)
        } else {
            0
        };
        [packed, a]
    }

    /// Packs one matrix of B.
    fn pack(&self, from: &[T], to: &mut [T], parallel: bool) {
        let (depth, columns) = (self.depth, self.columns);
        let [_, b_transposed] = self.transposed;
        for_each_chunk(to, depth * WIDTH, parallel, |panel, to| {
            let first = panel * WIDTH;
            let count = (columns - first).min(WIDTH);
            let to = to.as_chunks_mut::<WIDTH>().0;
            if b_transposed {
                transpose(&from[first * depth..][..count * depth], depth, to);
                return;
            }
            for (to, from) in to.iter_mut().zip(from.chunks_exact(columns)) {
                let from = &from[first..first + count];
                if let Ok(from) = <&[T; WIDTH]>::try_from(from) {
                    *to = *from;
                } else {
                    to[..count].copy_from_slice(from);
                    to[count..].fill(T::default());
                }
            }
        });
    }
}

/// Writes the transpose of rows of `depth` elements, at most `WIDTH`, to the columns of `to`; the other
/// columns are 0.
fn transpose<T: Term, const WIDTH: usize>(rows: &[T], depth: usize, to: &mut [[T; WIDTH]]) {
    if rows.len() < WIDTH * depth {
        to.as_flattened_mut().fill(T::default());
    }
    for (column, from) in rows.chunks_exact(depth).enumerate() {
        for (to, &from) in to.iter_mut().zip(from) {
            to[column] = from;
        }
    }
}

impl<T: Term, const WIDTH: usize> Kernel for PlainMatMul<T, WIDTH>
where
    for<'a> PlainRows<'a, T, WIDTH>: VectorOp<Output = ()>,
{
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan {
            scratch_bytes: total_len(self.scratch()).saturating_mul(size_of::<T>()),
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

impl<T: Term, const WIDTH: usize> Workload for BoundPlainMatMul<T, WIDTH>
where
    for<'a> PlainRows<'a, T, WIDTH>: VectorOp<Output = ()>,
{
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let matmul = &self.matmul;
        let (inputs, mut outputs) = operands.split();
        let (a, b) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let c = match &matmul.summand {
            Some(_) => inputs.optional::<T>(2)?,
            None => None,
        };
        let output = outputs.slice::<T>(0)?;
        let (rows, depth, columns) = (matmul.rows, matmul.depth, matmul.columns);
        let sizes = matmul.scratch();
        let memory = super::scratch::<T>(&mut outputs, total_len(sizes))?;
        let [packed, a_rows] = split_scratch(memory, sizes);
        let parallel = (rows * columns).saturating_mul(depth) >= PARALLEL_OPERATIONS / 2;
        let chunk = super::chunk_rows(rows, parallel)
            .next_multiple_of(MAX_TILE_ROWS)
            .min(MC);
        let mut packed_matrix = None;
        for (output, &(a_index, b_index)) in
            output.chunks_exact_mut(rows * columns).zip(&self.pairs)
        {
            if packed_matrix != Some(b_index) {
                let b = &b[b_index * depth * columns..][..depth * columns];
                matmul.pack(b, packed, parallel);
                packed_matrix = Some(b_index);
            }
            let mut a = &a[a_index * rows * depth..][..rows * depth];
            if !a_rows.is_empty() {
                for_each_chunk(a_rows, depth, parallel, |row, to| {
                    let column = a[row..].iter().step_by(rows);
                    to.iter_mut().zip(column).for_each(|(to, &from)| *to = from);
                });
                a = a_rows;
            }
            let packed = &*packed;
            for_each_chunk(output, chunk * columns, parallel, |index, output| {
                let first = index * chunk;
                matmul.level.run(PlainRows::<T, WIDTH> {
                    a: &a[first * depth..][..output.len() / columns * depth],
                    panels: packed,
                    depth,
                    columns,
                    output,
                });
                if let Some(summand) = &matmul.summand {
                    summand.add(c, first, columns, output);
                }
            });
        }
        Ok(())
    }
}

/// Some rows of a product.
pub(super) struct PlainRows<'a, T, const WIDTH: usize> {
    pub(super) a: &'a [T],
    /// The columns of B in panels, the last one filled up.
    pub(super) panels: &'a [T],
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) output: &'a mut [T],
}

/// Most rows of a tile, at any level.
pub(super) const MAX_TILE_ROWS: usize = 8;

/// Most elements of a vector, at any level.
const MAX_TERMS: usize = 16;

macro_rules! vector_ops {
    ($($T:ty, $WIDTH:literal;)*) => {$(
        impl VectorOp for PlainRows<'_, $T, $WIDTH> {
            type Output = ();

            #[inline(always)]
            fn eval<S: Simd>(self, simd: S) {
                // The rows, vectors and panels of a tile: its sums fill the registers of the level.
                match S::TILE_ROWS {
                    14 => self.add_blocks::<S, MAX_TILE_ROWS, 2, 2>(simd),
                    6 if S::LANES == 8 => self.add_blocks::<S, 6, 2, 1>(simd),
                    6 => self.add_blocks::<S, 6, 4, 1>(simd),
                    _ => self.add_blocks::<S, 3, 4, 1>(simd),
                }
            }
        }
    )*};
}

vector_ops! {
    f32, 16;
    f64, 8;
    i64, 8;
    i32, 16;
}

impl<T: Number, const WIDTH: usize> PlainRows<'_, T, WIDTH> {
    /// Computes the rows in K blocks, with tiles of `VECTORS` vectors.
    #[inline(always)]
    fn add_blocks<
        S: TermVectors<T>,
        const ROWS: usize,
        const VECTORS: usize,
        const PANELS: usize,
    >(
        self,
        simd: S,
    ) {
        let Self {
            a,
            panels,
            depth,
            columns,
            output,
        } = self;
        let last = (output.len() / columns).saturating_sub(1);
        for start in (0..depth).step_by(KC) {
            let len = KC.min(depth - start);
            for first in (0..columns).step_by(PANELS * WIDTH) {
                stop::checkpoint();
                // After the last panel it repeats, as does the last row below.
                let last_panel = columns.div_ceil(WIDTH) - 1;
                let b: [&[[T; WIDTH]]; PANELS] = std::array::from_fn(|panel| {
                    let panel = (first / WIDTH + panel).min(last_panel);
                    let panel = &panels[(panel * depth + start) * WIDTH..][..len * WIDTH];
                    panel.as_chunks().0
                });
                for (tile, output) in output.chunks_mut(ROWS * columns).enumerate() {
                    let rows: [&[T]; ROWS] = std::array::from_fn(|row| {
                        let row = (tile * ROWS + row).min(last);
                        &a[row * depth + start..][..len]
                    });
                    let sums = tile_sums::<T, S, ROWS, VECTORS, PANELS, WIDTH>(simd, rows, b);
                    for (output, sums) in output.chunks_exact_mut(columns).zip(&sums) {
                        let output = output[first..].chunks_mut(S::TERMS);
                        for (output, &sum) in output.zip(sums) {
                            store(simd, sum, start > 0, output);
                        }
                    }
                }
            }
        }
    }
}

/// Writes a vector of sums to `to`, or as many as it has; adds them to its elements when `is_added`.
#[inline(always)]
fn store<T: Number, S: TermVectors<T>>(simd: S, sum: S::Terms, is_added: bool, to: &mut [T]) {
    let mut part = [T::default(); MAX_TERMS];
    let len = to.len();
    let memory = if len < S::TERMS {
        part[..len].copy_from_slice(to);
        &mut part[..S::TERMS]
    } else {
        &mut *to
    };
    let sum = if is_added {
        simd.add_terms(simd.load_terms(memory), sum)
    } else {
        sum
    };
    simd.store_terms(sum, memory);
    if len < S::TERMS {
        to.copy_from_slice(&part[..len]);
    }
}
