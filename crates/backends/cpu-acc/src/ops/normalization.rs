//! Normalizations by statistics of rows of contiguous elements: LayerNormalization, RMSNormalization,
//! InstanceNormalization, GroupNormalization, and LpNormalization and MeanVarianceNormalization along
//! the last dimensions; in `columns`, by those of other elements; in `batch`, by inputs.

mod batch;
mod columns;
mod mapped;
mod moments;
mod scaling;

use self::mapped::Mapped;
use self::scaling::NormKind;
use super::blocks::Buffers;
use super::reduction::reduced_dimensions;
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk, too_short};
use crate::signature::{Signature, refuse};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Inputs, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};
use tenon_tensor::{DataType, Shape};

pub(super) use self::batch::kernel as batch;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

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
    let (shape, float) = first_input(signature)?;
    let axis = signature.axis("axis", -1, shape.len())?;
    let length: usize = shape[axis..].iter().product();
    // Scale and bias that are the same in every row: the trailing dimensions, repeated along a row.
    let fits = |parameter: &Shape| {
        let ones = parameter.iter().take_while(|&&extent| extent == 1).count();
        let trailing = &parameter[ones..];
        trailing.len() <= shape.len() - axis && shape.ends_with(trailing)
    };
    let rms = signature.op.name == "RMSNormalization";
    let bias = signature.optional(2).is_some();
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
    let mut statistics = false;
    for index in [1, 2] {
        if let Some(statistic) = signature.any_output(index) {
            if statistic.dtype() != DataType::F32 {
                return Err(refuse("no kernel for statistics of another type than f32"));
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
    let (shape, float) = first_input(signature)?;
    let channels = shape[1];
    let groups = if signature.op.name == "GroupNormalization" {
        signature.int("num_groups", 1)? as usize
    } else {
        channels
    };
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
    let (shape, float) = first_input(signature)?;
    let rank = shape.len();
    let (kind, reduced) = if signature.op.name == "LpNormalization" {
        let kind = match signature.int("p", 2)? {
            1 => NormKind::L1,
            _ => NormKind::L2,
        };
        (
            kind,
            reduced_dimensions(&[signature.int("axis", -1)?], rank),
        )
    } else {
        let axes = signature.ints("axes")?.unwrap_or(&[0, 2, 3]);
        (NormKind::MeanVariance, reduced_dimensions(axes, rank))
    };
    let first = reduced.iter().position(|&reduced| reduced).unwrap_or(rank);
    let is_rows = (first..rank).all(|axis| reduced[axis] || shape[axis] == 1);
    if !is_rows {
        return Ok(columns::kernel(signature, kind, (shape, float), &reduced));
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

/// The shape and the type of input 0, which are those of output 0.
fn first_input<'a>(signature: &Signature<'a>) -> Result<(&'a Shape, FloatType), Refusal> {
    signature.output(0)?;
    let input = signature.input(0)?;
    Ok((input.shape(), FloatType::of_input(input.dtype(), 0)?))
}

/// Input 0, unless output 0 replaces it.
fn unless_replaced<'a>(inputs: &Inputs<'a>, float: FloatType) -> Result<Option<Floats<'a>>> {
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
        let length = self.length;
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
        let rows = count.div_ceil(chunks);
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
        let length = norm.length;
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
