//! RoiAlign and MaxRoiPool: regions of images, sampled or pooled to a grid of cells.
//!
//! The mean of bilinear samples is separable: each row of cells has a weight for each row of pixels, each
//! column of cells one for each column of pixels. So the pixels of a row of cells are first summed to one
//! line, in vectors.

use super::indices::{FirstError, position};
use super::{Kernel, UnpreparedWorkload, chunk_rows, scratch};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{for_each_chunk, for_each_chunk2};
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};
use tenon_graph::geometry::{RegionSampling, RegionSide, pooled_pixels};

/// Most chunks of regions that threads work on concurrently, each with its own weights.
const CHUNKS: usize = 16;
/// Regions times cells below which one thread is used.
const PARALLEL: usize = 1 << 12;

/// The dimensions of images and of the cells of a region.
#[derive(Debug, Clone, Copy)]
struct Regions {
    images: usize,
    channels: usize,
    /// Pixels of an image, and cells of a region, each height and width.
    pixels: [usize; 2],
    cells: [usize; 2],
}

impl Regions {
    fn new(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let [images, channels, height, width] = signature.ranked(0)?;
        let [_, _, rows, columns] = signature.ranked_output()?;
        Ok(Self {
            images,
            channels,
            pixels: [height, width],
            cells: [rows, columns],
        })
    }

    fn plane(&self) -> usize {
        self.pixels[0] * self.pixels[1]
    }

    /// Elements of the output of one region.
    fn region(&self) -> usize {
        self.channels * self.cells[0] * self.cells[1]
    }

    /// Scratch elements of a chunk of RoiAlign: the weights of rows and columns, the pixels of each cell along both
    /// sides (start and end), and a line; `None` where the image is too large.
    fn align_scratch(&self) -> Option<usize> {
        let Self { pixels, cells, .. } = *self;
        let rows = cells[0].checked_mul(pixels[0] + 2)?;
        let columns = cells[1].checked_mul(pixels[1] + 2)?;
        let slot = rows.checked_add(columns)?.checked_add(pixels[1])?;
        // The ends of ranges are stored as f32, which are exact up to 2^24.
        let exact = pixels.iter().all(|&extent| extent <= 1 << 24);
        let fits = slot <= isize::MAX as usize / (4 * CHUNKS);
        (exact && fits).then_some(slot)
    }
}

/// The kernel of RoiAlign.
struct Align {
    level: Level,
    regions: Regions,
    sampling: RegionSampling,
    greatest: bool,
    /// Elements of scratch memory of a chunk of regions.
    slot: usize,
}

/// The kernel of RoiAlign.
pub(super) fn align(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let sampling = RegionSampling::new(signature.attributes());
    let regions = Regions::new(signature)?;
    let slot = regions.align_scratch();
    Ok(Box::new(Align {
        level: signature.level,
        regions,
        sampling: sampling.map_err(|error| refuse(error.to_string()))?,
        greatest: signature.string("mode", "avg")? == "max",
        slot: slot.ok_or_else(|| refuse("the image is too large"))?,
    }))
}

/// The two pixels around a coordinate along a side, and the weight of the second; `None` outside.
fn around(at: f64, extent: usize) -> Option<(usize, usize, f64)> {
    if !(-1.0..=extent as f64).contains(&at) {
        return None;
    }
    let at = at.max(0.0);
    let low = at as usize;
    Some(if low + 1 >= extent {
        (extent - 1, extent - 1, 0.0)
    } else {
        (low, low + 1, at - low as f64)
    })
}

/// For each cell along a side, the weights of pixels, and the pixels that have one.
struct SideWeights<'a> {
    extent: usize,
    weights: &'a mut [f32],
}

impl SideWeights<'_> {
    /// Adds the weights of the samples of a cell.
    fn fill(&mut self, side: &RegionSide, cell: usize) -> Range<usize> {
        let weights = &mut self.weights[cell * self.extent..][..self.extent];
        weights.fill(0.0);
        let (mut first, mut end) = (usize::MAX, 0);
        for nth in 0..side.samples() {
            if let Some((low, high, ratio)) = around(side.sample(cell, nth), self.extent) {
                weights[low] += (1.0 - ratio) as f32;
                weights[high] += ratio as f32;
                (first, end) = (first.min(low), end.max(high + 1));
            }
        }
        first.min(end)..end
    }
}

impl Align {
    /// Computes the cells of one region of an image.
    fn region(
        &self,
        region: &[f32; 4],
        image: &[f32],
        slot: &mut [f32],
        to: &mut [f32],
    ) -> Result<()> {
        let Regions { pixels, cells, .. } = self.regions;
        let [left, top, right, bottom] = region.map(f64::from);
        let columns = self.sampling.side(left, right, cells[1])?;
        let rows = self.sampling.side(top, bottom, cells[0])?;
        if self.greatest {
            self.maxima(&rows, &columns, image, to);
            return Ok(());
        }
        let (row_weights, rest) = slot.split_at_mut(cells[0] * pixels[0]);
        let (column_weights, rest) = rest.split_at_mut(cells[1] * pixels[1]);
        let (row_ranges, rest) = rest.split_at_mut(2 * cells[0]);
        let (column_ranges, line) = rest.split_at_mut(2 * cells[1]);
        let fill = |side: &RegionSide, extent, weights: &mut [f32], ranges: &mut [f32]| {
            let mut all = SideWeights { extent, weights };
            for (cell, range) in ranges.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                stop::checkpoint();
                let pixels = all.fill(side, cell);
                *range = [pixels.start as f32, pixels.end as f32];
            }
        };
        fill(&rows, pixels[0], row_weights, row_ranges);
        fill(&columns, pixels[1], column_weights, column_ranges);
        let samples = (rows.samples() * columns.samples()).max(1);
        self.level.run(RegionMeans {
            pixels,
            rows: (row_weights, row_ranges),
            columns: (column_weights, column_ranges),
            factor: 1.0 / samples as f32,
            image,
            line,
            to,
        });
        Ok(())
    }

    /// The greatest weighted pixel of the samples of each cell.
    fn maxima(&self, rows: &RegionSide, columns: &RegionSide, image: &[f32], to: &mut [f32]) {
        let Regions { pixels, cells, .. } = self.regions;
        let count = cells[0] * cells[1];
        to.fill(f32::NEG_INFINITY);
        for cell in 0..count {
            let at = [cell / cells[1], cell % cells[1]];
            for nth in 0..rows.samples() * columns.samples() {
                stop::checkpoint();
                let y = around(rows.sample(at[0], nth / columns.samples()), pixels[0]);
                let x = around(columns.sample(at[1], nth % columns.samples()), pixels[1]);
                let corners = match (y, x) {
                    (Some((top, bottom, y)), Some((left, right, x))) => [
                        (top * pixels[1] + left, (1.0 - y) * (1.0 - x)),
                        (top * pixels[1] + right, (1.0 - y) * x),
                        (bottom * pixels[1] + left, y * (1.0 - x)),
                        (bottom * pixels[1] + right, y * x),
                    ],
                    _ => [(0, 0.0); 4],
                };
                let planes = image.chunks_exact(self.regions.plane());
                for (plane, to) in planes.zip(to[cell..].iter_mut().step_by(count)) {
                    let values = corners.map(|(at, weight)| weight as f32 * plane[at]);
                    *to = values.into_iter().fold(*to, f32::max);
                }
            }
        }
        for to in to {
            if *to == f32::NEG_INFINITY {
                *to = 0.0;
            }
        }
    }
}

/// The means of the samples of all cells of a region, for all channels.
struct RegionMeans<'a> {
    pixels: [usize; 2],
    /// For each cell along a side the weights of all pixels, and the range of pixels that have one.
    rows: (&'a [f32], &'a [f32]),
    columns: (&'a [f32], &'a [f32]),
    factor: f32,
    image: &'a [f32],
    line: &'a mut [f32],
    to: &'a mut [f32],
}

impl VectorOp for RegionMeans<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let [height, width] = self.pixels;
        let (rows, columns) = (
            self.rows.1.as_chunks::<2>().0,
            self.columns.1.as_chunks::<2>().0,
        );
        let range = |&[start, end]: &[f32; 2]| start as usize..end as usize;
        // The pixels that any column of cells reads.
        let mut all = width..0;
        for columns in columns
            .iter()
            .map(range)
            .filter(|columns| !columns.is_empty())
        {
            all = all.start.min(columns.start)..all.end.max(columns.end);
        }
        let all = if all.is_empty() { 0..0 } else { all };
        let planes = self.image.chunks_exact(height * width);
        let cells = rows.len() * columns.len();
        for (plane, to) in planes.zip(self.to.chunks_exact_mut(cells)) {
            for (cell, (rows, to)) in rows
                .iter()
                .zip(to.chunks_exact_mut(columns.len()))
                .enumerate()
            {
                let line = &mut self.line[all.clone()];
                line.fill(0.0);
                for row in range(rows) {
                    let weight = self.rows.0[cell * height + row];
                    let from = &plane[row * width..][all.clone()];
                    for (to, &pixel) in line.iter_mut().zip(from) {
                        *to += weight * pixel;
                    }
                }
                for (cell, (columns, to)) in columns.iter().zip(to).enumerate() {
                    let columns = range(columns);
                    let weights = &self.columns.0[cell * width..][columns.clone()];
                    let line = &self.line[columns];
                    let terms = line
                        .iter()
                        .zip(weights)
                        .map(|(pixel, weight)| pixel * weight);
                    *to = terms.sum::<f32>() * self.factor;
                }
            }
        }
    }
}

impl UnpreparedWorkload for Align {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: 4 * CHUNKS * self.slot,
            ..WorkloadPlan::default()
        }
    }
}

impl Workload for Align {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let images = inputs.slice::<f32>(0)?;
        let regions = inputs.slice::<f32>(1)?.as_chunks::<4>().0;
        let batch = inputs.slice::<i64>(2)?;
        let output = outputs.slice::<f32>(0)?;
        let slots = (scratch(&mut outputs, CHUNKS * self.slot)?, self.slot);
        let size = self.regions.region();
        let image = self.regions.channels * self.regions.plane();
        let chunk = regions.len().div_ceil(CHUNKS);
        let parallel = output.len() >= PARALLEL;
        let error = FirstError::default();
        for_each_chunk2((output, chunk * size), slots, parallel, |nth, to, slot| {
            for (at, to) in (nth * chunk..).zip(to.chunks_exact_mut(size)) {
                stop::checkpoint();
                error.record(position(batch[at], self.regions.images).and_then(|batch| {
                    self.region(&regions[at], &images[batch * image..][..image], slot, to)
                }));
            }
        });
        error.into_result()
    }
}

/// The kernel of MaxRoiPool.
struct MaxPool {
    regions: Regions,
    /// From coordinates of regions to pixels.
    scale: f32,
}

/// The kernel of MaxRoiPool.
pub(super) fn max_pool(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(MaxPool {
        regions: Regions::new(signature)?,
        scale: signature.float("spatial_scale", 1.0)?,
    }))
}

impl UnpreparedWorkload for MaxPool {}

impl MaxPool {
    fn region(&self, region: &[f32; 5], images: &[f32], to: &mut [f32]) -> Result<()> {
        let Regions {
            channels,
            pixels,
            cells,
            ..
        } = self.regions;
        let &[image, left, top, right, bottom] = region;
        let image = position(image as i64, self.regions.images)? * channels * self.regions.plane();
        let corner = |at: f32| f64::from((at * self.scale).round());
        let (rows, columns) = ([corner(top), corner(bottom)], [corner(left), corner(right)]);
        let count = cells[0] * cells[1];
        for cell in 0..count {
            stop::checkpoint();
            let rows = pooled_pixels(rows, cell / cells[1], cells[0], pixels[0]);
            let columns = pooled_pixels(columns, cell % cells[1], cells[1], pixels[1]);
            let planes = images[image..][..channels * self.regions.plane()]
                .chunks_exact(self.regions.plane());
            for (plane, to) in planes.zip(to[cell..].iter_mut().step_by(count)) {
                let mut best = None;
                for row in rows.clone() {
                    for &pixel in &plane[row * pixels[1]..][..pixels[1]][columns.clone()] {
                        best = Some(
                            best.map_or(pixel, |best| if pixel > best { pixel } else { best }),
                        );
                    }
                }
                *to = best.unwrap_or(0.0);
            }
        }
        Ok(())
    }
}

impl Workload for MaxPool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let images = inputs.slice::<f32>(0)?;
        let regions = inputs.slice::<f32>(1)?.as_chunks::<5>().0;
        let output = outputs.slice::<f32>(0)?;
        let (size, parallel) = (self.regions.region(), output.len() >= PARALLEL);
        let chunk = chunk_rows(regions.len(), parallel);
        let error = FirstError::default();
        for_each_chunk(output, chunk * size, parallel, |nth, to| {
            for (region, to) in regions[nth * chunk..].iter().zip(to.chunks_exact_mut(size)) {
                error.record(self.region(region, images, to));
            }
        });
        error.into_result()
    }
}
