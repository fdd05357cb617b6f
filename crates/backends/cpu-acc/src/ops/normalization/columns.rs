//! Normalizations whose statistics are not those of contiguous rows: of columns, or of several rows.
//! The first pass computes the statistics, the second the elements.

use super::mapped::Mapped;
use super::moments::Moments;
use super::scaling::{NormKind, Scaling};
use super::{PARALLEL, unless_replaced};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::ops::blocks::Buffers;
use crate::ops::reduction::{Extents, Loop, offset};
use crate::ops::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Workload, WorkloadPlan};
use tenon_base::{Result, stop};
use tenon_tensor::Shape;

/// Columns of a block.
const COLUMNS: usize = 512;

/// Rows of a block whose differences to the mean are summed in f32.
const ROWS: usize = 64;

/// A normalization of columns.
struct ColumnNorm {
    level: Level,
    kind: NormKind,
    float: FloatType,
    extents: Extents,
    /// The dimensions before the last two, with the distance of their lines.
    slabs: Vec<Loop>,
    elements: usize,
}

/// The kernel of a normalization over the `reduced` dimensions.
pub(super) fn kernel(
    signature: &Signature<'_>,
    kind: NormKind,
    (shape, float): (&Shape, FloatType),
    reduced: &[bool],
) -> Box<dyn Kernel> {
    let extents = Extents::new(shape, reduced);
    let mut line_stride = 1;
    let mut slabs: Vec<(usize, Loop)> = Vec::new();
    for &(extent, stride) in extents.kept.iter().rev() {
        slabs.push((stride, (extent, line_stride)));
        line_stride *= extent;
    }
    slabs.extend(
        extents
            .far
            .iter()
            .map(|&(extent, stride)| (stride, (extent, 0))),
    );
    slabs.sort_unstable_by_key(|&(stride, _)| std::cmp::Reverse(stride));
    Box::new(ColumnNorm {
        level: signature.level,
        kind,
        float,
        slabs: slabs.into_iter().map(|(_, dim)| dim).collect(),
        extents,
        elements: shape.elements(),
    })
}

impl ColumnNorm {
    /// Columns of a block.
    fn columns(&self) -> usize {
        self.extents.inner.min(COLUMNS)
    }

    /// Blocks of columns of a line.
    fn blocks(&self) -> usize {
        self.extents.inner.div_ceil(self.columns())
    }

    /// Elements of scratch memory: two terms of the mean, and the factor, of each column.
    fn scratch(&self) -> usize {
        let blocks = self.extents.lines().saturating_mul(self.blocks());
        blocks.saturating_mul(3 * self.columns())
    }
}

impl UnpreparedWorkload for ColumnNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            ..WorkloadPlan::in_place([0])
        }
    }
}

impl Workload for ColumnNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let level = self.level;
        let from = unless_replaced(&inputs, self.float)?;
        let statistics = scratch(&mut outputs, self.scratch())?;
        let to = FloatsMut::output(&mut outputs, 0, self.float)?;
        let parallel = self.elements >= PARALLEL;
        let all = Mapped { level, from, to };
        let input = all.input();
        for_each_chunk(statistics, 3 * self.columns(), parallel, |index, to| {
            level.run(ColumnStatistics {
                norm: self,
                input,
                index,
                to,
            });
        });
        let statistics = &*statistics;
        let Extents { length, inner, .. } = self.extents;
        let slab = length * inner;
        // A single slab is divided into rows.
        let rows = if slab == self.elements {
            length.div_ceil(16)
        } else {
            length
        };
        for_each_float_chunk(all.to, rows * inner, parallel, |index, to| {
            let line = if rows == length {
                offset(&self.slabs, index)
            } else {
                0
            };
            let start = index * rows * inner;
            let elements = Mapped {
                level,
                from: from.map(|from| from.range(start..start + to.len())),
                to,
            };
            let block = 3 * self.columns();
            level.run(ColumnRows {
                norm: self,
                statistics: &statistics[line * self.blocks() * block..][..self.blocks() * block],
                elements,
            });
        });
        Ok(())
    }
}

/// The statistics of a block of columns.
struct ColumnStatistics<'a> {
    norm: &'a ColumnNorm,
    input: Floats<'a>,
    /// The index of the block, of all lines.
    index: usize,
    to: &'a mut [f32],
}

impl VectorOp for ColumnStatistics<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self {
            norm,
            input,
            index,
            to,
        } = self;
        let Extents {
            kept,
            far,
            length,
            inner,
        } = &norm.extents;
        let (length, inner) = (*length, *inner);
        let kind = norm.kind;
        let first = index % norm.blocks() * norm.columns();
        let base = offset(kept, index / norm.blocks()) + first;
        let count = (inner - first).min(norm.columns());
        let positions = norm.extents.positions();
        let outers = positions / length;
        let (highs, rest) = to.split_at_mut(norm.columns());
        let (lows, factors) = rest.split_at_mut(norm.columns());
        let mut write = |column: usize, scaling: Scaling| {
            [highs[column], lows[column]] = scaling.mean;
            factors[column] = scaling.factor;
        };
        let level = norm.level;
        if inner == 1 {
            let mut buffers = Buffers::new();
            let rows = (0..outers).map(|outer| {
                let start = base + offset(far, outer);
                start..start + length
            });
            write(0, kind.of_rows(s, level, &input, rows, &mut buffers.from));
            return;
        }
        let mut buffer = [0f32; COLUMNS];
        if !kind.is_centred() {
            let mut sums = [0f64; COLUMNS];
            for outer in 0..outers {
                for row in 0..length {
                    if row.is_multiple_of(ROWS) {
                        stop::checkpoint();
                    }
                    let start = base + offset(far, outer) + row * inner;
                    let from = input.load(level, start..start + count, &mut buffer);
                    if kind == NormKind::L1 {
                        for (sum, &x) in sums.iter_mut().zip(from) {
                            *sum += f64::from(x.abs());
                        }
                    } else {
                        for (sum, &x) in sums.iter_mut().zip(from) {
                            *sum += f64::from(x) * f64::from(x);
                        }
                    }
                }
            }
            for (column, &sum) in sums[..count].iter().enumerate() {
                write(column, kind.of_sum(sum, positions));
            }
            return;
        }
        let mut all = [Moments::default(); COLUMNS];
        for outer in 0..outers {
            let start = base + offset(far, outer);
            for block in (0..length).step_by(ROWS) {
                stop::checkpoint();
                let rows = block..(block + ROWS).min(length);
                let row = |row: usize| start + row * inner..start + row * inner + count;
                let (mut near, mut sums, mut squares) =
                    ([0f32; COLUMNS], [0f32; COLUMNS], [0f32; COLUMNS]);
                for at in rows.clone() {
                    let from = input.load(level, row(at), &mut buffer);
                    for (near, &x) in near.iter_mut().zip(from) {
                        *near += x;
                    }
                }
                let size = rows.len() as f32;
                near[..count].iter_mut().for_each(|near| *near /= size);
                for at in rows.clone() {
                    let from = input.load(level, row(at), &mut buffer);
                    let sums = sums.iter_mut().zip(&mut squares).zip(&near);
                    for (((sum, square), &near), &x) in sums.zip(from) {
                        let difference = x - near;
                        *sum += difference;
                        *square += difference * difference;
                    }
                }
                for (column, all) in all[..count].iter_mut().enumerate() {
                    let block = if squares[column].is_finite() {
                        Moments::from_differences(
                            rows.len(),
                            near[column],
                            sums[column],
                            squares[column],
                        )
                    } else {
                        let elements = rows.clone().map(|at| input.get(row(at).start + column));
                        Moments::in_f64(elements)
                    };
                    *all = all.joined(block);
                }
            }
        }
        for (column, &moments) in all[..count].iter().enumerate() {
            write(column, kind.of_moments(moments));
        }
    }
}

/// Some rows of one line.
struct ColumnRows<'a> {
    norm: &'a ColumnNorm,
    /// The statistics of the line.
    statistics: &'a [f32],
    elements: Mapped<'a>,
}

impl VectorOp for ColumnRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let Self {
            norm,
            statistics,
            mut elements,
        } = self;
        let inner = norm.extents.inner;
        let mut buffers = Buffers::new();
        if inner == 1 {
            let scaling = Scaling {
                mean: [statistics[0], statistics[1]],
                factor: statistics[2],
            };
            let all = 0..elements.to.len();
            elements.map(all, &mut buffers, |x| scaling.centred(x) * scaling.factor);
            return;
        }
        let columns = norm.columns();
        let rows = elements.to.len() / inner;
        for row in 0..rows {
            if row.is_multiple_of(ROWS) {
                stop::checkpoint();
            }
            for (block, statistics) in statistics.chunks_exact(3 * columns).enumerate() {
                let count = (inner - block * columns).min(columns);
                let (highs, rest) = statistics.split_at(columns);
                let (lows, factors) = rest.split_at(columns);
                let start = row * inner + block * columns;
                let mut scaled = [0f32; COLUMNS];
                let scaled = &mut scaled[..count];
                let input = elements.input();
                let from = input.load(elements.level, start..start + count, &mut buffers.from);
                // A mean that is not subtracted is 0.
                let statistics = highs.iter().zip(lows).zip(factors);
                let rows = scaled.iter_mut().zip(from).zip(statistics);
                for ((to, &x), ((&high, &low), &factor)) in rows {
                    *to = (x - high - low) * factor;
                }
                elements
                    .to
                    .write(elements.level, start..start + count, scaled);
            }
        }
    }
}
