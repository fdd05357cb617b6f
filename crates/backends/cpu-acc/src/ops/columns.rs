//! Convolutions of images with the channels first as products of the weights with im2col columns: the
//! columns of a block of output pixels are packed in panels, which the filters of a group are multiplied
//! with. The elements of the columns are a parameter.

use super::number::Number;
use super::plain_matmul::PlainRows;
use super::{chunk_rows, total_len};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{for_each_chunk, for_each_chunk2};
use crate::simd::rows::Geometry;
use crate::simd::{Level, VectorOp};
use tenon_backend::Refusal;

/// Elements of the panels of a block, which stay in the second-level cache.
const BLOCK_ELEMENTS: usize = 1 << 16;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 17;

/// A convolution of `WIDTH` columns a panel.
pub(super) struct ColumnConvolution<const WIDTH: usize> {
    pub(super) level: Level,
    pub(super) geometry: Geometry,
    pub(super) groups: usize,
    /// Filters and channels of a group.
    pub(super) filters: usize,
    pub(super) channels: usize,
}

/// The group of an image.
#[derive(Clone, Copy)]
pub(super) struct ImageGroup {
    pub(super) image: usize,
    pub(super) group: usize,
}

impl<const WIDTH: usize> ColumnConvolution<WIDTH> {
    /// The convolution of input 0 with the weights at input `weights`.
    pub(super) fn of(signature: &Signature<'_>, weights: usize) -> Result<Self, Refusal> {
        let (x, w) = (
            signature.input(0)?.shape(),
            signature.input(weights)?.shape(),
        );
        let y = signature.output(0)?.shape();
        let (&[images, channels, ref size @ ..], &[filters, depth, ref kernel @ ..]) = (&**x, &**w)
        else {
            return Err(refuse("no kernel for images without channels"));
        };
        let image = [&[images], size, &[channels]].concat();
        let geometry = signature.geometry(&image, kernel, false)?;
        let groups = usize::try_from(signature.int("group", 1)?).unwrap_or(0);
        let pixels: usize = geometry.output.iter().product();
        let fits = groups > 0
            && groups.checked_mul(depth) == Some(channels)
            && filters.is_multiple_of(groups)
            && y.get(..2) == Some(&[images, filters][..])
            && y[2..].iter().product::<usize>() == pixels;
        if !fits {
            return Err(refuse("the channels and groups do not fit"));
        }
        Ok(Self {
            level: signature.level,
            geometry,
            groups,
            filters: filters / groups,
            channels: depth,
        })
    }

    /// Elements of a filter.
    pub(super) fn depth(&self) -> usize {
        self.channels.saturating_mul(self.geometry.positions())
    }

    /// Output pixels of an image.
    pub(super) fn pixels(&self) -> usize {
        self.geometry.output.iter().product()
    }

    /// Pixels of an image.
    pub(super) fn plane(&self) -> usize {
        self.geometry.size.iter().product()
    }

    /// Panels of a block.
    fn block(&self) -> usize {
        let most = (BLOCK_ELEMENTS / WIDTH / self.depth().max(1)).max(4);
        self.pixels().div_ceil(WIDTH).min(most)
    }

    /// Elements of scratch memory for all weights, the panels of a block, and the sums of a group.
    pub(super) fn scratch(&self) -> [usize; 3] {
        let columns = self.block() * WIDTH;
        let filters = self.filters.saturating_mul(self.groups);
        [
            filters.saturating_mul(self.depth()),
            columns.saturating_mul(self.depth()),
            columns.saturating_mul(self.filters),
        ]
    }

    /// Bytes of scratch memory with elements of `size` bytes.
    pub(super) fn scratch_bytes(&self, size: usize) -> usize {
        total_len(self.scratch()).saturating_mul(size)
    }

    /// Computes all outputs. `pack` writes the panel of the pixels from a first one on, of which
    /// `finish` converts the sums of a filter to elements of the output.
    pub(super) fn compute<T: Number, Y: Send>(
        &self,
        [weights, panels, sums]: [&mut [T]; 3],
        output: &mut [Y],
        pack: impl Fn(ImageGroup, usize, &mut [T]) + Sync,
        finish: impl Fn(usize, &[T], &mut [Y]) + Sync,
    ) where
        for<'a> PlainRows<'a, T, WIDTH>: VectorOp<Output = ()>,
    {
        let (depth, pixels, columns) = (self.depth(), self.pixels(), self.block() * WIDTH);
        let operations = self.filters.saturating_mul(depth).saturating_mul(pixels);
        let parallel = operations >= PARALLEL_OPERATIONS;
        let chunk = chunk_rows(self.filters, parallel);
        let groups = output.chunks_exact_mut(self.filters * pixels);
        for (index, output) in groups.enumerate() {
            let (image, group) = (index / self.groups, index % self.groups);
            let weights = &weights[group * self.filters * depth..][..self.filters * depth];
            for first in (0..pixels).step_by(columns) {
                let count = columns.min(pixels - first);
                let panels = &mut panels[..count.div_ceil(WIDTH) * WIDTH * depth];
                for_each_chunk(panels, WIDTH * depth, parallel, |panel, to| {
                    pack(ImageGroup { image, group }, first + panel * WIDTH, to);
                });
                let (panels, sums) = (&*panels, &mut *sums);
                let (output, sums) = ((&mut *output, chunk * pixels), (sums, chunk * columns));
                for_each_chunk2(output, sums, parallel, |index, output, sums| {
                    let rows = output.len() / pixels;
                    let sums = &mut sums[..rows * count];
                    self.level.run(PlainRows::<T, WIDTH> {
                        a: &weights[index * chunk * depth..][..rows * depth],
                        panels,
                        depth,
                        columns: count,
                        output: sums,
                    });
                    let rows = sums
                        .chunks_exact(count)
                        .zip(output.chunks_exact_mut(pixels));
                    for (row, (sums, output)) in rows.enumerate() {
                        let filter = group * self.filters + index * chunk + row;
                        finish(filter, sums, &mut output[first..first + count]);
                    }
                });
            }
        }
    }

    /// The positions in the input of the first kernel position of a panel's pixels, along each axis; the
    /// count of pixels, of which the last panel of an image has fewer.
    pub(super) fn origins(&self, first: usize) -> ([[i64; 3]; WIDTH], usize) {
        let geometry = &self.geometry;
        let [_, height, width] = geometry.output;
        let count = (self.pixels() - first).min(WIDTH);
        let mut origins = [[0; 3]; WIDTH];
        for (lane, origin) in origins.iter_mut().enumerate().take(count) {
            let pixel = first + lane;
            let at = [
                pixel / (height * width),
                pixel / width % height,
                pixel % width,
            ];
            for axis in 0..3 {
                origin[axis] =
                    (at[axis] * geometry.strides[axis]) as i64 - geometry.before[axis] as i64;
            }
        }
        (origins, count)
    }

    /// Calls `body` with each kernel position and its distance from the first along each axis.
    pub(super) fn for_each_position(&self, mut body: impl FnMut(usize, [i64; 3])) {
        let [_, height, width] = self.geometry.kernel;
        for position in 0..self.geometry.positions() {
            let at = [
                position / (height * width),
                position / width % height,
                position % width,
            ];
            let distance =
                std::array::from_fn(|axis| (at[axis] * self.geometry.dilations[axis]) as i64);
            body(position, distance);
        }
    }
}
