//! Normalizations. Statistics are computed in f64 (two passes); the result is rounded once.

use crate::elements::{Elements, ElementsMut, Value};
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, axis, floats, scratch};
use crate::loop_nest::{AxisExtents, Lanes, LoopNest, broadcast, strides};
use crate::number::Number;
use tenon_base::{Result, stop};
use tenon_tensor::Shape;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("BatchNormalization", batch),
    ("InstanceNormalization", instance),
    ("GroupNormalization", group),
    ("LayerNormalization", |node| from_axis(node, true)),
    ("RMSNormalization", |node| from_axis(node, false)),
    ("MeanVarianceNormalization", mean_variance),
    ("LpNormalization", lp),
    ("LRN", local_response),
];

/// Batch normalization: the statistics of each channel are inputs.
fn batch(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let AxisExtents {
        outer,
        extent,
        inner,
    } = match &**node.shape(0)? {
        [count] => AxisExtents {
            outer: *count,
            extent: 1,
            inner: 1,
        },
        shape => AxisExtents::new(shape, 1),
    };
    let epsilon = f64::from(node.attributes.float("epsilon", 1e-5)?);
    let types = [
        node.dtype(1)?,
        node.dtype(2)?,
        node.dtype(3)?,
        node.dtype(4)?,
    ];
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let parameter = |index: usize| Elements::new(&inputs, index, types[index - 1]);
        let (scale, shift, mean, variance) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
        for row in 0..outer * extent {
            let channel = row % extent;
            let factor = scale.at(channel) / (variance.at(channel) + epsilon).sqrt();
            let (mean, shift) = (mean.at(channel), shift.at(channel));
            let row = row * inner..(row + 1) * inner;
            for (to, from) in to[row.clone()].iter_mut().zip(&from[row]) {
                *to = T::from_f64((from.to_f64() - mean) * factor + shift);
            }
        }
        Ok(())
    })))
}

/// A normalization by statistics of the tensor itself.
struct Normalization {
    /// The lanes that share statistics.
    lanes: Lanes,
    /// Number of lanes.
    count: usize,
    /// Loops over the positions of an element, its lane, its scale and its bias.
    nest: LoopNest<4>,
    centred: bool,
    epsilon: f64,
}

impl Normalization {
    /// The normalization of a tensor reshaped to `shape`: statistics along the axes `along`, scale and
    /// bias with these strides.
    fn new(
        node: &Node<'_>,
        shape: &Shape,
        along: impl Fn(usize) -> bool,
        [scale, bias]: [&[isize]; 2],
    ) -> Result<Self> {
        let kept: Vec<usize> = (0..shape.len())
            .map(|axis| if along(axis) { 1 } else { shape[axis] })
            .collect();
        let count = kept.iter().product();
        let lane = broadcast(&Shape::new(kept), shape)?;
        Ok(Self {
            lanes: Lanes::new(shape, along),
            count,
            nest: LoopNest::new(shape, [&strides(shape), &lane, scale, bias]),
            centred: true,
            epsilon: node.attributes.float("epsilon", 1e-5)?.into(),
        })
    }

    /// The kernel: input 1 is the scale, input 2 the optional bias; optional outputs 1 and 2 are the mean
    /// and the inverse standard deviation.
    fn kernel(self, node: &Node<'_>) -> Result<Kernel, BuildError> {
        let scale_type = node.dtype(1)?;
        let bias_type = node.optional(2).map(|ty| ty.dtype());
        let statistics = [1, 2].map(|index| node.output(index).ok().map(|ty| ty.dtype()));
        let count = self.count;
        floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let from = inputs.slice::<T>(0)?;
            let (means, inverses) = scratch(&mut outputs, 2 * count)?.split_at_mut(count);
            self.statistics(from, means, inverses);
            for (index, values) in [(1, &*means), (2, &*inverses)] {
                let Some(dtype) = statistics[index - 1] else { continue };
                let mut to = ElementsMut::new(&mut outputs, index, dtype)?;
                values.iter().enumerate().for_each(|(at, &value)| to.set(at, Value::Real(value)));
            }
            let scale = Elements::new(&inputs, 1, scale_type)?;
            let bias = bias_type.map(|dtype| Elements::new(&inputs, 2, dtype)).transpose()?;
            let to = outputs.slice::<T>(0)?;
            self.nest.for_each(|[at, lane, scale_at, bias_at]| {
                let value = (from[at].to_f64() - means[lane]) * inverses[lane];
                let bias = bias.map_or(0.0, |bias| bias.at(bias_at));
                to[at] = T::from_f64(value * scale.at(scale_at) + bias);
            });
            Ok(())
        })
        .with_scratch(2 * count))
    }

    fn statistics<T: Number>(&self, from: &[T], means: &mut [f64], inverses: &mut [f64]) {
        let len = self.lanes.len as f64;
        self.lanes.starts.for_each(|[nth, start]| {
            let lane = &self.lanes.lane;
            let sum = if self.centred {
                lane.sum(|at| from[start + at].to_f64())
            } else {
                0.0
            };
            let mean = sum / len;
            let squares = lane.sum(|at| (from[start + at].to_f64() - mean).powi(2));
            means[nth] = mean;
            inverses[nth] = 1.0 / (squares / len + self.epsilon).sqrt();
        });
    }
}

fn instance(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let channel: Vec<isize> = (0..shape.len()).map(|axis| (axis == 1).into()).collect();
    Normalization::new(node, shape, |axis| axis > 1, [&channel, &channel])?.kernel(node)
}

/// The tensor is reshaped to [N, groups, channels of a group, the rest].
fn group(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let groups = node.attributes.int("num_groups", 1)?.max(1) as usize;
    let AxisExtents {
        outer,
        extent,
        inner,
    } = AxisExtents::new(shape, 1);
    let grouped = Shape::new([outer, groups, extent / groups, inner]);
    let channel = [0, (extent / groups) as isize, 1, 0];
    Normalization::new(node, &grouped, |axis| axis > 1, [&channel, &channel])?.kernel(node)
}

/// LayerNormalization, and RMSNormalization, which is not centred.
fn from_axis(node: &Node<'_>, centred: bool) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let first = node.axis("axis", -1, shape.len())?;
    let scale = broadcast(node.shape(1)?, shape)?;
    let bias = match node.optional(2) {
        Some(bias) => broadcast(bias.shape(), shape)?,
        None => vec![0; shape.len()],
    };
    let normalization = Normalization::new(node, shape, |axis| axis >= first, [&scale, &bias])?;
    Normalization {
        centred,
        ..normalization
    }
    .kernel(node)
}

/// The term that ONNX adds to the standard deviation.
const MEAN_VARIANCE_EPSILON: f64 = 1e-9;

fn mean_variance(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let axes = node.attributes.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes: Vec<usize> = axes
        .iter()
        .map(|&at| axis(at, shape.len()))
        .collect::<Result<_>>()?;
    let lanes = Lanes::new(shape, |axis| axes.contains(&axis));
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let len = lanes.len as f64;
        lanes.starts.for_each(|[_, start]| {
            let mean = lanes.lane.sum(|at| from[start + at].to_f64()) / len;
            let squares = lanes.lane.sum(|at| (from[start + at].to_f64() - mean).powi(2));
            let deviation = (squares / len).sqrt() + MEAN_VARIANCE_EPSILON;
            lanes.lane.for_each(|[at]| {
                to[start + at] = T::from_f64((from[start + at].to_f64() - mean) / deviation);
            });
        });
        Ok(())
    })))
}

fn lp(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", -1, shape.len())?;
    let lanes = Lanes::new(shape, |axis| axis == along);
    let by_squares = node.attributes.int("p", 2)? == 2;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[_, start]| {
            let norm = lanes.lane.sum(|at| {
                let x = from[start + at].to_f64();
                if by_squares { x * x } else { x.abs() }
            });
            let norm = if by_squares { norm.sqrt() } else { norm };
            lanes.lane.for_each(|[at]| {
                let x = from[start + at].to_f64();
                to[start + at] = T::from_f64(if norm == 0.0 { 0.0 } else { x / norm });
            });
        });
        Ok(())
    })))
}

/// Local response normalization over `size` channels, (size - 1) / 2 of them before.
fn local_response(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let AxisExtents {
        outer,
        extent,
        inner,
    } = AxisExtents::new(node.shape(0)?, 1);
    let alpha = f64::from(node.attributes.float("alpha", 1e-4)?);
    let beta = f64::from(node.attributes.float("beta", 0.75)?);
    let bias = f64::from(node.attributes.float("bias", 1.0)?);
    let size = node.attributes.int("size", 1)?.max(1) as usize;
    let (before, after) = ((size - 1) / 2, size / 2);
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        // The powers of the published networks are square roots.
        let power = move |x: f64| if beta == 0.75 { x.sqrt() * x.sqrt().sqrt() } else { x.powf(beta) };
        for (batch, channel) in crate::convolution::pairs(outer, extent) {
            stop::checkpoint();
            let channels = channel.saturating_sub(before)..extent.min(channel.saturating_add(after + 1));
            let plane = |channel: usize| (batch * extent + channel) * inner;
            for at in 0..inner {
                let squares: f64 = channels.clone().map(|c| from[plane(c) + at].to_f64().powi(2)).sum();
                let divisor = power(bias + alpha / size as f64 * squares);
                let at = plane(channel) + at;
                to[at] = T::from_f64(from[at].to_f64() / divisor);
            }
        }
        Ok(())
    })))
}
