//! Convolutions with 3×3 kernels by Winograd's minimal filtering algorithms F(2×2, 3×3) and F(4×4, 3×3) (Lavin and Gray,
//! "Fast Algorithms for Convolutional Neural Networks", 2016): tiles of the image are transformed, multiplied by the
//! transformed weights at each of their 16 or 36 positions as a matrix product over channels, and the products are
//! transformed to 2×2 or 4×4 output pixels, with a 2.25th or a quarter of the multiply-adds.

mod costs;
mod transforms;

use super::conv::{Conv, ConvOperands};
use super::prepared::Weights;
use super::{split_scratch, total_len};
use crate::floats::FloatType;
use crate::panels::{self, Panels, WIDTH, packed_len};
use crate::simd::disjoint::{Blocks, for_each_block, for_each_chunk, for_each_unit};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::math::map_in_place;
use crate::simd::products::ProductKind;
use crate::simd::rows::{Geometry, Matrix};
use crate::simd::{Level, Simd, VectorOp};
use costs::Costs;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenon_backend::CpuLevel;
use tenon_base::{Result, pool};
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

/// An execution.
struct Task<'a, F, const TILE: usize, const OUTPUTS: usize> {
    plan: &'a Winograd,
    conv: &'a Conv,
    weights: &'a [f32],
    operands: &'a ConvOperands<'a, f32>,
    transform: PhantomData<fn(F)>,
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>
    Task<'_, F, TILE, OUTPUTS>
{
    /// The first element of the output that a row of tiles writes; rows are counted over all images.
    fn offset(&self, row: usize) -> usize {
        let [_, height, width] = self.plan.shape.output;
        let rows = self.plan.tile_rows();
        (row / rows * height + row % rows * OUTPUTS) * width * self.plan.filters
    }

    /// Computes `count` rows of tiles, of one image or all of several images, which write `output`.
    fn run(&self, first: usize, count: usize, memory: &mut [f32], output: &mut [f32]) {
        let Winograd { shape, filters, .. } = *self.plan;
        let (depth, level) = (shape.channels, self.conv.level);
        let sizes = self.plan.elements(count);
        let [input, products] = split_scratch(memory, sizes);
        let [input_row, product_row] = self.plan.elements(1);
        for_each_chunk(input, input_row, true, |row, to| {
            level.run(ReadTiles {
                task: self,
                row: first + row,
                to,
            });
        });
        let tiles = Blocks {
            stacks: 1,
            rows: count * self.plan.tile_columns(),
            blocks: self.plan.positions(),
            width: filters,
        };
        let slots = (&mut [][..], 0, tiles.blocks);
        for_each_block(products, tiles, slots, true, |position, products, _| {
            let input = &input[position * depth..];
            let a = Matrix::new(input, tiles.rows, depth, self.plan.input_stride());
            let len = packed_len(depth, filters);
            let panels = |position: usize| {
                let weights = self.weights.get(position * len..)?;
                (weights.len() >= len).then(|| Panels::new(weights, depth, filters))
            };
            if let Some(own) = panels(position) {
                let gemm = Gemm {
                    next: panels(position + 1),
                    ..Gemm::new(own)
                };
                multiply(level, &a, &gemm, products);
            }
        });
        let [_, height, width] = shape.output;
        let line = width * filters;
        for (image, output) in output.chunks_mut(height * line).enumerate() {
            let first_row = image * self.plan.tile_rows();
            for_each_chunk(output, OUTPUTS * line, true, |row, to| {
                let row = first_row + row;
                level.run(WriteTiles {
                    task: self,
                    products: &products[row * product_row..][..product_row],
                    first: self.offset(first + row),
                    to,
                });
            });
        }
    }
}

/// Transforms a row of tiles of the input.
struct ReadTiles<'a, 'b, F, const TILE: usize, const OUTPUTS: usize> {
    task: &'a Task<'b, F, TILE, OUTPUTS>,
    /// Counted over all images.
    row: usize,
    to: &'a mut [f32],
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize> VectorOp
    for ReadTiles<'_, '_, F, TILE, OUTPUTS>
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let plan = self.task.plan;
        let shape = &plan.shape;
        let pixels = self.task.operands.input.as_chunks::<WIDTH>().0;
        let [_, height, width] = shape.size;
        let chunks = shape.channels / WIDTH;
        let (image, row) = (self.row / plan.tile_rows(), self.row % plan.tile_rows());
        let top = (row * OUTPUTS).wrapping_sub(shape.before[1]);
        let tiles = self.to.chunks_exact_mut(plan.input_stride());
        for (column, to) in tiles.enumerate() {
            let left = (column * OUTPUTS).wrapping_sub(shape.before[2]);
            let to = to.as_chunks_mut::<WIDTH>().0;
            let fits = |first: usize, size: usize| first < size && first + TILE <= size;
            if fits(top, height) && fits(left, width) {
                let mut rows = [&[][..]; TILE];
                for (i, row) in rows.iter_mut().enumerate() {
                    let first = (image * height + top + i) * width + left;
                    *row = &pixels[first * chunks..][..TILE * chunks];
                }
                for chunk in 0..chunks {
                    Self::transform(s, &rows, (chunks, chunk), &mut to[chunk..], chunks);
                }
                continue;
            }
            // The tile with its padding, a vector of channels at a time.
            let mut tile = [[[0.0; WIDTH]; TILE]; TILE];
            for chunk in 0..chunks {
                for (i, row) in tile.iter_mut().enumerate() {
                    for (j, to) in row.iter_mut().enumerate() {
                        let (y, x) = (top.wrapping_add(i), left.wrapping_add(j));
                        if y < height && x < width {
                            *to = pixels[((image * height + y) * width + x) * chunks + chunk];
                        }
                    }
                }
                let mut rows = [&[][..]; TILE];
                for (row, tile) in rows.iter_mut().zip(&tile) {
                    *row = tile;
                }
                Self::transform(s, &rows, (1, 0), &mut to[chunk..], chunks);
            }
        }
    }
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>
    ReadTiles<'_, '_, F, TILE, OUTPUTS>
{
    /// Transforms 16 channels of a tile: those at `first` of the pixels of each row, which are `stride` apart. Writes them
    /// `to_stride` apart.
    #[inline(always)]
    fn transform<S: Simd>(
        s: S,
        rows: &[&[Channels]; TILE],
        (stride, first): (usize, usize),
        to: &mut [Channels],
        to_stride: usize,
    ) {
        for lane in (0..WIDTH).step_by(S::LANES) {
            let mut columns = [[s.splat(0.0); TILE]; TILE];
            for j in 0..TILE {
                let mut column = [s.splat(0.0); TILE];
                for i in 0..TILE {
                    column[i] = s.load(&rows[i][j * stride + first][lane..]);
                }
                columns[j] = F::input(s, column);
            }
            for i in 0..TILE {
                let mut row = [s.splat(0.0); TILE];
                for j in 0..TILE {
                    row[j] = columns[j][i];
                }
                let row = F::input(s, row);
                for (j, element) in row.into_iter().enumerate() {
                    s.store(element, &mut to[(i * TILE + j) * to_stride][lane..]);
                }
            }
        }
    }
}

/// Transforms the products of a row of tiles to output pixels.
struct WriteTiles<'a, 'b, F, const TILE: usize, const OUTPUTS: usize> {
    task: &'a Task<'b, F, TILE, OUTPUTS>,
    products: &'a [f32],
    /// The offset of `to` in the output.
    first: usize,
    to: &'a mut [f32],
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize> VectorOp
    for WriteTiles<'_, '_, F, TILE, OUTPUTS>
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let (plan, operands) = (self.task.plan, self.task.operands);
        let (width, chunks) = (plan.shape.output[2], plan.filters / WIDTH);
        let activation = &self.task.conv.activation;
        let [low, high] = activation.limits.map(|limit| s.splat(limit));
        let bias = operands
            .bias
            .map(|bias| &bias.as_chunks::<WIDTH>().0[..chunks]);
        let pixels = self.to.as_chunks_mut::<WIDTH>().0;
        let addend = operands
            .addend
            .map(|addend| &addend[self.first..].as_chunks::<WIDTH>().0[..pixels.len()]);
        let height = pixels.len() / (width * chunks);
        let tiles = self.products.chunks_exact(plan.product_stride());
        for (column, products) in tiles.enumerate() {
            let products = products.as_chunks::<WIDTH>().0;
            let columns = (width - column * OUTPUTS).min(OUTPUTS);
            for chunk in 0..chunks {
                for lane in (0..WIDTH).step_by(S::LANES) {
                    let mut all = [[s.splat(0.0); TILE]; OUTPUTS];
                    for i in 0..TILE {
                        let mut row = [s.splat(0.0); TILE];
                        for j in 0..TILE {
                            row[j] = s.load(&products[(i * TILE + j) * chunks + chunk][lane..]);
                        }
                        let row = F::output(s, row);
                        for x in 0..OUTPUTS {
                            all[x][i] = row[x];
                        }
                    }
                    let bias = match bias {
                        Some(bias) => s.load(&bias[chunk][lane..]),
                        None => s.splat(0.0),
                    };
                    for (x, column_of_products) in all.into_iter().enumerate().take(columns) {
                        let results = F::output(s, column_of_products);
                        for (y, mut result) in results.into_iter().enumerate().take(height) {
                            let at = (y * width + column * OUTPUTS + x) * chunks + chunk;
                            result = s.add(result, bias);
                            if let Some(addend) = addend {
                                result = s.add(result, s.load(&addend[at][lane..]));
                            }
                            result = s.min(high, s.max(low, result));
                            s.store(result, &mut pixels[at][lane..]);
                        }
                    }
                }
            }
        }
        if let Some(function) = activation.function {
            map_in_place(s, function, self.to);
        }
    }
}

/// Transforms the weights to those of a row of positions of a tile.
struct WeightTiles<'a, F, const TILE: usize, const OUTPUTS: usize> {
    panels: &'a [f32],
    depth: usize,
    row: usize,
    to: &'a mut [f32],
    transform: PhantomData<fn(F)>,
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize> VectorOp
    for WeightTiles<'_, F, TILE, OUTPUTS>
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let from = self.panels.as_chunks::<WIDTH>().0;
        let to = self.to.as_chunks_mut::<WIDTH>().0;
        let stride = to.len() / TILE;
        let panels = from.chunks_exact(9 * self.depth);
        for (panel, from) in panels.enumerate() {
            for channel in 0..self.depth {
                for lane in (0..WIDTH).step_by(S::LANES) {
                    let mut row = [s.splat(0.0); 3];
                    for x in 0..3 {
                        let mut column = [s.splat(0.0); 3];
                        for y in 0..3 {
                            column[y] = s.load(&from[(3 * y + x) * self.depth + channel][lane..]);
                        }
                        row[x] = F::weights(s, column)[self.row];
                    }
                    let row = F::weights(s, row);
                    for (position, element) in row.into_iter().enumerate() {
                        let at = position * stride + panel * self.depth + channel;
                        s.store(element, &mut to[at][lane..]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;
    use std::time::Instant;

    /// Values in -1..1.
    fn random_values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            let mixed = (state >> ((state >> 28) + 4) ^ state).wrapping_mul(277_803_737);
            (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// A convolution, its algorithm for tiles of `outputs` pixels, and operands.
    struct Case {
        conv: Conv,
        winograd: Winograd,
        input: Vec<f32>,
        weights: Vec<f32>,
        panels: Vec<f32>,
    }

    impl Case {
        /// Of images, height, width, channels and filters, and the padding at the top, left, bottom and right.
        fn new(
            level: CpuLevel,
            outputs: usize,
            [images, height, width, channels, filters]: [usize; 5],
            [top, left, bottom, right]: [usize; 4],
        ) -> Self {
            let shape = Geometry {
                images,
                size: [1, height, width],
                channels,
                kernel: [1, 3, 3],
                strides: [1; 3],
                dilations: [1; 3],
                before: [0, top, left],
                after: [0, bottom, right],
                output: [1, height + top + bottom - 2, width + left + right - 2],
            };
            let conv = Conv {
                level: Level::detect(level),
                float: FloatType::F32,
                weights: FloatType::F32,
                shape,
                transposed: false,
                groups: 1,
                filters,
                direct: false,
                activation: Activation::NONE,
                constant: true,
                bias: false,
                addend: false,
            };
            let weights = random_values(9 * channels * filters, 1);
            let mut panels = vec![0.0; packed_len(9 * channels, filters)];
            conv.fill(&weights, &mut panels);
            let winograd = Winograd::each(&conv).into_iter().flatten();
            let mut winograd = winograd.filter(|it| it.outputs == outputs);
            Self {
                winograd: winograd.next().expect("the algorithm applies"),
                input: random_values(shape.input_len(), 2),
                weights,
                panels,
                conv,
            }
        }

        fn operands(&self) -> ConvOperands<'_, f32> {
            ConvOperands {
                input: &self.input,
                bias: None,
                addend: None,
            }
        }

        fn run(&self, operands: &ConvOperands<'_, f32>) -> Vec<f32> {
            let weights = self
                .winograd
                .transform_weights(self.conv.level, &self.panels);
            let weights = weights.expect("memory");
            let mut memory = vec![f32::NAN; self.winograd.scratch()];
            let mut output = vec![f32::NAN; self.conv.shape.pixels() * self.conv.filters];
            let weights = weights.elements();
            self.winograd
                .run(&self.conv, weights, operands, &mut memory, &mut output);
            output
        }

        /// The sum of products of an output element, and of their magnitudes.
        fn exact(&self, image: usize, [y, x]: [usize; 2], filter: usize) -> [f64; 2] {
            let shape = &self.conv.shape;
            let [_, height, width] = shape.size;
            let mut sums = [0.0; 2];
            for position in 0..9 {
                let row = (y + position / 3).wrapping_sub(shape.before[1]);
                let column = (x + position % 3).wrapping_sub(shape.before[2]);
                if row >= height || column >= width {
                    continue;
                }
                let pixel = ((image * height + row) * width + column) * shape.channels;
                for channel in 0..shape.channels {
                    let weight = self.weights[(filter * shape.channels + channel) * 9 + position];
                    let product = f64::from(weight) * f64::from(self.input[pixel + channel]);
                    sums[0] += product;
                    sums[1] += product.abs();
                }
            }
            sums
        }
    }

    /// The largest error that each algorithm may have, in units of 2^-24 of the largest sum of magnitudes of products.
    const ERROR_BOUNDS: [(usize, f64); 2] = [(2, 4.0), (4, 40.0)];

    #[test]
    fn results_are_those_of_f64_within_a_bound() {
        let shapes = [
            ([1, 1, 1, 16, 16], [1; 4]),
            ([1, 3, 3, 16, 32], [0; 4]),
            ([3, 7, 9, 32, 16], [1; 4]),
            ([2, 12, 6, 48, 80], [0, 2, 1, 5]),
            ([1, 37, 33, 16, 16], [1; 4]),
            ([5, 4, 5, 128, 128], [1; 4]),
            ([1, 8, 70, 96, 64], [2, 0, 0, 2]),
            // A row of tiles is too long for the memory of a thread.
            ([2, 5, 600, 64, 64], [1; 4]),
        ];
        for level in CpuLevel::ALL {
            for (outputs, bound) in ERROR_BOUNDS {
                for (shape, padding) in shapes {
                    let case = Case::new(level, outputs, shape, padding);
                    let found = case.run(&case.operands());
                    let alone = pool::with_thread_limit(1, || case.run(&case.operands()));
                    let (geometry, filters) = (&case.conv.shape, case.conv.filters);
                    let [_, height, width] = geometry.output;
                    let (mut error, mut largest): (f64, f64) = (0.0, 0.0);
                    for (index, (&found, &alone)) in found.iter().zip(&alone).enumerate() {
                        assert_eq!(
                            found, alone,
                            "{shape:?}: the threads change element {index}"
                        );
                        let (pixel, filter) = (index / filters, index % filters);
                        let at = [pixel / width % height, pixel % width];
                        let [exact, magnitude] = case.exact(pixel / width / height, at, filter);
                        error = error.max((f64::from(found) - exact).abs());
                        largest = largest.max(magnitude);
                    }
                    let found = error / largest * 2f64.powi(24);
                    assert!(found <= bound, "{level:?}, {outputs}: {shape:?}: {found}");
                }
            }
        }
    }

    #[test]
    fn workloads_of_the_same_weights_share_them() {
        let case = Case::new(CpuLevel::Baseline, 4, [1, 9, 9, 16, 16], [1; 4]);
        let weights = |plain: &Weights| case.winograd.weights(&case.conv, plain).expect("memory");
        let fill = |to: &mut [f32]| to.copy_from_slice(&case.panels);
        let [plain, other] = [(); 2]
            .map(|()| Weights::new(panels::buffer(case.panels.len(), fill).expect("memory")));
        let first = weights(&plain);
        assert!(Arc::ptr_eq(&first, &weights(&plain.clone())));
        assert!(!Arc::ptr_eq(&first, &weights(&other)));
        assert_eq!(first.elements(), weights(&other).elements());
    }

    #[test]
    fn the_epilogue_follows_the_sums() {
        for level in CpuLevel::ALL {
            for outputs in [2, 4] {
                let shape = [2, 6, 5, 16, 32];
                let mut case = Case::new(level, outputs, shape, [1; 4]);
                let plain = case.run(&case.operands());
                let (bias, addend) = (random_values(32, 3), random_values(plain.len(), 4));
                let input = case.input.clone();
                let operands = ConvOperands {
                    input: &input,
                    bias: Some(&bias),
                    addend: Some(&addend),
                };
                let sum = |index: usize| plain[index] + bias[index % 32] + addend[index];
                case.conv.activation.limits = [-0.5, 1.5];
                for (index, found) in case.run(&operands).into_iter().enumerate() {
                    assert_eq!(found, sum(index).clamp(-0.5, 1.5));
                }
                case.conv.activation = Activation {
                    function: Some(crate::simd::math::UnaryFunction::LeakyRelu { alpha: 0.5 }),
                    ..Activation::NONE
                };
                for (index, found) in case.run(&operands).into_iter().enumerate() {
                    let sum = sum(index);
                    assert_eq!(found, if sum < 0.0 { sum * 0.5 } else { sum });
                }
            }
        }
    }

    /// The least time in seconds of some calls.
    fn time(mut call: impl FnMut()) -> f64 {
        let times = (0..15).map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64()
        });
        times.fold(f64::INFINITY, f64::min)
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "what it is for")]
    #[ignore = "prints the table of `Costs::of`, measured on one thread"]
    fn costs_of_this_machine() {
        pool::with_thread_limit(1, || {
            for level in CpuLevel::ALL {
                for outputs in [2, 4] {
                    println!("{level:?}, {outputs}: {:.1?}", costs(level, outputs));
                }
            }
        });
    }

    /// The costs of input, output and weights.
    fn costs(level: CpuLevel, outputs: usize) -> [f64; 3] {
        match outputs {
            2 => costs_of::<F2, 4, 2>(level),
            _ => costs_of::<F4, 6, 4>(level),
        }
    }

    fn costs_of<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>(
        level: CpuLevel,
    ) -> [f64; 3] {
        let case = Case::new(level, OUTPUTS, [1, 28, 28, 128, 128], [1; 4]);
        let (plan, operands, level) = (&case.winograd, case.operands(), case.conv.level);
        let mut output = vec![0.0; case.conv.shape.pixels() * case.conv.filters];
        let plain = time(|| case.conv.run(&case.panels, &operands, &mut [], &mut output));
        let unit = plain / f64::from(plan.plain_cost());
        let task = Task::<F, TILE, OUTPUTS> {
            plan,
            conv: &case.conv,
            weights: &[],
            operands: &operands,
            transform: PhantomData,
        };
        let [mut input, products] = plan.elements(1).map(|count| vec![0.5; count]);
        let rows = plan.tile_rows();
        let elements = (rows * plan.tile_columns() * plan.positions() * 128) as f64;
        let read = time(|| {
            for row in 0..rows {
                let (task, to) = (&task, &mut input[..]);
                level.run(ReadTiles { task, row, to });
            }
        });
        let write = time(|| {
            for _ in 0..rows {
                level.run(WriteTiles {
                    task: &task,
                    products: &products,
                    first: 0,
                    to: &mut output[..OUTPUTS * 28 * 128],
                });
            }
        });
        // Weights that do not fit the caches, each read once.
        let case = Case::new(level.cpu(), OUTPUTS, [1, 7, 7, 512, 512], [1; 4]);
        let (plan, operands) = (&case.winograd, case.operands());
        let weights: Vec<_> = (0..if OUTPUTS == 2 { 8 } else { 4 })
            .map(|_| plan.transform_weights(level, &case.panels).expect("memory"))
            .collect();
        let mut memory = vec![0.0; plan.scratch()];
        let mut output = vec![0.0; case.conv.shape.pixels() * case.conv.filters];
        let whole = time(|| {
            for weights in &weights {
                plan.run(
                    &case.conv,
                    weights.elements(),
                    &operands,
                    &mut memory,
                    &mut output,
                );
            }
        }) / weights.len() as f64;
        let [input, output] = [read, write].map(|time| time / unit / elements);
        let costs = Costs {
            input: input as f32,
            output: output as f32,
            weights: 0.0,
        };
        let elements = (plan.positions() * 512 * 512) as f64;
        let weights = (whole / unit - f64::from(plan.cost(&costs))) / elements;
        [input, output, weights]
    }
}
