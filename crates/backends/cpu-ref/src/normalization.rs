//! Normalizations. Statistics are computed in f64 (two passes); the result is rounded once.

use crate::chunks::{for_each_chunk, for_each_chunk_of};
use crate::elements::{Elements, ElementsMut, Value};
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, axis, floats, scratch};
use crate::lanes::{Fold, Lanes, SUM, fold};
use crate::loop_nest::{AxisExtents, BLOCK, LoopNest, broadcast, strides};
use crate::number::Number;
use crate::unary::transform_reals;
use tenon_base::{Result, stop, vectorized};
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
            transform_reals(&from[row.clone()], &mut to[row], |x| (x - mean) * factor + shift);
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

/// The sum of squares.
const SQUARES: Fold<f64> = fold!(0.0, |a, b| a + b, |total, x| total + x * x);

/// The sum of magnitudes.
const MAGNITUDES: Fold<f64> = fold!(0.0, |a, b| a + b, |total, x| total + x.abs());

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
            // The mean and the inverse standard deviation of each lane.
            let moments = scratch(&mut outputs, 2 * count)?;
            self.moments(from, moments);
            for (index, dtype) in statistics.into_iter().enumerate() {
                let Some(dtype) = dtype else { continue };
                let mut to = ElementsMut::new(&mut outputs, index + 1, dtype)?;
                for (at, moments) in moments.chunks_exact(2).enumerate() {
                    to.set(at, Value::Real(moments[index]));
                }
            }
            let scale = Elements::new(&inputs, 1, scale_type)?;
            let bias = bias_type.map(|dtype| Elements::new(&inputs, 2, dtype)).transpose()?;
            self.normalize(from, outputs.slice::<T>(0)?, moments, scale, bias);
            Ok(())
        })
        .with_scratch(2 * count))
    }

    fn moments<T: Number>(&self, from: &[T], moments: &mut [f64]) {
        let (lanes, operations) = (&self.lanes, 2 * from.len());
        let len = lanes.len as f64;
        for_each_chunk_of(moments, 2, operations, |first, moments| {
            for (nth, moments) in moments.chunks_exact_mut(2).enumerate() {
                let [_, start] = lanes.starts.at(first / 2 + nth);
                let sum = if self.centred {
                    lanes.fold_reals(from, start, SUM, |_| {})
                } else {
                    0.0
                };
                let mean = sum / len;
                let squares = lanes.fold_reals(from, start, SQUARES, |values| {
                    vectorized!(for x in values.iter_mut() {
                        *x -= mean;
                    });
                });
                moments[0] = mean;
                moments[1] = 1.0 / (squares / len + self.epsilon).sqrt();
            }
        });
    }

    fn normalize<T: Number>(
        &self,
        from: &[T],
        to: &mut [T],
        moments: &[f64],
        scale: Elements<'_>,
        bias: Option<Elements<'_>>,
    ) {
        for_each_chunk(to, |first, mut to| {
            self.nest
                .for_each_run(first, to.len(), |at, strides, count| {
                    let run = to.split_off_mut(..count).unwrap_or_default();
                    let [mut values, mut scales, mut biases] = [[0.0; BLOCK]; 3];
                    for (nth, to) in run.chunks_mut(BLOCK).enumerate() {
                        let at = |operand: usize| {
                            at[operand]
                                .wrapping_add_signed((nth * BLOCK) as isize * strides[operand])
                        };
                        let len = to.len();
                        let (values, scales, biases) =
                            (&mut values[..len], &mut scales[..len], &mut biases[..len]);
                        T::to_reals(&from[at(0)..at(0) + len], values);
                        for (step, x) in values.iter_mut().enumerate() {
                            let lane = at(1).wrapping_add_signed(step as isize * strides[1]);
                            *x = (*x - moments[2 * lane]) * moments[2 * lane + 1];
                        }
                        scale.strided(at(2), strides[2], scales);
                        if let Some(bias) = bias {
                            bias.strided(at(3), strides[3], biases);
                        }
                        vectorized!(for ((x, scale), bias) in
                            values.iter_mut().zip(&*scales).zip(&*biases)
                        {
                            *x = *x * scale + bias;
                        });
                        T::from_reals(values, to);
                    }
                });
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
    let size = lanes.scratch(shape.iter().product());
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let len = lanes.len as f64;
        let scratch = scratch(&mut outputs, size)?;
        lanes.map(from, to, scratch, |values| {
            let mean = SUM.of(values) / len;
            vectorized!(for x in values.iter_mut() {
                *x -= mean;
            });
            let deviation = (SQUARES.of(values) / len).sqrt() + MEAN_VARIANCE_EPSILON;
            vectorized!(for x in values.iter_mut() {
                *x /= deviation;
            });
        });
        Ok(())
    })
    .with_scratch(size))
}

fn lp(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", -1, shape.len())?;
    let lanes = Lanes::new(shape, |axis| axis == along);
    let by_squares = node.attributes.int("p", 2)? == 2;
    let size = lanes.scratch(shape.iter().product());
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let scratch = scratch(&mut outputs, size)?;
        lanes.map(from, to, scratch, |values| {
            let norm = if by_squares {
                SQUARES.of(values).sqrt()
            } else {
                MAGNITUDES.of(values)
            };
            vectorized!(for x in values.iter_mut() {
                *x = if norm == 0.0 { 0.0 } else { *x / norm };
            });
        });
        Ok(())
    })
    .with_scratch(size))
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
        for (batch, channel) in crate::loop_nest::pairs(outer, extent) {
            stop::checkpoint();
            let channels = channel.saturating_sub(before)..extent.min(channel.saturating_add(after + 1));
            let plane = |channel: usize| (batch * extent + channel) * inner;
            for at in 0..inner {
                let squares: f64 = channels.clone().map(|c| from[plane(c) + at].to_f64().powi(2)).sum();
                let divisor = power(bias + alpha / size as f64 * squares);
                let at = plane(channel) + at;
                to[at] = T::of_f64(from[at].to_f64() / divisor);
            }
        }
        Ok(())
    })))
}
