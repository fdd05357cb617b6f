//! GridSample: the pixels and weights of a block of points are computed once for all channels.
//! AffineGrid: the coordinates of a grid from affine maps.

use super::gathered_sum::{MISSING, MOST_ELEMENTS, SampleTable, gathered_sums};
use super::{Kernel, UnpreparedWorkload, chunk_rows};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk, match_floats};
use crate::signature::{Signature, refuse};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, pool, stop};
use tenon_graph::geometry::SampledAxis;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;
/// Points of a block.
const POINTS: usize = 64;
/// Most pixels with a weight at a point: cubic in three dimensions.
const MOST_SAMPLES: usize = 64;

/// A GridSample of images `[batch, channels, depth, height, width]`.
struct GridSample {
    level: Level,
    float: FloatType,
    grid: FloatType,
    channels: usize,
    rank: usize,
    extents: [usize; 3],
    axes: [SampledAxis; 3],
    points: usize,
    samples: usize,
}

/// The kernel of GridSample.
pub(super) fn sample(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (input, output) = (signature.input(0)?, signature.output(0)?.shape());
    let (extents, rank) = match input.shape()[2..] {
        [w] => ([1, 1, w], 1),
        [h, w] => ([1, h, w], 2),
        [d, h, w] => ([d, h, w], 3),
        _ => return Err(refuse("no kernel for images of more than three dimensions")),
    };
    if extents.iter().product::<usize>() > MOST_ELEMENTS {
        return Err(refuse("the image is too large"));
    }
    let axis = |extent| {
        SampledAxis::new(signature.attributes(), extent).map_err(|error| refuse(error.to_string()))
    };
    let axes = [axis(extents[0])?, axis(extents[1])?, axis(extents[2])?];
    Ok(Box::new(GridSample {
        level: signature.level,
        float: FloatType::of_input(input.dtype(), 0)?,
        grid: FloatType::of_input(signature.input(1)?.dtype(), 1)?,
        channels: input.shape()[1],
        rank,
        extents,
        axes,
        points: output[2..].iter().product(),
        samples: axes[0].samples().pow(rank as u32),
    }))
}

/// The pixels of a block of points, and their weights, as `[sample][point]`.
struct Block {
    positions: [u32; POINTS * MOST_SAMPLES],
    weights: [f32; POINTS * MOST_SAMPLES],
    /// The pixels along the axes.
    axes: [AxisPixels; 3],
}

/// The pixels along an axis of a block of points, and their weights, as `[sample][point]`.
struct AxisPixels {
    /// [`NO_PIXEL`] where there is none.
    positions: [[f64; POINTS]; 4],
    weights: [[f64; POINTS]; 4],
}

/// The position of a missing pixel.
const NO_PIXEL: f64 = -1.0;

impl AxisPixels {
    /// The first pixel, for an axis of one.
    fn new() -> Self {
        let mut pixels = Self {
            positions: [[NO_PIXEL; POINTS]; 4],
            weights: [[0.0; POINTS]; 4],
        };
        pixels.positions[0] = [0.0; POINTS];
        pixels.weights[0] = [1.0; POINTS];
        pixels
    }

    /// Computes the pixels at the coordinates.
    #[inline(always)]
    fn set(&mut self, axis: &SampledAxis, coordinates: &[f64]) {
        if axis.is_linear() {
            let [first, second, ..] = &mut self.positions;
            let [first_weights, second_weights, ..] = &mut self.weights;
            let positions = first.iter_mut().zip(second);
            let weights = first_weights.iter_mut().zip(second_weights);
            for ((at, weights), &coordinate) in positions.zip(weights).zip(coordinates) {
                let pixels = axis.linear(coordinate);
                (*at.0, *weights.0) = (pixels[0].0, pixels[0].1);
                (*at.1, *weights.1) = (pixels[1].0, pixels[1].1);
            }
            return;
        }
        for (point, &coordinate) in coordinates.iter().enumerate() {
            let pixels = axis.weights(coordinate);
            for (nth, (pixel, weight)) in pixels.into_iter().enumerate() {
                self.positions[nth][point] = pixel.map_or(NO_PIXEL, |pixel| pixel as f64);
                self.weights[nth][point] = weight;
            }
        }
    }
}

impl GridSample {
    fn image(&self) -> usize {
        self.extents.iter().product()
    }

    /// The planes of the output from `plane` on.
    fn planes(
        &self,
        (input, grid): (Floats<'_>, Floats<'_>),
        mut plane: usize,
        mut to: FloatsMut<'_>,
    ) {
        let mut block = Block {
            positions: [0; POINTS * MOST_SAMPLES],
            weights: [0.0; POINTS * MOST_SAMPLES],
            axes: [AxisPixels::new(), AxisPixels::new(), AxisPixels::new()],
        };
        let mut coordinates = [0.0; POINTS * 3];
        let (image, first) = (self.image(), plane);
        let end = plane + to.len() / self.points;
        while plane < end {
            // Planes of one image have the same points.
            let batch = plane / self.channels;
            let last = end.min((batch + 1) * self.channels);
            for start in (0..self.points).step_by(POINTS) {
                stop::checkpoint();
                let count = POINTS.min(self.points - start);
                let from = (batch * self.points + start) * self.rank;
                let grid = grid.load(self.level, from..from + count * self.rank, &mut coordinates);
                self.level.run(SamplePixels {
                    sample: self,
                    grid,
                    block: &mut block,
                });
                let samples = SampleTable {
                    count: self.samples,
                    stride: POINTS,
                    positions: &block.positions,
                    weights: &block.weights,
                };
                for plane in plane..last {
                    let range = plane * image..(plane + 1) * image;
                    let at = (plane - first) * self.points + start;
                    let mut buffer = [0.0; POINTS];
                    to.store(self.level, at..at + count, &mut buffer, |to| {
                        match_floats!(Floats, input, all => {
                            gathered_sums(self.level, samples, &all[range], to);
                        });
                    });
                }
            }
            plane = last;
        }
    }
}

/// Computes the pixels of a block of points.
struct SamplePixels<'a> {
    sample: &'a GridSample,
    /// The coordinates of the points, those of the last dimension first.
    grid: &'a [f32],
    block: &'a mut Block,
}

impl VectorOp for SamplePixels<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let GridSample {
            rank,
            extents,
            ref axes,
            ..
        } = *self.sample;
        let pixels = &mut self.block.axes;
        let mut samples = [1; 3];
        let count = self.grid.len() / rank;
        for nth in 0..rank {
            let axis = 2 - nth;
            let mut coordinates = [0.0; POINTS];
            for (to, from) in coordinates.iter_mut().zip(self.grid.chunks_exact(rank)) {
                *to = from[nth].into();
            }
            pixels[axis].set(&axes[axis], &coordinates[..count]);
            samples[axis] = axes[axis].samples();
        }
        let [_, height, width] = extents.map(|extent| extent as f64);
        let [depths, rows, columns] = pixels;
        let positions = self.block.positions.as_chunks_mut::<POINTS>().0;
        let weights = self.block.weights.as_chunks_mut::<POINTS>().0;
        for (nth, (positions, weights)) in positions.iter_mut().zip(weights).enumerate() {
            if nth == samples.iter().product::<usize>() {
                break;
            }
            let (rest, column) = (nth / samples[2], nth % samples[2]);
            let (depth, row) = (rest / samples[1], rest % samples[1]);
            let at = [
                &depths.positions[depth],
                &rows.positions[row],
                &columns.positions[column],
            ];
            let factors = [
                &depths.weights[depth],
                &rows.weights[row],
                &columns.weights[column],
            ];
            for point in 0..POINTS {
                let [d, row, column] = at.map(|at| at[point]);
                let [d_weight, row_weight, weight] = factors.map(|weights| weights[point]);
                let is_inside = (d >= 0.0) & (row >= 0.0) & (column >= 0.0);
                let position = (d * height + row) * width + column;
                // The image has at most `MOST_ELEMENTS` pixels. The weight of a missing pixel may be NaN.
                positions[point] = if is_inside {
                    position as i32 as u32
                } else {
                    MISSING
                };
                weights[point] = if is_inside {
                    (d_weight * row_weight * weight) as f32
                } else {
                    0.0
                };
            }
        }
    }
}

impl UnpreparedWorkload for GridSample {}

impl Workload for GridSample {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, self.float)?;
        let grid = Floats::input(&inputs, 1, self.grid)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let planes = output.len() / self.points;
        let parallel = output.len() >= PARALLEL;
        // Each chunk computes the pixels of all its points again.
        let chunk = planes.div_ceil(if parallel { 2 * pool::threads() } else { 1 });
        for_each_float_chunk(output, chunk * self.points, parallel, |nth, to| {
            self.planes((input, grid), nth * chunk, to);
        });
        Ok(())
    }
}

/// The kernel of AffineGrid: points of `[batch, depth, height, width]`, with `rank` coordinates each.
struct AffineGrid {
    level: Level,
    float: FloatType,
    rank: usize,
    corners: bool,
    extents: [usize; 3],
}

/// The kernel of AffineGrid.
pub(super) fn affine(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (extents, rank) = match signature.output(0)?.shape()[1..] {
        [h, w, 2] => ([1, h, w], 2),
        [d, h, w, 3] => ([d, h, w], 3),
        _ => return Err(refuse("the shapes do not fit")),
    };
    Ok(Box::new(AffineGrid {
        level: signature.level,
        float: FloatType::of_input(signature.input(0)?.dtype(), 0)?,
        rank,
        corners: signature.flag("align_corners", false)?,
        extents,
    }))
}

impl AffineGrid {
    /// The factor and the offset from a position along an axis to [-1, 1].
    fn scale(&self, axis: usize) -> (f32, f32) {
        let extent = self.extents[axis] as f64;
        match (self.corners, self.extents[axis]) {
            (true, 1) => (0.0, 0.0),
            (true, _) => ((2.0 / (extent - 1.0)) as f32, -1.0),
            (false, _) => ((2.0 / extent) as f32, (1.0 / extent - 1.0) as f32),
        }
    }

    /// The rows of the output from `first` on.
    fn rows<const R: usize>(&self, theta: Floats<'_>, first: usize, mut to: FloatsMut<'_>) {
        let [depth, height, width] = self.extents;
        let coordinate = |axis: usize, at: usize| {
            let (factor, offset) = self.scale(axis);
            at as f32 * factor + offset
        };
        let (factor, offset) = self.scale(2);
        for row in 0..to.len() / (width * R) {
            stop::checkpoint();
            let at = first + row;
            let batch = at / height / depth;
            let others = [
                coordinate(1, at % height),
                coordinate(0, at / height % depth),
            ];
            // Each coordinate is linear in x.
            let mut lines = [(0.0, 0.0); R];
            for (nth, line) in lines.iter_mut().enumerate() {
                let theta = |column: usize| theta.get((batch * R + nth) * (R + 1) + column);
                let rest: f32 = (1..R).map(|axis| theta(axis) * others[axis - 1]).sum();
                *line = (theta(0) * factor, theta(0) * offset + rest + theta(R));
            }
            for x in (0..width).step_by(POINTS) {
                let count = POINTS.min(width - x);
                let start = (row * width + x) * R;
                let mut buffer = [0.0; POINTS * 3];
                to.store(self.level, start..start + count * R, &mut buffer, |to| {
                    for (to, x) in to.as_chunks_mut::<R>().0.iter_mut().zip(x..) {
                        *to = lines.map(|(slope, start)| slope * x as f32 + start);
                    }
                });
            }
        }
    }
}

impl UnpreparedWorkload for AffineGrid {}

impl Workload for AffineGrid {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let theta = Floats::input(&inputs, 0, self.float)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let parallel = output.len() >= PARALLEL;
        let line = self.extents[2] * self.rank;
        let rows = output.len() / line;
        let chunk = chunk_rows(rows, parallel);
        for_each_float_chunk(output, chunk * line, parallel, |nth, to| match self.rank {
            2 => self.rows::<2>(theta, nth * chunk, to),
            _ => self.rows::<3>(theta, nth * chunk, to),
        });
        Ok(())
    }
}
