//! Direct convolution, channels first and channels last, in floating point and quantized.

use crate::activation::Activation;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, scratch, unsupported, unsupported_type,
};
use crate::matmul::bytes;
use crate::number::{Accumulator, Number};
use tenon_backend::Reason;
use tenon_base::{Result, stop};
use tenon_graph::geometry::Window;
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Conv", conv),
    ("tenon.Conv", fused),
    ("ConvInteger", conv_integer),
    ("QLinearConv", qlinear_conv),
    ("ConvTranspose", conv_transpose),
    ("tenon.ConvTranspose", fused_transpose),
    ("DeformConv", deform_conv),
];

/// One spatial axis of a sliding window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowAxis {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl WindowAxis {
    /// An axis that the images do not have.
    pub(crate) const NONE: WindowAxis = WindowAxis {
        input: 1,
        output: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
    };

    /// The input position that a kernel position reads for an output position; `None` in the padding.
    pub(crate) fn source(&self, output: usize, element: usize) -> Option<usize> {
        let at = output * self.stride + element * self.dilation;
        at.checked_sub(self.before).filter(|&at| at < self.input)
    }

    /// The kernel positions that are inside the input for an output position.
    pub(crate) fn positions_inside(&self, output: usize) -> std::ops::Range<usize> {
        let start = output * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let left = (self.input + self.before).saturating_sub(start);
        let end = left.div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// The number of kernel positions inside the input or its padding for an output position.
    pub(crate) fn padded(&self, output: usize) -> usize {
        let padded = self.before + self.input + self.after;
        let left = padded.saturating_sub(output * self.stride);
        left.div_ceil(self.dilation).min(self.kernel)
    }

    /// The output positions for which a kernel position is inside the input.
    fn outputs_inside(&self, element: usize) -> std::ops::Range<usize> {
        let shift = element * self.dilation;
        let first = self.before.saturating_sub(shift).div_ceil(self.stride);
        let end = (self.input + self.before)
            .saturating_sub(shift)
            .div_ceil(self.stride);
        first.min(self.output)..end.min(self.output).max(first.min(self.output))
    }

    /// The input position that contributes to an output position through a kernel position, in a
    /// transposed convolution.
    pub(crate) fn origin(&self, output: usize, element: usize) -> Option<usize> {
        let at = (output + self.before).checked_sub(element * self.dilation)?;
        (at.is_multiple_of(self.stride))
            .then_some(at / self.stride)
            .filter(|&at| at < self.input)
    }
}

/// The strides of a tensor of images along batch, channel, depth, height and width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) batch: usize,
    pub(crate) channel: usize,
    pub(crate) spatial: [usize; 3],
}

impl Layout {
    fn new(shape: &[usize], channels_last: bool) -> Self {
        let strides = tenon_tensor::Shape::new(shape).strides();
        let (channel, first) = if channels_last {
            (shape.len() - 1, 1)
        } else {
            (1, 2)
        };
        let rank = shape.len() - 2;
        let mut spatial = [0; 3];
        spatial[3 - rank..].copy_from_slice(&strides[first..first + rank]);
        Self {
            batch: strides[0],
            channel: strides[channel],
            spatial,
        }
    }

    pub(crate) fn at(&self, [d, h, w]: [usize; 3]) -> usize {
        d * self.spatial[0] + h * self.spatial[1] + w * self.spatial[2]
    }
}

/// A sliding window over images, extended to three spatial axes.
#[derive(Debug, Clone)]
pub(crate) struct SlidingWindow {
    pub(crate) batches: usize,
    /// Channels of the input.
    pub(crate) channels: usize,
    /// Channels of the output.
    pub(crate) filters: usize,
    pub(crate) axes: [WindowAxis; 3],
    pub(crate) x: Layout,
    pub(crate) y: Layout,
}

impl SlidingWindow {
    /// The window between input 0 and output 0 of `node`, of at most three spatial axes.
    pub(crate) fn new(
        node: &Node<'_>,
        window: &Window,
        channels_last: bool,
    ) -> Result<Self, BuildError> {
        let (x, y) = (node.shape(0)?, node.output(0)?.shape());
        let rank = window.rank();
        if rank > 3 || x.len() != rank + 2 || y.len() != rank + 2 {
            return Err(Reason::InputRank {
                input: 0,
                found: x.len(),
            }
            .into());
        }
        let (channel, first) = if channels_last {
            (x.len() - 1, 1)
        } else {
            (1, 2)
        };
        let mut axes = [WindowAxis::NONE; 3];
        for axis in 0..rank {
            axes[3 - rank + axis] = WindowAxis {
                input: x[first + axis],
                output: y[first + axis],
                kernel: window.kernel[axis],
                stride: window.strides[axis],
                dilation: window.dilations[axis],
                before: window.pads_begin[axis],
                after: window.pads_end[axis],
            };
        }
        Ok(Self {
            batches: x[0],
            channels: x[channel],
            filters: y[channel],
            axes,
            x: Layout::new(x, channels_last),
            y: Layout::new(y, channels_last),
        })
    }

    /// The number of kernel positions.
    pub(crate) fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// The kernel positions in row-major order.
    pub(crate) fn kernel(&self) -> impl Iterator<Item = [usize; 3]> {
        let [d, h, w] = self.axes.map(|axis| axis.kernel);
        (0..d * h * w).map(move |at| [at / (h * w), at / w % h, at % w])
    }
}

/// A convolution with weights [filters, channels / groups, kernel...].
struct Convolution {
    window: SlidingWindow,
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
        let window = SlidingWindow::new(node, &window, channels_last)?;
        let groups = node.attributes.int("group", 1)?.max(1) as usize;
        Ok(Self {
            depth: w[1],
            filters: window.filters / groups,
            window,
        })
    }

    /// Elements of scratch memory.
    fn scratch(&self) -> usize {
        self.window.axes[2].output
    }

    /// Calls `store` with the index in the output, the filter and the sum of every element. Sums are
    /// computed for one row of the output together, in `row`.
    fn compute<S: Accumulator>(
        &self,
        x: impl Fn(usize) -> S,
        w: impl Fn(usize, usize) -> S,
        row: &mut [S],
        mut store: impl FnMut(usize, usize, S),
    ) {
        let SlidingWindow {
            batches,
            axes: [depths, heights, widths],
            x: from,
            y: to,
            ..
        } = self.window;
        let positions = self.window.positions();
        for (batch, filter) in pairs(batches, self.window.filters) {
            let first = filter / self.filters.max(1) * self.depth;
            for (d, h) in pairs(depths.output, heights.output) {
                row.fill(S::default());
                for channel in 0..self.depth {
                    stop::checkpoint();
                    let start = batch * from.batch + (first + channel) * from.channel;
                    let weights = (filter * self.depth + channel) * positions;
                    for (position, [kd, kh, kw]) in self.window.kernel().enumerate() {
                        let (Some(d), Some(h)) = (depths.source(d, kd), heights.source(h, kh))
                        else {
                            continue;
                        };
                        let weight = w(weights + position, filter);
                        let start = start + from.at([d, h, 0]);
                        let outputs = widths.outputs_inside(kw);
                        let shift = kw * widths.dilation;
                        for at in outputs {
                            let source = at * widths.stride + shift - widths.before;
                            let value = x(start + source * from.spatial[2]);
                            row[at] = row[at].plus_product(weight, value);
                        }
                    }
                }
                let start = batch * to.batch + filter * to.channel;
                for (at, &sum) in row.iter().enumerate() {
                    store(start + to.at([d, h, at]), filter, sum);
                }
            }
        }
    }
}

/// All pairs of `0..a` and `0..b`, with a checkpoint for cancellation before each.
pub(crate) fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..a).flat_map(move |i| {
        (0..b).map(move |j| {
            stop::checkpoint();
            (i, j)
        })
    })
}

fn conv(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 1, false)?;
    let width = convolution.scratch();
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let bias = inputs.optional::<T>(2)?;
        let to = outputs.slice::<T>(0)?;
        let row = scratch::<f64>(&mut outputs, width)?;
        convolution.compute(|at| x[at].term(), |at, _| w[at].term(), row, |at, filter, sum| {
            to[at] = T::from_f64(sum + bias.map_or(0.0, |bias| bias[filter].to_f64()));
        });
        Ok(())
    })
    .with_scratch(width))
}

/// activation(conv(X, W) + B + Z), channels last.
fn fused(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 1, true)?;
    let width = convolution.scratch();
    let activation = Activation::of(node)?;
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let row = scratch::<f64>(&mut outputs, width)?;
        convolution.compute(|at| x[at].term(), |at, _| w[at].term(), row, |at, filter, sum| {
            let bias = bias.map_or(0.0, |bias| bias[filter].to_f64());
            let z = z.map_or(0.0, |z| z[at].to_f64());
            to[at] = T::from_f64(activation.apply(sum + bias + z));
        });
        Ok(())
    })
    .with_scratch(width))
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
    let width = convolution.scratch();
    let per_filter = parameter_stride(node, 3, convolution.window.filters)?;
    bytes!(node, 0, 1, X, W => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<X>(0)?, inputs.slice::<W>(1)?);
        let x_zero = inputs.optional::<X>(2)?.map_or(0, |zero| zero[0].term());
        let w_zero = inputs.optional::<W>(3)?;
        let w_zero = |filter: usize| w_zero.map_or(0, |zero| zero[filter * per_filter].term());
        let to = outputs.slice::<i32>(0)?;
        let row = scratch::<i64>(&mut outputs, width)?;
        let (x, w) = (|at: usize| x[at].term() - x_zero, |at: usize, m| w[at].term() - w_zero(m));
        convolution.compute(x, w, row, |at, _, sum| to[at] = sum as i32);
        Ok(())
    })
    .with_scratch(width))
}

fn qlinear_conv(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let convolution = Convolution::new(node, 3, false)?;
    let width = convolution.scratch();
    let filters = convolution.window.filters;
    let (per_scale, per_zero) = (
        parameter_stride(node, 4, filters)?,
        parameter_stride(node, 5, filters)?,
    );
    bytes!(node, 0, 3, X, W => bytes!(node, 7, Y => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<X>(0)?, inputs.slice::<W>(3)?);
        let x_scale = f64::from(inputs.slice::<f32>(1)?[0]);
        let x_zero = inputs.slice::<X>(2)?[0].term();
        let (w_scale, w_zero) = (inputs.slice::<f32>(4)?, inputs.slice::<W>(5)?);
        let y_scale = f64::from(inputs.slice::<f32>(6)?[0]);
        let y_zero = f64::from(inputs.slice::<Y>(7)?[0]);
        let bias = inputs.optional::<i32>(8)?;
        let to = outputs.slice::<Y>(0)?;
        let row = scratch::<i64>(&mut outputs, width)?;
        let x = |at: usize| x[at].term() - x_zero;
        let w = |at: usize, filter: usize| w[at].term() - w_zero[filter * per_zero].term();
        convolution.compute(x, w, row, |at, filter, sum| {
            let sum = sum + bias.map_or(0, |bias| bias[filter].into());
            let scale = x_scale * f64::from(w_scale[filter * per_scale]) / y_scale;
            to[at] = Y::from_f64((sum as f64 * scale).round_ties_even() + y_zero);
        });
        Ok(())
    })
    .with_scratch(width)))
}

fn conv_transpose(node: &Node<'_>) -> Result<Kernel, BuildError> {
    transposed(node, Activation::None, false)
}

/// activation(conv_transpose(X, W) + B + Z), channels last.
fn fused_transpose(node: &Node<'_>) -> Result<Kernel, BuildError> {
    transposed(node, Activation::of(node)?, true)
}

/// Computes each output from the inputs that contribute to it. Weights are [channels, filters / groups,
/// kernel...].
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
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (bias, z) = (inputs.optional::<T>(2)?, inputs.optional::<T>(3)?);
        let to = outputs.slice::<T>(0)?;
        let [depths, heights, widths] = images.axes;
        let kernel_positions = images.positions();
        for (batch, filter) in pairs(images.batches, images.filters) {
            let group = filter / filters;
            let bias = bias.map_or(0.0, |bias| bias[filter].to_f64());
            for ((d, h), col) in pairs(depths.output, heights.output)
                .flat_map(|row| (0..widths.output).map(move |col| (row, col)))
            {
                let mut sum = bias;
                for (position, [kd, kh, kw]) in images.kernel().enumerate() {
                    let (Some(d), Some(h), Some(col)) =
                        (depths.origin(d, kd), heights.origin(h, kh), widths.origin(col, kw))
                    else {
                        continue;
                    };
                    let from = batch * images.x.batch + images.x.at([d, h, col]);
                    for channel in group * depth..(group + 1) * depth {
                        let weight = w[(channel * filters + filter % filters) * kernel_positions + position];
                        let value = x[from + channel * images.x.channel];
                        sum = sum.plus_product(weight.term(), value.term());
                    }
                }
                let at = batch * images.y.batch + filter * images.y.channel;
                let at = at + images.y.at([d, h, col]);
                sum += z.map_or(0.0, |z| z[at].to_f64());
                to[at] = T::from_f64(activation.apply(sum));
            }
        }
        Ok(())
    })))
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
                to[at + pixel] = T::from_f64(sum);
            }
        }
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_inside_equals_the_definition() {
        let axis = WindowAxis {
            input: 5,
            output: 3,
            kernel: 3,
            stride: 2,
            dilation: 1,
            before: 1,
            after: 1,
        };
        for element in 0..3 {
            let expected: Vec<_> = (0..3)
                .filter(|&o| axis.source(o, element).is_some())
                .collect();
            assert_eq!(axis.outputs_inside(element).collect::<Vec<_>>(), expected);
        }
        let far = WindowAxis {
            input: 1,
            output: 2,
            kernel: 2,
            stride: 1,
            dilation: 9,
            ..axis
        };
        assert!(far.outputs_inside(1).is_empty());
    }
}
