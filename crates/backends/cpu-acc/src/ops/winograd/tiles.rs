//! Tiles in the transformed domain: reading them from the image, their products with the weights, and writing output pixels.

use super::transforms::Transform;
use super::{Channels, Winograd};
use crate::ops::conv::{Conv, ConvOperands};
use crate::ops::split_scratch;
use crate::panels::{Panels, WIDTH, packed_len};
use crate::simd::disjoint::{Blocks, for_each_block, for_each_chunk};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::math::map_in_place;
use crate::simd::rows::Matrix;
use crate::simd::{Simd, VectorOp};
use std::marker::PhantomData;

/// An execution.
pub(super) struct Task<'a, F, const TILE: usize, const OUTPUTS: usize> {
    pub(super) plan: &'a Winograd,
    pub(super) conv: &'a Conv,
    pub(super) weights: &'a [f32],
    pub(super) operands: &'a ConvOperands<'a, f32>,
    pub(super) transform: PhantomData<fn(F)>,
}

impl<F: Transform<TILE, OUTPUTS>, const TILE: usize, const OUTPUTS: usize>
    Task<'_, F, TILE, OUTPUTS>
{
    /// The first element of the output that a row of tiles writes; rows are counted over all images.
    pub(super) fn offset(&self, row: usize) -> usize {
        let [_, height, width] = self.plan.shape.output;
        let rows = self.plan.tile_rows();
        (row / rows * height + row % rows * OUTPUTS) * width * self.plan.filters
    }

    /// Computes `count` rows of tiles, of one image or all of several images, which write `output`.
    pub(super) fn run(&self, first: usize, count: usize, memory: &mut [f32], output: &mut [f32]) {
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
            let panels = |position: usize| {
                let first = position * packed_len(depth, filters);
                Panels::new(&self.weights[first..], depth, filters)
            };
            let is_last = position + 1 == tiles.blocks;
            let gemm = Gemm {
                next: (!is_last).then(|| panels(position + 1)),
                ..Gemm::new(panels(position))
            };
            multiply(level, &a, &gemm, products);
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
pub(super) struct ReadTiles<'a, 'b, F, const TILE: usize, const OUTPUTS: usize> {
    pub(super) task: &'a Task<'b, F, TILE, OUTPUTS>,
    /// Counted over all images.
    pub(super) row: usize,
    pub(super) to: &'a mut [f32],
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
pub(super) struct WriteTiles<'a, 'b, F, const TILE: usize, const OUTPUTS: usize> {
    pub(super) task: &'a Task<'b, F, TILE, OUTPUTS>,
    pub(super) products: &'a [f32],
    /// The offset of `to` in the output.
    pub(super) first: usize,
    pub(super) to: &'a mut [f32],
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
pub(super) struct WeightTiles<'a, F, const TILE: usize, const OUTPUTS: usize> {
    pub(super) panels: &'a [f32],
    pub(super) depth: usize,
    pub(super) row: usize,
    pub(super) to: &'a mut [f32],
    pub(super) transform: PhantomData<fn(F)>,
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
