//! Convolutions, in channels-first and channels-last order, of numbers and of quantized bytes.

use crate::activation::Activation;
use crate::kernel::{Build, Kernel, Node, Stop, floats, no_type, other, scratch};
use crate::matmul::bytes;
use crate::number::{Number, Sum};
use tenon_backend::Reason;
use tenon_base::{Result, stop};
use tenon_graph::geometry::Window;
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, Build)] = &[
    ("Conv", conv),
    ("tenon.Conv", fused),
    ("ConvInteger", conv_integer),
    ("QLinearConv", qlinear_conv),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", deform_conv),
];

/// One spatial dimension of a sliding window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slide {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl Slide {
    /// A dimension that is not there.
    pub(crate) const NONE: Slide = Slide {
        input: 1,
        output: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
    };

    /// Where the kernel's element looks for an output's element, if that is inside the input.
    pub(crate) fn source(&self, output: usize, element: usize) -> Option<usize> {
        let at = output * self.stride + element * self.dilation;
        at.checked_sub(self.before).filter(|&at| at < self.input)
    }

    /// The kernel's elements that look inside the input for an output's element.
    pub(crate) fn seen(&self, output: usize) -> std::ops::Range<usize> {
        let start = output * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let room = (self.input + self.before).saturating_sub(start);
        let end = room.div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// The kernel's elements that lie inside the input or its padding for an output's element.
    pub(crate) fn padded(&self, output: usize) -> usize {
        let room = self.before + self.input + self.after;
        let room = room.saturating_sub(output * self.stride);
        room.div_ceil(self.dilation).min(self.kernel)
    }

    /// The outputs for which the kernel's element looks inside the input.
    fn inside(&self, element: usize) -> std::ops::Range<usize> {
        let shift = element * self.dilation;
        let first = self.before.saturating_sub(shift).div_ceil(self.stride);
        let end = (self.input + self.before)
            .saturating_sub(shift)
            .div_ceil(self.stride);
        first.min(self.output)..end.min(self.output).max(first.min(self.output))
    }

    /// The input's element whose kernel's element reaches an output's, in a transposed convolution.
    pub(crate) fn origin(&self, output: usize, element: usize) -> Option<usize> {
        let at = (output + self.before).checked_sub(element * self.dilation)?;
        (at.is_multiple_of(self.stride))
            .then_some(at / self.stride)
            .filter(|&at| at < self.input)
    }
}

/// Where the elements of a tensor of images lie: steps along batch, channel, depth, height, width.
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

/// A window that slides over images, seen with three spatial dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Images {
    pub(crate) batches: usize,
    /// Channels of the input.
    pub(crate) channels: usize,
    /// Channels of the output.
    pub(crate) filters: usize,
    pub(crate) slides: [Slide; 3],
    pub(crate) x: Layout,
    pub(crate) y: Layout,
}

impl Images {
    /// For input 0 and output 0 of `node`, of at most three spatial dimensions.
    pub(crate) fn new(node: &Node<'_>, window: &Window, channels_last: bool) -> Result<Self, Stop> {
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
        let mut slides = [Slide::NONE; 3];
        for axis in 0..rank {
            slides[3 - rank + axis] = Slide {
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
            slides,
            x: Layout::new(x, channels_last),
            y: Layout::new(y, channels_last),
        })
    }

    /// Elements of the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.slides.iter().map(|slide| slide.kernel).product()
    }

    /// The kernel's elements in row-major order.
    pub(crate) fn kernel(&self) -> impl Iterator<Item = [usize; 3]> {
        let [d, h, w] = self.slides.map(|slide| slide.kernel);
        (0..d * h * w).map(move |at| [at / (h * w), at / w % h, at % w])
    }
}

/// A convolution of `Images` with weights [filters, channels / groups, kernel...].
struct Convolution {
    images: Images,
    /// Channels that a filter sees.
    depth: usize,
    /// Filters that see the same channels.
    filters: usize,
}

impl Convolution {
    fn new(node: &Node<'_>, weights: usize, channels_last: bool) -> Result<Self, Stop> {
        let (x, w) = (node.shape(0)?, node.shape(weights)?);
        let first = if channels_last { 1 } else { 2 };
        let spatial = &x[first..first + w.len() - 2];
        let window = Window::sliding(node.attributes, spatial, &w[2..])?;
        let images = Images::new(node, &window, channels_last)?;
        let groups = node.attributes.int("group", 1)?.max(1) as usize;
        Ok(Self {
            depth: w[1],
            filters: images.filters / groups,
            images,
        })
    }

    /// Numbers of scratch memory.
    fn scratch(&self) -> usize {
        self.images.slides[2].output
    }

    /// Calls `store` with the position in the output, filter and sum of every element. Sums are
    /// gathered for a row of the output at once.
    fn compute<S: Sum>(
        &self,
        x: impl Fn(usize) -> S,
        w: impl Fn(usize, usize) -> S,
        row: &mut [S],
        mut store: impl FnMut(usize, usize, S),
    ) {
        let Images {
            batches,
            slides: [depths, heights, widths],
            x: from,
            y: to,
            ..
        } = self.images;
        let taps = self.images.taps();
        for (batch, filter) in pairs(batches, self.images.filters) {
            let first = filter / self.filters.max(1) * self.depth;
            for (d, h) in pairs(depths.output, heights.output) {
                row.fill(S::default());
                for channel in 0..self.depth {
                    stop::checkpoint();
                    let start = batch * from.batch + (first + channel) * from.channel;
                    let weights = (filter * self.depth + channel) * taps;
                    for (tap, [kd, kh, kw]) in self.images.kernel().enumerate() {
                        let (Some(d), Some(h)) = (depths.source(d, kd), heights.source(h, kh))
                        else {
                            continue;
                        };
                        let weight = w(weights + tap, filter);
                        let start = start + from.at([d, h, 0]);
                        let inside = widths.inside(kw);
                        let shift = kw * widths.dilation;
                        for at in inside {
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

/// All pairs of numbers below `a` and `b`, for loops that may be stopped before each.
pub(crate) fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..a).flat_map(move |i| {
        (0..b).map(move |j| {
            stop::checkpoint();
            (i, j)
        })
    })
}

fn conv(node: &Node<'_>) -> Result<Kernel, Stop> {
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
fn fused(node: &Node<'_>) -> Result<Kernel, Stop> {
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

/// How far apart the numbers of a parameter are from filter to filter: 0 when there is only one.
fn step(node: &Node<'_>, input: usize, filters: usize) -> Result<usize, Stop> {
    match node.optional(input).map(|ty| ty.elements()) {
        None | Some(1) => Ok(0),
        Some(count) if count == filters => Ok(1),
        Some(_) => Err(other(format!(
            "input {input} is neither one number nor one a filter"
        ))),
    }
}

fn conv_integer(node: &Node<'_>) -> Result<Kernel, Stop> {
    let convolution = Convolution::new(node, 1, false)?;
    let width = convolution.scratch();
    let per_filter = step(node, 3, convolution.images.filters)?;
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

fn qlinear_conv(node: &Node<'_>) -> Result<Kernel, Stop> {
    let convolution = Convolution::new(node, 3, false)?;
    let width = convolution.scratch();
    let filters = convolution.images.filters;
    let (per_scale, per_zero) = (step(node, 4, filters)?, step(node, 5, filters)?);
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

/// Each output gathers the inputs whose kernel reaches it. Weights are [channels, filters / groups,
/// kernel...].
fn conv_transpose(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (x, w) = (node.shape(0)?, node.shape(1)?);
    let window = Window::transposed(node.attributes, &x[2..], &w[2..])?;
    let images = Images::new(node, &window, false)?;
    let groups = node.attributes.int("group", 1)?.max(1) as usize;
    let (filters, depth) = (w[1], images.channels / groups);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let bias = inputs.optional::<T>(2)?;
        let to = outputs.slice::<T>(0)?;
        let [depths, heights, widths] = images.slides;
        let taps = images.taps();
        for (batch, filter) in pairs(images.batches, images.filters) {
            let group = filter / filters;
            let bias = bias.map_or(0.0, |bias| bias[filter].to_f64());
            for ((d, h), col) in pairs(depths.output, heights.output)
                .flat_map(|row| (0..widths.output).map(move |col| (row, col)))
            {
                let mut sum = bias;
                for (tap, [kd, kh, kw]) in images.kernel().enumerate() {
                    let (Some(d), Some(h), Some(col)) =
                        (depths.origin(d, kd), heights.origin(h, kh), widths.origin(col, kw))
                    else {
                        continue;
                    };
                    let from = batch * images.x.batch + images.x.at([d, h, col]);
                    for channel in group * depth..(group + 1) * depth {
                        let weight = w[(channel * filters + filter % filters) * taps + tap];
                        let value = x[from + channel * images.x.channel];
                        sum = sum.plus_product(weight.term(), value.term());
                    }
                }
                let at = batch * images.y.batch + filter * images.y.channel;
                to[at + images.y.at([d, h, col])] = T::from_f64(sum);
            }
        }
        Ok(())
    })))
}

/// The element at a position between elements, by linear interpolation; 0 outside.
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

/// Two spatial dimensions; each kernel element looks where its offset says.
fn deform_conv(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (x, w) = (node.shape(0)?, node.shape(1)?);
    if x.len() != 4 {
        return Err(Reason::InputRank {
            input: 0,
            found: x.len(),
        }
        .into());
    }
    let window = Window::sliding(node.attributes, &x[2..], &w[2..])?;
    let images = Images::new(node, &window, false)?;
    let groups = node.attributes.int("group", 1)?.max(1) as usize;
    let offset_groups = node.attributes.int("offset_group", 1)?.max(1) as usize;
    let (depth, filters) = (w[1], images.filters / groups);
    let (taps, planes) = (images.taps(), images.channels / offset_groups);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, w) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let (offset, bias) = (inputs.slice::<T>(2)?, inputs.optional::<T>(3)?);
        let mask = inputs.optional::<T>(4)?;
        let to = outputs.slice::<T>(0)?;
        let [_, rows, columns] = images.slides;
        let area = rows.output * columns.output;
        for (batch, filter) in pairs(images.batches, images.filters) {
            for (row, column) in pairs(rows.output, columns.output) {
                let place = row * columns.output + column;
                let mut sum = bias.map_or(0.0, |bias| bias[filter].to_f64());
                for (channel, tap) in pairs(depth, taps) {
                    let seen = filter / filters * depth + channel;
                    let at = (batch * offset_groups + seen / planes) * taps + tap;
                    let moved = |axis: usize| offset[(2 * at + axis) * area + place].to_f64();
                    let mask = mask.map_or(1.0, |mask| mask[at * area + place].to_f64());
                    let (kh, kw) = (tap / columns.kernel, tap % columns.kernel);
                    let y = (row * rows.stride + kh * rows.dilation) as f64 - rows.before as f64;
                    let z = (column * columns.stride + kw * columns.dilation) as f64
                        - columns.before as f64;
                    let start = batch * images.x.batch + seen * images.x.channel;
                    let plane = &x[start..start + images.x.channel];
                    let size = [rows.input, columns.input];
                    let value = bilinear(plane, size, y + moved(0), z + moved(1));
                    sum += w[(filter * depth + channel) * taps + tap].to_f64() * mask * value;
                }
                let at = batch * images.y.batch + filter * images.y.channel;
                to[at + place] = T::from_f64(sum);
            }
        }
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_element_sees() {
        let slide = Slide {
            input: 5,
            output: 3,
            kernel: 3,
            stride: 2,
            dilation: 1,
            before: 1,
            after: 1,
        };
        for element in 0..3 {
            let seen: Vec<_> = (0..3)
                .filter(|&o| slide.source(o, element).is_some())
                .collect();
            assert_eq!(slide.inside(element).collect::<Vec<_>>(), seen);
        }
        let far = Slide {
            input: 1,
            output: 2,
            kernel: 2,
            stride: 1,
            dilation: 9,
            ..slide
        };
        assert!(far.inside(1).is_empty());
    }
}
