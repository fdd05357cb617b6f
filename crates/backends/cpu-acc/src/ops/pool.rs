//! Pooling of images with the channels last (NHWC): `tenon.MaxPool`, `tenon.AveragePool`.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::depthwise::{CHECKPOINT_POSITIONS, CHECKPOINT_ROWS, positions_inside};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::rows::Geometry;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, pool, stop};

/// Elements read below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// The reduction of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PoolKind {
    Max,
    /// The mean, over the padding too when it counts.
    Average {
        padding_counts: bool,
    },
}

/// A pooling operator.
struct Pool {
    level: Level,
    kind: PoolKind,
    shape: Geometry,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let image = signature.ranked::<4>(0)?;
    let output = signature.ranked_output::<4>()?;
    let kind = match signature.op.name {
        "tenon.MaxPool" => PoolKind::Max,
        _ => PoolKind::Average {
            padding_counts: signature.flag("count_include_pad", false)?,
        },
    };
    let shape = signature.geometry(&image, &signature.kernel_shape()?, false)?;
    if output != [image[0], shape.output[1], shape.output[2], image[3]] {
        return Err(refuse("the shapes do not fit"));
    }
    Ok(Box::new(Pool {
        level: signature.level,
        kind,
        shape,
    }))
}

impl UnpreparedWorkload for Pool {}

impl Workload for Pool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<f32>(0)?;
        let output = outputs.slice::<f32>(0)?;
        let shape = &self.shape;
        let line = shape.output[2] * shape.channels;
        if output.is_empty() {
            return Ok(());
        }
        let work = output.len() * shape.positions();
        let parallel = work >= PARALLEL;
        let rows = shape.images * shape.output[1];
        let chunk_rows = rows.div_ceil(if parallel { 4 * pool::threads() } else { 1 });
        for_each_chunk(output, chunk_rows * line, parallel, |chunk, output| {
            self.level.run(PoolRows {
                pool: self,
                input,
                first: chunk * chunk_rows,
                output,
            });
        });
        Ok(())
    }
}

/// Some rows of the output.
struct PoolRows<'a> {
    pool: &'a Pool,
    input: &'a [f32],
    first: usize,
    output: &'a mut [f32],
}

impl VectorOp for PoolRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self {
            pool,
            input,
            first,
            output,
        } = self;
        let shape = &pool.shape;
        let line = shape.output[2] * shape.channels;
        for (row, output) in output.chunks_exact_mut(line).enumerate() {
            if row.is_multiple_of(CHECKPOINT_ROWS) {
                stop::checkpoint();
            }
            let (image, y) = (
                (first + row) / shape.output[1],
                (first + row) % shape.output[1],
            );
            let vertical = pool.inside(1, y);
            for (x, output) in output.chunks_exact_mut(shape.channels).enumerate() {
                let window = PoolWindow {
                    image,
                    vertical: vertical.clone(),
                    horizontal: pool.inside(2, x),
                    y,
                    x,
                };
                pool.pixel(s, input, &window, output);
            }
        }
    }
}

/// The window of an output pixel.
struct PoolWindow {
    image: usize,
    y: usize,
    x: usize,
    /// Kernel rows and columns inside the image.
    vertical: Range<usize>,
    horizontal: Range<usize>,
}

impl Pool {
    /// The kernel positions of an axis at output position `at` that are inside the image.
    #[inline(always)]
    fn inside(&self, axis: usize, at: usize) -> Range<usize> {
        let shape = &self.shape;
        let size = shape.size[axis];
        let (dilation, kernel) = (shape.dilations[axis], shape.kernel[axis]);
        positions_inside(
            at * shape.strides[axis],
            shape.before[axis],
            dilation,
            kernel,
            size,
        )
    }

    /// The number of kernel positions of an axis at output position `at` that are inside the image or
    /// its padding: the last window may extend beyond both.
    #[inline(always)]
    fn counted(&self, axis: usize, at: usize) -> usize {
        let shape = &self.shape;
        let padded = shape.before[axis] + shape.size[axis] + shape.after[axis];
        let left = padded.saturating_sub(at * shape.strides[axis]);
        left.div_ceil(shape.dilations[axis]).min(shape.kernel[axis])
    }

    /// Computes all channels of one pixel.
    #[inline(always)]
    fn pixel<S: Simd>(&self, s: S, input: &[f32], window: &PoolWindow, output: &mut [f32]) {
        let shape = &self.shape;
        let count = match self.kind {
            PoolKind::Max => 1,
            PoolKind::Average {
                padding_counts: true,
            } => self.counted(1, window.y) * self.counted(2, window.x),
            PoolKind::Average { .. } => window.vertical.len() * window.horizontal.len(),
        };
        let factor = s.splat(1.0 / count.max(1) as f32);
        // Four vectors of channels, for independent sums.
        for (block, output) in output.chunks_mut(4 * S::LANES).enumerate() {
            let first = block * 4 * S::LANES;
            let start = if self.kind == PoolKind::Max {
                f32::NEG_INFINITY
            } else {
                0.0
            };
            let mut sums = [s.splat(start); 4];
            for ky in window.vertical.clone() {
                let y = window.y * shape.strides[1] + ky * shape.dilations[1] - shape.before[1];
                let line = (window.image * shape.size[1] + y) * shape.size[2];
                if window.horizontal.len() >= CHECKPOINT_POSITIONS {
                    stop::checkpoint();
                }
                for kx in window.horizontal.clone() {
                    let x = window.x * shape.strides[2] + kx * shape.dilations[2] - shape.before[2];
                    let at = (line + x) * shape.channels + first;
                    let from = &input[at..][..output.len()];
                    if from.len() == 4 * S::LANES {
                        for (sum, from) in sums.iter_mut().zip(from.chunks_exact(S::LANES)) {
                            *sum = self.join(s, *sum, s.load(from));
                        }
                    } else {
                        for (sum, from) in sums.iter_mut().zip(from.chunks(S::LANES)) {
                            *sum = self.join(s, *sum, s.load_part(from));
                        }
                    }
                }
            }
            for (sum, output) in sums.iter().zip(output.chunks_mut(S::LANES)) {
                let result = if self.kind == PoolKind::Max {
                    *sum
                } else {
                    s.mul(*sum, factor)
                };
                s.store_part(result, output);
            }
        }
    }

    /// The maximum or the sum.
    #[inline(always)]
    fn join<S: Simd>(&self, s: S, sum: S::V, value: S::V) -> S::V {
        if self.kind == PoolKind::Max {
            s.max(sum, value)
        } else {
            s.add(sum, value)
        }
    }
}
