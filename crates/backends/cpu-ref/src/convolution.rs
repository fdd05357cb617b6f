//! Direct convolution, channels first and channels last, in floating point and quantized.

use crate::activation::Activation;
use crate::chunks::{CHUNKS, for_each_chunk_of, for_each_chunk_with};
use crate::elements::Elements;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, scratch, unsupported, unsupported_type,
};
use crate::loop_nest::pairs;
use crate::matmul::{bytes, quantized};
use crate::number::{Accumulator, Number, read_terms};
use crate::product::{Extents, Order, ROWS, product};
use crate::quantize::{QuantizedSum, quantized_output};
use crate::sliding_window::{SlidingWindow, WindowAxis};
use std::ops::Range;
use tenon_backend::Reason;
use tenon_base::{Result, bounded};
use tenon_graph::geometry::Window;
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Conv", conv),
    ("tenon.Conv", fused),
    ("tenon.QuantizedConv", fused_quantized),
    ("ConvInteger", conv_integer),
    ("QLinearConv", qlinear_conv),
    ("ConvTranspose", conv_transpose),
    ("tenon.ConvTranspose", fused_transpose),
    ("DeformConv", deform_conv),
];

/// A kernel position and the columns of the output for which it is inside the image.
struct KernelPosition {
    at: [usize; 3],
    inside: Range<usize>,
}

/// A convolution with weights [filters, channels / groups, kernel...].
struct Convolution {
    window: SlidingWindow,
    positions: Vec<KernelPosition>,
    /// Channels of a filter.
    depth: usize,
    /// Filters of a group.
    filters: usize,
}

impl Convolution {
    fn new(node: &Node<'_>, weights: usize, channels_last: bool) -> Result<Self, BuildError> {
        let (x, w) = (node.shape(0)?, node.shape(weights)?);
        let first = if channels_last { 1 } else { 2 };
        let spatial = &x[first..first + w.len() - 2];
        let window = Window::sliding(node.attributes, spatial, &w[2..])?;
        let mut window = SlidingWindow::new(node, &window, channels_last)?;
        if window.axes.iter().all(WindowAxis::is_identity) {
            // Each output reads one pixel: the pixels are one axis.
            let pixels = window.axes.iter().map(|axis| axis.input).product();
            let columns = WindowAxis {
                input: pixels,
                output: pixels,
                ..WindowAxis::NONE
            };
            window.axes = [WindowAxis::NONE, WindowAxis::NONE, columns];
        }
        let groups = node.attributes.int("group", 1)?.max(1) as usize;
        // As many as a filter has weights for a channel, which are in memory if there are any.
        let count = if w.contains(&0) {
            0
        } else {
            window.positions()
        };
        let position = |nth| {
            let at = window.kernel_position(nth);
            KernelPosition {
                at,
                inside: window.axes[2].outputs_inside(at[2]),
            }
        };
        Ok(Self {
            depth: w[1],
            filters: window.filters / groups,
            positions: bounded::collect("kernel positions", (0..count).map(position))?,
            window,
        })
    }

    /// Computes all outputs.
    ///
    /// * `x(start, step, to)` writes the elements of X at `start`, `start + step`...;
    /// * `w(start, filter, to)` writes those of W from `start` on, which belong to `filter`;
    /// * `finish(at, filter, sum)` is element `at` of the output.
    fn compute<S: Accumulator, T: Send>(
        &self,
        to: &mut [T],
        x: impl Fn(usize, usize, &mut [S]) + Sync,
        w: impl Fn(usize, usize, &mut [S]) + Sync,
        finish: impl Fn(usize, usize, S) -> T + Sync,
    ) {
        let SlidingWindow {
            filters, axes, y, ..
        } = self.window;
        let pixels: usize = axes.iter().map(|axis| axis.output).product();
        let depth = self.depth * self.positions.len();
        // What is contiguous in the output: the pixels of a channel, or the channels of a pixel.
        let channels_last = y.channel == 1;
        let unit = if channels_last { filters } else { pixels };
        let operations = to.len().saturating_mul(depth);
        for_each_chunk_of(to, unit, operations, |first, chunk| {
            let (mut nth, end) = (first / unit, (first + chunk.len()) / unit);
            let mut block = |batch: usize, filters: Range<usize>, pixels: Range<usize>| {
                let group = filters.start / self.filters;
                product(
                    Extents {
                        rows: filters.len(),
                        columns: pixels.len(),
                        depth,
                        b: Order::Rows,
                    },
                    |i, k, to| w((filters.start + i) * depth + k, filters.start + i, to),
                    |k, j, to| self.read_pixels(batch, group, k, pixels.start + j, to, &x),
                    |i, j, sums| {
                        let (filter, pixel) = (filters.start + i, pixels.start + j);
                        let start = batch * y.batch + filter * y.channel + pixel * y.spatial[2];
                        for (nth, &sum) in sums.iter().enumerate() {
                            let at = start + nth * y.spatial[2];
                            chunk[at - first] = finish(at, filter, sum);
                        }
                    },
                );
            };
            while nth < end {
                let left = end - nth;
                nth += if channels_last {
                    let (batch, pixel) = (nth / pixels, nth % pixels);
                    let count = left.min(pixels - pixel);
                    for first in (0..filters).step_by(self.filters) {
                        block(batch, first..first + self.filters, pixel..pixel + count);
                    }
                    count
                } else {
                    let (batch, filter) = (nth / filters, nth % filters);
                    let count = left.min(self.filters - filter % self.filters);
                    block(batch, filter..filter + count, 0..pixels);
                    count
                };
            }
        });
    }

    /// The pixels that term `k` of the sums reads for the outputs from `first` on; zeros in the padding.
    fn read_pixels<S: Accumulator>(
        &self,
        batch: usize,
        group: usize,
        k: usize,
        first: usize,
        mut to: &mut [S],
        x: &impl Fn(usize, usize, &mut [S]),
    ) {
        let SlidingWindow {
            axes: [depths, heights, widths],
            x: from,
            ..
        } = self.window;
        let (channel, position) = (k / self.positions.len(), k % self.positions.len());
        let KernelPosition {
            at: [kd, kh, kw],
            ref inside,
        } = self.positions[position];
        let image = batch * from.batch + (group * self.depth + channel) * from.channel;
        let (mut row, mut column) = (first / widths.output, first % widths.output);
        while !to.is_empty() {
            let count = to.len().min(widths.output - column);
            let run = to.split_off_mut(..count).unwrap_or_default();
            let (d, h) = (row / heights.output, row % heights.output);
            if let (Some(d), Some(h)) = (depths.source(d, kd), heights.source(h, kh)) {
                let start = inside.start.clamp(column, column + count);
                let end = inside.end.clamp(column, column + count);
                run[..start - column].fill(S::default());
                run[end - column..].fill(S::default());
                if start < end {
                    let w = start * widths.stride + kw * widths.dilation - widths.before;
                    let step = widths.stride * from.spatial[2];
                    x(
                        image + from.at([d, h, w]),
                        step,
                        &mut run[start - column..end - column],
                    );
                }
            } else {
                run.fill(S::default());
            }
            (row, column) = (row + 1, 0);
        }
    }
}

fn conv(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 1, false)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let bias = inputs.optional::<T>(2)?;
        convolution.compute(
            outputs.slice::<T>(0)?,
            |start, step, to| read_terms(x, start, step as isize, to),
            |start, _, to| read_terms(w, start, 1, to),
            |_, filter, sum| T::of_f64(sum + bias.map_or(0.0, |bias| bias[filter].to_f64())),
        );
        Ok(())
    })))
}

/// activation(conv(X, W) + B + Z), channels last.
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 1, true)?;
    let activation = Activation::of(node)?;
    let weights = node.dtype(1)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, Elements::new(&inputs, 1, weights)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        convolution.compute(
            outputs.slice::<T>(0)?,
            |start, step, to| read_terms(x, start, step as isize, to),
            |start, _, to| w.reals(start, to),
            |at, filter, sum| {
                let bias = bias.map_or(0.0, |bias| bias[filter].to_f64());
                let z = z.map_or(0.0, |z| z[at].to_f64());
                T::of_f64(activation.apply(sum + bias + z))
            },
        );
        Ok(())
    })))
}

/// quantize(activation(conv(dequantize(X), dequantize(W)) + B + dequantize(Z))), channels last.
fn fused_quantized(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 3, true)?;
    let sum = QuantizedSum::of(node)?;
    quantized_output!(node, Y => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let sum = sum.bind::<Y>(&inputs)?;
        convolution.compute(
            outputs.slice::<Y>(0)?,
            |start, step, to| sum.left(start, step, to),
            |start, filter, to| sum.right((start, 1), (filter, 0), to),
            |at, filter, total| sum.finish(at, filter, total),
        );
        Ok(())
    })))
}

/// The stride of a quantization parameter over filters: 0 for one element, 1 for one per filter.
fn parameter_stride(node: &Node<'_>, input: usize, filters: usize) -> Result<usize, BuildError> {
    match node.optional(input).map(|ty| ty.elements()) {
        None | Some(1) => Ok(0),
        Some(count) if count == filters => Ok(1),
        Some(_) => Err(unsupported(format!(
            "input {input} requires one element, or one per filter"
        ))),
    }
}

fn conv_integer(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 1, false)?;
    let per_filter = parameter_stride(node, 3, convolution.window.filters)?;
    bytes!(node, 0, 1, X, W => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x_zero = inputs.optional::<X>(2)?.map_or(0.0, |zero| zero[0].into());
        let w_zero = inputs.optional::<W>(3)?;
        let w_zero = |filter: usize| w_zero.map_or(0.0, |zero| zero[filter * per_filter].into());
        let x = quantized(inputs.slice::<X>(0)?, |_| x_zero, 0);
        let w = quantized(inputs.slice::<W>(1)?, w_zero, 0);
        convolution.compute(
            outputs.slice::<i32>(0)?,
            |start, step, to| x(start, step, 0, to),
            |start, filter, to| w(start, 1, filter, to),
            |_, _, sum: f64| sum as i64 as i32,
        );
        Ok(())
    })))
}

fn qlinear_conv(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 3, false)?;
    let filters = convolution.window.filters;
    let (per_scale, per_zero) = (
        parameter_stride(node, 4, filters)?,
        parameter_stride(node, 5, filters)?,
    );
    bytes!(node, 0, 3, X, W => bytes!(node, 7, Y => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x_scale = f64::from(inputs.slice::<f32>(1)?[0]);
        let x_zero = f64::from(inputs.slice::<X>(2)?[0]);
        let (w_scale, w_zero) = (inputs.slice::<f32>(4)?, inputs.slice::<W>(5)?);
        let y_scale = f64::from(inputs.slice::<f32>(6)?[0]);
        let y_zero = f64::from(inputs.slice::<Y>(7)?[0]);
        let bias = inputs.optional::<i32>(8)?;
        let x = quantized(inputs.slice::<X>(0)?, |_| x_zero, 0);
        let w = quantized(inputs.slice::<W>(3)?, |filter| w_zero[filter * per_zero].into(), 0);
        convolution.compute(
            outputs.slice::<Y>(0)?,
            |start, step, to| x(start, step, 0, to),
            |start, filter, to| w(start, 1, filter, to),
            |_, filter, sum: f64| {
                let sum = sum + bias.map_or(0.0, |bias| bias[filter].into());
                let scale = x_scale * f64::from(w_scale[filter * per_scale]) / y_scale;
                Y::of_f64((sum * scale).round_ties_even() + y_zero)
            },
        );
        Ok(())
    }))))
}

fn conv_transpose(node: &Node<'_>) -> Result<Kernel, BuildError> {
    transposed(node, Activation::None, false)
}

/// activation(conv_transpose(X, W) + B + Z), channels last.
fn fused_transpose(node: &Node<'_>) -> Result<Kernel, BuildError> {
    transposed(node, Activation::of(node)?, true)
}

/// Each input pixel is multiplied by the weights of all kernel positions, and the products are added to the outputs
/// that they contribute to. Weights are [channels, filters / groups, kernel...].
fn transposed(
    node: &Node<'_>,
    activation: Activation,
    channels_last: bool,
) -> Result<Kernel, BuildError> {
    let (x, w) = (node.shape(0)?, node.shape(1)?);
    let first = if channels_last { 1 } else { 2 };
    let spatial = &x[first..first + w.len() - 2];
    let window = Window::transposed(node.attributes, spatial, &w[2..])?;
    let images = SlidingWindow::new(node, &window, channels_last)?;
    let groups = node.attributes.int("group", 1)?.max(1) as usize;
    let (filters, depth) = (w[1], images.channels / groups);
    let columns = images.axes.iter().map(|axis| axis.input).product();
    let pixels: usize = images.axes.iter().map(|axis| axis.output).product();
    let positions = images.positions();
    // The filters whose sums fill the rows of a tile.
    let together = ROWS.div_ceil(positions.max(1)).min(filters).max(1);
    // What is contiguous in the output: the pixels of a channel, or an image.
    let unit = if channels_last {
        images.filters * pixels
    } else {
        pixels
    };
    let chunks = (images.batches * images.filters)
        .div_ceil(together)
        .min(CHUNKS);
    let size = together * pixels;
    let operations = node.output(0)?.elements().saturating_mul(depth);
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let scratch = scratch::<f64>(&mut outputs, chunks * size)?;
        for_each_chunk_with(to, unit, operations, scratch, size, |start, to, scratch| {
            // Planes of the batch, each a filter of an image.
            let planes = (start / pixels)..(start + to.len()) / pixels;
            let mut plane = planes.start;
            while plane < planes.end {
                let (batch, filter) = (plane / images.filters, plane % images.filters);
                let group = filter / filters;
                let count = together.min(filters - filter % filters).min(planes.end - plane);
                let sums = &mut scratch[..count * pixels];
                sums.fill(0.0);
                product(
                    Extents { rows: count * positions, columns, depth, b: Order::Rows },
                    |i, k, to| {
                        let row = (filter % filters) * positions + i;
                        let channel = group * depth + k;
                        let start = channel * filters * positions + row;
                        read_terms(w, start, (filters * positions) as isize, to);
                    },
                    |k, j, to| {
                        let image = batch * images.x.batch + (group * depth + k) * images.x.channel;
                        let step = images.x.spatial[2];
                        read_terms(x, image + j * step, step as isize, to);
                    },
                    |i, j, products| {
                        let sums = &mut sums[i / positions * pixels..][..pixels];
                        images.scatter(i % positions, j, products, sums);
                    },
                );
                for (nth, sums) in sums.chunks_exact(pixels).enumerate() {
                    let bias = bias.map_or(0.0, |bias| bias[filter + nth].to_f64());
                    let plane = batch * images.y.batch + (filter + nth) * images.y.channel;
                    for (pixel, sum) in sums.iter().enumerate() {
                        let at = plane + pixel * images.y.spatial[2];
                        let z = z.map_or(0.0, |z| z[at].to_f64());
                        to[at - start] = T::of_f64(activation.apply(sum + bias + z));
                    }
                }
                plane += count;
            }
        });
        Ok(())
    })
    .with_scratch(chunks.saturating_mul(size)))
}

/// Bilinear interpolation at a fractional position; pixels outside are 0.
pub(crate) fn bilinear<T: Number>(plane: &[T], [h, w]: [usize; 2], y: f64, x: f64) -> f64 {
    let (top, left) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (row, row_weight) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, weight) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside = row >= 0.0 && column >= 0.0 && row < h as f64 && column < w as f64;
            if inside {
                sum += plane[row as usize * w + column as usize].to_f64() * row_weight * weight;
            }
        }
    }
    sum
}

/// Deformable convolution (Dai et al., 2017) in two spatial dimensions: each kernel position reads at
/// its offset.
fn deform_conv(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, w) = (node.shape(0)?, node.shape(1)?);
    if x.len() != 4 {
        return Err(Reason::InputRank {
            input: 0,
            found: x.len(),
        }
        .into());
    }
    let window = Window::sliding(node.attributes, &x[2..], &w[2..])?;
    let images = SlidingWindow::new(node, &window, false)?;
    let groups = node.attributes.int("group", 1)?.max(1) as usize;
    let offset_groups = node.attributes.int("offset_group", 1)?.max(1) as usize;
    let (depth, filters) = (w[1], images.filters / groups);
    let (kernel_positions, planes) = (images.positions(), images.channels / offset_groups);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (offset, bias) = (inputs.slice::<T>(2)?, inputs.optional::<T>(3)?);
        let mask = inputs.optional::<T>(4)?;
        let to = outputs.slice::<T>(0)?;
        let [_, rows, columns] = images.axes;
        let area = rows.output * columns.output;
        for (batch, filter) in pairs(images.batches, images.filters) {
            for (row, column) in pairs(rows.output, columns.output) {
                let pixel = row * columns.output + column;
                let mut sum = bias.map_or(0.0, |bias| bias[filter].to_f64());
                for (channel, position) in pairs(depth, kernel_positions) {
                    let source = filter / filters * depth + channel;
                    let at = (batch * offset_groups + source / planes) * kernel_positions + position;
                    let offset_of = |axis: usize| offset[(2 * at + axis) * area + pixel].to_f64();
                    let mask = mask.map_or(1.0, |mask| mask[at * area + pixel].to_f64());
                    let (kh, kw) = (position / columns.kernel, position % columns.kernel);
                    let y = (row * rows.stride + kh * rows.dilation) as f64 - rows.before as f64;
                    let z = (column * columns.stride + kw * columns.dilation) as f64
                        - columns.before as f64;
                    let start = batch * images.x.batch + source * images.x.channel;
                    let plane = &x[start..start + images.x.channel];
                    let size = [rows.input, columns.input];
                    let value = bilinear(plane, size, y + offset_of(0), z + offset_of(1));
                    sum += w[(filter * depth + channel) * kernel_positions + position].to_f64() * mask * value;
                }
                let at = batch * images.y.batch + filter * images.y.channel;
                to[at + pixel] = T::of_f64(sum);
            }
        }
        Ok(())
    })))
}
