//! Convolutions with 3×3 kernels by Winograd's minimal filtering algorithms F(2×2, 3×3) and F(4×4, 3×3) (Lavin and Gray,
//! "Fast Algorithms for Convolutional Neural Networks", 2016): tiles of the image are transformed, multiplied by the
//! transformed weights at each of their 16 or 36 positions as a matrix product over channels, and the products are
//! transformed to 2×2 or 4×4 output pixels, with a 2.25th or a quarter of the multiply-adds.

mod costs;
mod tiles;
mod transforms;

use super::conv::{Conv, ConvOperands};
use super::prepared::Weights;
use super::total_len;
use crate::floats::FloatType;
use crate::panels::{self, WIDTH, packed_len};
use crate::simd::Level;
use crate::simd::disjoint::{Blocks, for_each_chunk, for_each_unit};
use crate::simd::products::ProductKind;
use crate::simd::rows::Geometry;
use costs::Costs;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenon_backend::CpuLevel;
use tenon_base::{Result, pool};
use tiles::{Task, WeightTiles};
use transforms::{F2, F4, Transform};

/// Elements of transformed weights that stay in the second level cache: each thread computes whole bands of the image
/// with them. Larger ones are divided among the threads.
const CACHED_WEIGHTS: usize = 160 << 10;

/// Elements of the transformed input of a band and of its products.
const BAND_ELEMENTS: usize = 160 << 10;

/// Bands from which on threads are given bands.
const MIN_BANDS: usize = 4;

/// Most tiles that all threads compute together.
const MAX_TILES: usize = 224;

/// Most bands that are computed at once.
const SLOTS: usize = 16;

/// Elements after the transformed input of a tile, so that tiles do not alias in the cache.
const GAP: usize = WIDTH;

/// Channels of a vector at any level.
type Channels = [f32; WIDTH];

/// One of the two algorithms for a convolution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Winograd {
    shape: Geometry,
    filters: usize,
    /// Output pixels of a tile along each axis: 2 or 4.
    outputs: usize,
}

impl Winograd {
    /// The algorithm that takes least time on this CPU, if one takes less than the plain product.
    pub(super) fn fastest(conv: &Conv) -> Option<Self> {
        let product = conv.level.product_of(conv.packed_type());
        // A pair of bf16 is multiplied in the time of one f32.
        let factor = if product == ProductKind::Bf16Pairs {
            0.5
        } else {
            1.0
        };
        Self::of(conv, conv.level.cpu(), factor)
    }

    /// The algorithm that takes least time at this level, if it takes less than `factor` of the plain product's.
    fn of(conv: &Conv, level: CpuLevel, factor: f32) -> Option<Self> {
        let costs = Costs::of(level);
        let time = |it: &Self| it.cost(&costs);
        let fastest = Self::each(conv)?.into_iter();
        fastest
            .min_by(|first, second| time(first).total_cmp(&time(second)))
            .filter(|it| time(it) < factor * it.plain_cost())
    }

    /// F(4×4, 3×3) and F(2×2, 3×3) for a convolution that they compute.
    fn each(conv: &Conv) -> Option<[Self; 2]> {
        let shape = conv.shape;
        let applies = conv.constant
            && !conv.transposed
            && conv.groups == 1
            && conv.float == FloatType::F32
            && shape.size[0] == 1
            && shape.output[0] == 1
            && shape.kernel == [1, 3, 3]
            && shape.strides == [1; 3]
            && shape.dilations == [1; 3]
            && shape.pixels() > 0
            && shape.channels > 0
            && shape.channels.is_multiple_of(WIDTH)
            && conv.filters.is_multiple_of(WIDTH);
        applies.then(|| {
            [4, 2].map(|outputs| Self {
                shape,
                filters: conv.filters,
                outputs,
            })
        })
    }

    /// The most scratch memory that a convolution has at any level.
    pub(super) fn most_scratch(conv: &Conv) -> usize {
        let levels = CpuLevel::ALL.into_iter();
        let each = levels.filter_map(|level| Some(Self::of(conv, level, 1.0)?.scratch()));
        each.max().unwrap_or(0)
    }

    /// The time in multiply-adds of the micro-kernel.
    fn cost(&self, costs: &Costs) -> f32 {
        let tiles = (self.shape.images * self.tile_rows() * self.tile_columns()) as f32;
        let (depth, filters) = (self.shape.channels as f32, self.filters as f32);
        let each = tiles * (depth * filters + depth * costs.input + filters * costs.output);
        self.positions() as f32 * (each + depth * filters * costs.weights)
    }

    /// The time of the plain product.
    fn plain_cost(&self) -> f32 {
        self.shape.pixels() as f32 * 9.0 * (self.shape.channels * self.filters) as f32
    }

    /// Input pixels of a tile along each axis.
    fn tile(&self) -> usize {
        self.outputs + 2
    }

    fn positions(&self) -> usize {
        self.tile() * self.tile()
    }

    /// Rows of tiles of an image.
    fn tile_rows(&self) -> usize {
        self.shape.output[1].div_ceil(self.outputs)
    }

    /// Tiles of a row.
    fn tile_columns(&self) -> usize {
        self.shape.output[2].div_ceil(self.outputs)
    }

    /// Elements of the transformed input of a tile.
    fn input_stride(&self) -> usize {
        let channels = self.positions().saturating_mul(self.shape.channels);
        channels.saturating_add(GAP)
    }

    /// Elements of the products of a tile.
    fn product_stride(&self) -> usize {
        self.positions().saturating_mul(self.filters)
    }

    /// Rows of tiles that are computed before the next ones: of one image, or all of several images.
    fn band(&self) -> usize {
        let rows = self.tile_rows();
        if self.divides_bands() {
            return self.cached_rows();
        }
        let fitting = (MAX_TILES / self.tile_columns()).max(1);
        match fitting / rows {
            0 => fitting,
            images => images.min(self.shape.images) * rows,
        }
    }

    /// Rows of tiles of an image that fit the second level cache beside the weights.
    fn cached_rows(&self) -> usize {
        let row = total_len(self.elements(1));
        (BAND_ELEMENTS / row).clamp(1, self.tile_rows())
    }

    /// Whether each thread computes bands, else a part of all. Long rows would take much memory for each thread.
    fn divides_bands(&self) -> bool {
        let weights = self.product_stride().saturating_mul(self.shape.channels);
        let rows = self.shape.images * self.tile_rows();
        weights <= CACHED_WEIGHTS
            && total_len(self.elements(1)) <= 2 * BAND_ELEMENTS
            && rows / self.cached_rows() >= MIN_BANDS
    }

    /// Elements of the transformed input and of the products of some rows of tiles.
    fn elements(&self, rows: usize) -> [usize; 2] {
        let tiles = rows.saturating_mul(self.tile_columns());
        [self.input_stride(), self.product_stride()].map(|stride| tiles.saturating_mul(stride))
    }

    /// Elements of scratch memory.
    pub(super) fn scratch(&self) -> usize {
        let slots = if self.divides_bands() { SLOTS } else { 1 };
        total_len(self.elements(self.band())).saturating_mul(slots)
    }

    /// The transformed weights, from those of the plain product. Workloads of the same weights, which those for other sizes of
    /// a model have, share them.
    pub(super) fn weights(&self, conv: &Conv, plain: &Weights) -> Result<Arc<Transformed>> {
        static ALL: Mutex<Vec<Weak<Transformed>>> = Mutex::new(Vec::new());
        let (level, outputs) = (conv.level, self.outputs);
        let lock = || ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().filter_map(Weak::upgrade).find(|it| {
            (it.level, it.outputs) == (level, outputs)
                && std::ptr::eq(it.plain.elements(), plain.elements())
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let panels = conv.widened(plain)?;
        let transformed = Arc::new(Transformed {
            elements: self.transform_weights(level, panels.elements())?,
            plain: plain.clone(),
            level,
            outputs,
        });
        let mut all = lock();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&transformed));
        Ok(transformed)
    }

    /// Transforms the panels of the plain product to panels of each position of a tile.
    fn transform_weights(&self, level: Level, panels: &[f32]) -> Result<Weights> {
        let (depth, filters) = (self.shape.channels, self.filters);
        let len = self.positions().saturating_mul(packed_len(depth, filters));
        let weights = panels::buffer(len, |to| match self.outputs {
            2 => self.transform_panels::<F2, 4, 2>(level, panels, to),
            _ => self.transform_panels::<F4, 6, 4>(level, panels, to),
        })?;
        Ok(Weights::new(weights))
    }

    fn transform_panels<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>(
        &self,
        level: Level,
        panels: &[f32],
        to: &mut [f32],
    ) {
        let depth = self.shape.channels;
        let chunk = TILE * packed_len(depth, self.filters);
        for_each_chunk(to, chunk, true, |row, to| {
            level.run(WeightTiles::<F, TILE, OUTPUTS> {
                panels,
                depth,
                row,
                to,
                transform: PhantomData,
            });
        });
    }

    /// Computes the convolution from transformed weights; `memory` has [`Self::scratch`] elements.
    pub(super) fn run(
        &self,
        conv: &Conv,
        weights: &[f32],
        operands: &ConvOperands<'_, f32>,
        memory: &mut [f32],
        output: &mut [f32],
    ) {
        match self.outputs {
            2 => self.run_tiles::<F2, 4, 2>(conv, weights, operands, memory, output),
            _ => self.run_tiles::<F4, 6, 4>(conv, weights, operands, memory, output),
        }
    }

    fn run_tiles<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>(
        &self,
        conv: &Conv,
        weights: &[f32],
        operands: &ConvOperands<'_, f32>,
        memory: &mut [f32],
        output: &mut [f32],
    ) {
        let task = Task::<F, TILE, OUTPUTS> {
            plan: self,
            conv,
            weights,
            operands,
            transform: PhantomData,
        };
        let (band, rows) = (self.band(), self.tile_rows());
        let size = total_len(self.elements(band));
        if self.divides_bands() {
            let [_, height, width] = self.shape.output;
            let images = Blocks {
                stacks: self.shape.images,
                rows: height,
                blocks: 1,
                width: width * self.filters,
            };
            // A part of an image for each thread, in bands of equal height.
            let threads = pool::threads().min(SLOTS);
            let part = rows.div_ceil(threads);
            let parts = rows.div_ceil(part);
            for_each_unit(
                (output, images, part * OUTPUTS),
                (&mut [0u8; 0], 1),
                (memory, size, threads),
                true,
                |unit, mut output, _, memory| {
                    let (image, first) = (unit / parts, unit % parts * part);
                    let count = part.min(rows - first);
                    let bands = count.div_ceil(band);
                    let output = output.elements_mut();
                    let start = task.offset(image * rows + first);
                    for index in 0..bands {
                        let [from, to] = [index, index + 1]
                            .map(|index| image * rows + first + index * count / bands);
                        let part = task.offset(from) - start..task.offset(to) - start;
                        task.run(from, to - from, memory, &mut output[part]);
                    }
                },
            );
            return;
        }
        let all = self.shape.images * rows;
        let mut first = 0;
        while first < all {
            let last = if band < rows {
                (first / rows + 1) * rows
            } else {
                all
            };
            let end = (first + band).min(last);
            let part = task.offset(first)..task.offset(end);
            task.run(first, end - first, memory, &mut output[part]);
            first = end;
        }
    }
}

/// Transformed weights.
pub(super) struct Transformed {
    elements: Weights,
    /// Their source: while it is kept, no other weights are at its address.
    plain: Weights,
    level: Level,
    outputs: usize,
}

impl Transformed {
    pub(super) fn elements(&self) -> &[f32] {
        self.elements.elements()
    }
}

#[cfg(test)]
mod tests;
