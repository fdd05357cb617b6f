//! Normalizations by statistics of rows of contiguous elements: LayerNormalization, RMSNormalization,
//! InstanceNormalization, GroupNormalization, and LpNormalization and MeanVarianceNormalization along
//! the last dimensions; and batch normalization that was not fused into a convolution.

use super::moments::{
    BLOCK, Buffers, Mapped, Moments, Scaling, blocks, sum_of_magnitudes, sum_of_squares,
};
use super::{Kernel, UnpreparedWorkload, column_normalization};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk, too_short};
use crate::signature::{Signature, refuse};
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Inputs, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool, stop};
use tenon_tensor::{DataType, Shape};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// The statistic that elements are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NormKind {
    /// The standard deviation, after subtracting the mean.
    Deviation { epsilon: f64 },
    /// The same, with ONNX's term added to the deviation instead of the variance.
    MeanVariance,
    /// The root of the mean square.
    RootMeanSquare { epsilon: f64 },
    /// The sum of magnitudes.
    L1,
    /// The root of the sum of squares.
    L2,
}

/// The term that ONNX adds to the standard deviation in MeanVarianceNormalization.
const MEAN_VARIANCE_EPSILON: f64 = 1e-9;

impl NormKind {
    /// The scaling by the moments of the elements.
    #[inline(always)]
    pub(super) fn of_moments(self, moments: Moments) -> Scaling {
        let deviation = match self {
            NormKind::Deviation { epsilon } => (moments.variance() + epsilon).sqrt(),
            _ => moments.variance().sqrt() + MEAN_VARIANCE_EPSILON,
        };
        Scaling::new(moments.mean(), 1.0 / deviation)
    }

    /// The scaling by the sum of magnitudes, or of squares, of `count` elements. Elements of norm 0
    /// become 0.
    #[inline(always)]
    pub(super) fn of_sum(self, sum: f64, count: usize) -> Scaling {
        let norm = match self {
            NormKind::RootMeanSquare { epsilon } => (sum / count as f64 + epsilon).sqrt(),
            NormKind::L1 => sum,
            _ => sum.sqrt(),
        };
        if norm == 0.0 && matches!(self, NormKind::L1 | NormKind::L2) {
            return Scaling::default();
        }
        Scaling::new(0.0, 1.0 / norm)
    }

    /// Whether the mean is subtracted.
    #[inline(always)]
    pub(super) fn is_centred(self) -> bool {
        matches!(self, NormKind::Deviation { .. } | NormKind::MeanVariance)
    }

    /// The scaling of some elements, in one or several rows.
    #[inline(always)]
    pub(super) fn of_rows<S: Simd>(
        self,
        s: S,
        level: Level,
        input: &Floats<'_>,
        rows: impl Iterator<Item = Range<usize>>,
        buffer: &mut [f32; BLOCK],
    ) -> Scaling {
        let mut moments = Moments::default();
        let (mut sum, mut count) = (0.0, 0);
        for row in rows {
            stop::checkpoint();
            if self.is_centred() {
                moments = moments.joined(Moments::of_row(s, level, input, row, buffer));
                continue;
            }
            count += row.len();
            for block in blocks(row) {
                let block = input.load(level, block, buffer);
                sum += if self == NormKind::L1 {
                    sum_of_magnitudes(block)
                } else {
                    sum_of_squares(block)
                };
            }
        }
        if self.is_centred() {
            self.of_moments(moments)
        } else {
            self.of_sum(sum, count)
        }
    }
}

/// The scale and the bias after the normalization.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Affine {
    None,
    /// One element for each element of a row, repeated along it.
    Elements {
        bias: bool,
    },
    /// One element for each `inner` elements of a row; rows repeat after `channels` elements.
    Channels {
        channels: usize,
        inner: usize,
    },
}

/// A normalization of rows.
struct RowNorm {
    level: Level,
    kind: NormKind,
    float: FloatType,
    length: usize,
    affine: Affine,
    /// Elements of the scale, and of the bias.
    parameters: usize,
    /// Whether the mean and the inverse deviation are outputs.
    statistics: bool,
}

/// The kernel of LayerNormalization and RMSNormalization.
pub(super) fn layer(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let (shape, float) = (input.shape(), FloatType::of_input(input.dtype(), 0)?);
    let axis = signature.axis("axis", -1, shape.len())?;
    let length: usize = shape[axis..].iter().product();
    // Scale and bias that are the same in every row: the trailing dimensions, repeated along a row.
    let fits = |parameter: &Shape| {
        let ones = parameter.iter().take_while(|&&extent| extent == 1).count();
        let trailing = &parameter[ones..];
        trailing.len() <= shape.len() - axis && shape.ends_with(trailing)
    };
    let rms = signature.op.name == "RMSNormalization";
    let bias = !rms && signature.optional(2).is_some();
    let scale = signature.input(1)?;
    for index in 1..=1 + usize::from(bias) {
        let parameter = signature.input(index)?;
        if parameter.dtype() != input.dtype() || !fits(parameter.shape()) {
            return Err(refuse("no kernel for a scale or bias that is broadcast"));
        }
        if parameter.elements() != scale.elements() {
            return Err(refuse(
                "no kernel for a bias of another length than the scale",
            ));
        }
    }
    let epsilon = f64::from(signature.float("epsilon", 1e-5)?);
    if signature.output(0)? != input {
        return Err(refuse("the shapes do not fit"));
    }
    let mut statistics = false;
    for index in [1, 2] {
        if let Some(statistic) = signature.any_output(index) {
            let fits = statistic.dtype() == DataType::F32
                && statistic.elements() == shape[..axis].iter().product::<usize>();
            if rms || !fits {
                return Err(refuse("the shapes do not fit"));
            }
            statistics = true;
        }
    }
    let kind = if rms {
        NormKind::RootMeanSquare { epsilon }
    } else {
        NormKind::Deviation { epsilon }
    };
    Ok(Box::new(RowNorm {
        level: signature.level,
        kind,
        float,
        length,
        affine: Affine::Elements { bias },
        parameters: scale.elements(),
        statistics,
    }))
}

/// The kernel of InstanceNormalization and GroupNormalization.
pub(super) fn channels(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (shape, float) = same_floats(signature)?;
    let Some(&channels) = shape.get(1) else {
        return Err(refuse("no kernel for fewer than two dimensions"));
    };
    let groups = if signature.op.name == "GroupNormalization" {
        let groups = signature.int("num_groups", 1)?;
        let groups = usize::try_from(groups).ok().filter(|&groups| groups > 0);
        groups.ok_or_else(|| refuse("the number of groups is out of range"))?
    } else {
        channels
    };
    let fits = |index: usize| -> Result<bool, Refusal> {
        let ty = signature.input(index)?;
        Ok(ty.shape()[..] == [channels] && FloatType::of(ty.dtype()) == Some(float))
    };
    if !channels.is_multiple_of(groups) || !fits(1)? || !fits(2)? {
        return Err(refuse("the shapes do not fit"));
    }
    let inner: usize = shape[2..].iter().product();
    Ok(Box::new(RowNorm {
        level: signature.level,
        kind: NormKind::Deviation {
            epsilon: signature.float("epsilon", 1e-5)?.into(),
        },
        float,
        length: channels / groups * inner,
        affine: Affine::Channels { channels, inner },
        parameters: channels,
        statistics: false,
    }))
}

/// The kernel of MeanVarianceNormalization and LpNormalization.
pub(super) fn plain(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (shape, float) = same_floats(signature)?;
    let rank = shape.len();
    let mut reduced = vec![false; rank];
    let kind = if signature.op.name == "LpNormalization" {
        reduced[signature.axis("axis", -1, rank)?] = true;
        match signature.int("p", 2)? {
            1 => NormKind::L1,
            _ => NormKind::L2,
        }
    } else {
        for &axis in signature.ints("axes")?.unwrap_or(&[0, 2, 3]) {
            let positive = if axis < 0 {
                axis.saturating_add(rank as i64)
            } else {
                axis
            };
            let axis = usize::try_from(positive).ok();
            let axis = axis.and_then(|axis| reduced.get_mut(axis));
            *axis.ok_or_else(|| refuse(format!("there is no axis {positive}")))? = true;
        }
        NormKind::MeanVariance
    };
    let first = reduced.iter().position(|&reduced| reduced).unwrap_or(rank);
    let is_rows = (first..rank).all(|axis| reduced[axis] || shape[axis] == 1);
    if !is_rows {
        return column_normalization::kernel(signature, kind, (shape, float), &reduced);
    }
    Ok(Box::new(RowNorm {
        level: signature.level,
        kind,
        float,
        length: shape[first..].iter().product(),
        affine: Affine::None,
        parameters: 0,
        statistics: false,
    }))
}

/// The shape of input 0 and of the only output, of the same floating-point type.
fn same_floats<'a>(signature: &Signature<'a>) -> Result<(&'a Shape, FloatType), Refusal> {
    let input = signature.input(0)?;
    let float = FloatType::of_input(input.dtype(), 0)?;
    if signature.output(0)? != input || signature.has_output(1) {
        return Err(refuse("the shapes do not fit"));
    }
    Ok((input.shape(), float))
}

/// Input 0, unless output 0 replaces it.
pub(super) fn unless_replaced<'a>(
    inputs: &Inputs<'a>,
    float: FloatType,
) -> Result<Option<Floats<'a>>> {
    if inputs.is_replaced(0) {
        Ok(None)
    } else {
        Floats::input(inputs, 0, float).map(Some)
    }
}

/// A parameter in f32: the operand itself, or converted into scratch memory.
fn parameter<'a>(
    inputs: &Inputs<'a>,
    index: usize,
    float: FloatType,
    level: Level,
    scratch: &'a mut [f32],
) -> Result<&'a [f32]> {
    let elements = Floats::input(inputs, index, float)?;
    if elements.len() > scratch.len() && float != FloatType::F32 {
        return Err(too_short(
            "a parameter's scratch memory",
            elements.len(),
            scratch.len(),
        ));
    }
    Ok(elements.load(level, 0..elements.len(), scratch))
}

impl RowNorm {
    /// Elements of scratch memory: the parameters in f32.
    fn scratch(&self) -> usize {
        if self.float == FloatType::F32 {
            0
        } else {
            self.parameters.saturating_mul(2)
        }
    }
}

impl UnpreparedWorkload for RowNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            ..WorkloadPlan::in_place([0])
        }
    }
}

impl Workload for RowNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (float, level) = (self.float, self.level);
        let from = unless_replaced(&inputs, float)?;
        let scratch = super::scratch(&mut outputs, self.scratch())?;
        let half = scratch.len() / 2;
        let (first, second) = scratch.split_at_mut(half);
        let (mut scale, mut bias): (&[f32], &[f32]) = (&[], &[]);
        if self.affine != Affine::None {
            scale = parameter(&inputs, 1, float, level, first)?;
        }
        if !matches!(self.affine, Affine::None | Affine::Elements { bias: false }) {
            bias = parameter(&inputs, 2, float, level, second)?;
        }
        let length = self.length.max(1);
        let to = FloatsMut::output(&mut outputs, 0, float)?;
        let count = to.len() / length;
        let run = |first: usize, to: FloatsMut<'_>, statistics: [&mut [f32]; 2]| {
            let range = first * length..first * length + to.len();
            level.run(NormRows {
                norm: self,
                parameters: [scale, bias],
                first,
                rows: Mapped {
                    level,
                    from: from.map(|from| from.range(range)),
                    to,
                },
                statistics,
            });
        };
        if self.statistics {
            // The statistics are outputs for training; one thread.
            let mut list = |index| -> Result<&mut [f32]> {
                Ok(outputs.optional::<f32>(index)?.unwrap_or_default())
            };
            let (means, inverses) = (list(1)?, list(2)?);
            run(0, to, [means, inverses]);
            return Ok(());
        }
        let parallel = to.len() >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let rows = count.div_ceil(chunks).max(1);
        for_each_float_chunk(to, rows * length, parallel, |index, to| {
            run(index * rows, to, [&mut [], &mut []]);
        });
        Ok(())
    }
}

/// Some rows.
struct NormRows<'a> {
    norm: &'a RowNorm,
    /// Scale and bias.
    parameters: [&'a [f32]; 2],
    /// The index of the first row.
    first: usize,
    rows: Mapped<'a>,
    /// The mean and the inverse deviation of each row, or nothing.
    statistics: [&'a mut [f32]; 2],
}

impl VectorOp for NormRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self {
            norm,
            parameters: [scale, bias],
            first,
            mut rows,
            statistics: [means, inverses],
        } = self;
        let length = norm.length.max(1);
        let mut buffers = Buffers::new();
        for index in 0..rows.to.len() / length {
            let row = index * length..(index + 1) * length;
            let one = std::iter::once(row.clone());
            let input = rows.input();
            let scaling = norm
                .kind
                .of_rows(s, norm.level, &input, one, &mut buffers.from);
            if let Some(mean) = means.get_mut(index) {
                *mean = scaling.mean[0];
            }
            if let Some(inverse) = inverses.get_mut(index) {
                *inverse = scaling.factor;
            }
            let factor = scaling.factor;
            match norm.affine {
                Affine::None => rows.map(row, &mut buffers, |x| scaling.centred(x) * factor),
                Affine::Elements { bias: has_bias } => {
                    let period = scale.len();
                    for at in row.step_by(period) {
                        let range = at..at + period;
                        if has_bias {
                            rows.map_with(range, [scale, bias], &mut buffers, |x, scale, bias| {
                                scaling.centred(x) * factor * scale + bias
                            });
                        } else {
                            rows.map_with(range, [scale, scale], &mut buffers, |x, scale, _| {
                                scaling.centred(x) * factor * scale
                            });
                        }
                    }
                }
                Affine::Channels { channels, inner } => {
                    let count = length / inner;
                    let channel = (first + index) * count % channels;
                    let (scale, bias) = (&scale[channel..][..count], &bias[channel..][..count]);
                    if inner == 1 {
                        rows.map_with(row, [scale, bias], &mut buffers, |x, scale, bias| {
                            scaling.centred(x) * factor * scale + bias
                        });
                        continue;
                    }
                    let planes = row.step_by(inner).zip(scale.iter().zip(bias));
                    for (at, (&scale, &bias)) in planes {
                        let factor = factor * scale;
                        rows.map(at..at + inner, &mut buffers, |x| {
                            scaling.centred(x) * factor + bias
                        });
                    }
                }
            }
        }
    }
}

/// Batch normalization: the statistics of each channel are inputs.
struct BatchNorm {
    level: Level,
    float: FloatType,
    /// The types of scale, bias, mean and variance.
    parameters: [FloatType; 4],
    channels: usize,
    /// Contiguous elements of a channel.
    inner: usize,
    epsilon: f32,
}

/// The kernel of BatchNormalization.
pub(super) fn batch(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (shape, float) = same_floats(signature)?;
    // A vector is a batch of one channel.
    let (channels, inner) = match shape[..] {
        [count] => (1, count),
        [_, channels, ref rest @ ..] => (channels, rest.iter().product()),
        [] => return Err(refuse("no kernel for a scalar")),
    };
    let mut parameters = [float; 4];
    for (index, parameter) in parameters.iter_mut().enumerate() {
        let ty = signature.input(index + 1)?;
        *parameter = FloatType::of_input(ty.dtype(), index + 1)?;
        if ty.shape()[..] != [channels] {
            return Err(refuse("the parameters require one element per channel"));
        }
    }
    if signature.flag("training_mode", false)? {
        return Err(refuse("no kernel for training"));
    }
    Ok(Box::new(BatchNorm {
        level: signature.level,
        float,
        parameters,
        channels,
        inner,
        epsilon: signature.float("epsilon", 1e-5)?,
    }))
}

impl UnpreparedWorkload for BatchNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.channels.saturating_mul(4 * size_of::<f32>()),
            ..WorkloadPlan::in_place([0])
        }
    }
}

impl Workload for BatchNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let level = self.level;
        let from = unless_replaced(&inputs, self.float)?;
        // Factors in place of scales, then biases, means and variances.
        let scratch = super::scratch(&mut outputs, 4 * self.channels)?;
        for (index, to) in scratch.chunks_exact_mut(self.channels).enumerate() {
            let elements = Floats::input(&inputs, index + 1, self.parameters[index])?;
            elements.copy(level, 0..self.channels, to);
        }
        let (factors, rest) = scratch.split_at_mut(self.channels);
        let (biases, rest) = rest.split_at(self.channels);
        let (means, variances) = rest.split_at(self.channels);
        for (factor, variance) in factors.iter_mut().zip(variances) {
            *factor /= (variance + self.epsilon).sqrt();
        }
        let factors = &*factors;
        let to = FloatsMut::output(&mut outputs, 0, self.float)?;
        let parallel = to.len() >= PARALLEL;
        let image = self.inner * self.channels;
        let images = to.len() / image;
        // Whole images, or planes of one image.
        let planes = if self.inner == 1 {
            images
        } else {
            images * self.channels
        };
        let unit = if self.inner == 1 { image } else { self.inner };
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let count = planes.div_ceil(chunks);
        for_each_float_chunk(to, count * unit, parallel, |index, to| {
            let start = index * count * unit;
            let elements = Mapped {
                level,
                from: from.map(|from| from.range(start..start + to.len())),
                to,
            };
            level.run(BatchNormPlanes {
                norm: self,
                parameters: [factors, biases, means],
                first: index * count,
                unit,
                elements,
            });
        });
        Ok(())
    }
}

/// Planes of one channel each, or images of one element per channel.
struct BatchNormPlanes<'a> {
    norm: &'a BatchNorm,
    /// Factors, biases and means.
    parameters: [&'a [f32]; 3],
    first: usize,
    /// Elements of a plane or of an image.
    unit: usize,
    elements: Mapped<'a>,
}

impl VectorOp for BatchNormPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, _: S) {
        let [factors, biases, means] = self.parameters;
        let mut buffers = Buffers::new();
        for index in 0..self.elements.to.len() / self.unit {
            stop::checkpoint();
            let range = index * self.unit..(index + 1) * self.unit;
            if self.norm.inner > 1 {
                let channel = (self.first + index) % self.norm.channels;
                let (factor, bias, mean) = (factors[channel], biases[channel], means[channel]);
                self.elements
                    .map(range, &mut buffers, |x| (x - mean) * factor + bias);
                continue;
            }
            for block in blocks(range.clone()) {
                let lists = block.start - range.start..block.end - range.start;
                let mut centred = [0f32; BLOCK];
                let centred = &mut centred[..block.len()];
                let input = self.elements.input();
                let from = input.load(self.elements.level, block.clone(), &mut buffers.from);
                for ((to, &x), &mean) in centred.iter_mut().zip(from).zip(&means[lists.clone()]) {
                    *to = x - mean;
                }
                let factors = factors[lists.clone()].iter().zip(&biases[lists]);
                for (x, (&factor, &bias)) in centred.iter_mut().zip(factors) {
                    *x = *x * factor + bias;
                }
                self.elements.to.write(self.elements.level, block, centred);
            }
        }
    }
}
