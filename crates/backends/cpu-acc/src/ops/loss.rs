//! Losses: negative log-likelihood, and cross-entropy of the softmax of scores.

use super::extremes::AxisExtents;
use super::softmax::{Buffers, Matrix, row_shift};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Inputs, Operands, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_tensor::DataType;

/// Columns that are computed at once.
const COLUMNS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
enum LossReduction {
    None,
    Sum,
    Mean,
}

/// A loss of scores [outer, classes, inner].
struct Loss {
    level: Level,
    extents: AxisExtents,
    float: FloatType,
    label_type: DataType,
    /// Whether scores are unnormalised: their log-softmax is output 1.
    softmax: bool,
    weighted: bool,
    logarithms: bool,
    reduction: LossReduction,
    ignored: Option<i64>,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let scores = signature.input(0)?;
    let labels = signature.input(1)?;
    let float = FloatType::of_input(scores.dtype(), 0)?;
    if scores.shape().len() < 2 {
        return Err(refuse("no kernel for fewer than two dimensions"));
    }
    let extents = AxisExtents::new(scores.shape(), 1);
    let softmax = signature.op.name == "SoftmaxCrossEntropyLoss";
    let reduction = match signature.string("reduction", "mean")? {
        "none" => LossReduction::None,
        "sum" => LossReduction::Sum,
        "mean" => LossReduction::Mean,
        found => return Err(refuse_attribute("reduction", found)),
    };
    let ignored = if signature.has("ignore_index") {
        Some(signature.int("ignore_index", 0)?)
    } else {
        None
    };
    let positions = extents.outer * extents.inner;
    let output = signature.output(0)?;
    let losses = if reduction == LossReduction::None {
        positions
    } else {
        1
    };
    let weights = signature.optional(2);
    if !matches!(labels.dtype(), DataType::I64 | DataType::I32)
        || labels.elements() != positions
        || output.dtype() != scores.dtype()
        || output.elements() != losses
        || weights.is_some_and(|weights| {
            weights.dtype() != scores.dtype() || weights.shape()[..] != [extents.extent]
        })
    {
        return Err(refuse("the shapes or types do not fit"));
    }
    let logarithms = signature.has_output(1);
    if logarithms && (!softmax || signature.output(1)? != scores) {
        return Err(refuse("no kernel for these outputs"));
    }
    Ok(Box::new(Loss {
        level: signature.level,
        extents,
        float,
        label_type: labels.dtype(),
        softmax,
        weighted: weights.is_some(),
        logarithms,
        reduction,
        ignored,
    }))
}

impl UnpreparedWorkload for Loss {}

impl Workload for Loss {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let scores = Floats::input(&inputs, 0, self.float)?;
        let weights = if self.weighted {
            Some(Floats::input(&inputs, 2, self.float)?)
        } else {
            None
        };
        let losses = FloatsMut::output(&mut outputs, 0, self.float)?;
        let logarithms = if self.logarithms {
            Some(FloatsMut::output(&mut outputs, 1, self.float)?)
        } else {
            None
        };
        self.level.run(Losses {
            loss: self,
            scores,
            labels: Labels::new(&inputs, self.label_type)?,
            weights,
            losses,
            logarithms,
        })
    }
}

/// The labels.
enum Labels<'a> {
    I64(&'a [i64]),
    I32(&'a [i32]),
}

impl<'a> Labels<'a> {
    fn new(inputs: &Inputs<'a>, dtype: DataType) -> Result<Self> {
        Ok(if dtype == DataType::I64 {
            Self::I64(inputs.slice(1)?)
        } else {
            Self::I32(inputs.slice(1)?)
        })
    }

    #[inline(always)]
    fn get(&self, index: usize) -> i64 {
        match self {
            Self::I64(labels) => labels[index],
            Self::I32(labels) => labels[index].into(),
        }
    }
}

/// All losses.
struct Losses<'a> {
    loss: &'a Loss,
    scores: Floats<'a>,
    labels: Labels<'a>,
    weights: Option<Floats<'a>>,
    losses: FloatsMut<'a>,
    logarithms: Option<FloatsMut<'a>>,
}

impl VectorOp for Losses<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn eval<S: Simd>(mut self, s: S) -> Result<()> {
        let loss = self.loss;
        let AxisExtents {
            outer,
            extent: classes,
            inner,
        } = loss.extents;
        let level = loss.level;
        let mut buffers = Buffers::new();
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for line in 0..outer {
            let start = line * classes * inner;
            for column in (0..inner).step_by(COLUMNS) {
                stop::checkpoint();
                let count = (inner - column).min(COLUMNS);
                // The maximum and the logarithm of the sum of exponentials of each column.
                let mut shifts = [[0f32; 2]; COLUMNS];
                if loss.softmax && inner == 1 {
                    let row = start..start + classes;
                    let shift = row_shift(s, level, &self.scores, row, &mut buffers);
                    shifts[0] = [shift.most, shift.sum.ln()];
                } else if loss.softmax {
                    let matrix = Matrix {
                        start: start + column,
                        rows: classes,
                        inner,
                        count,
                    };
                    matrix.shifts(s, level, &self.scores, &mut buffers);
                    let statistics = buffers.most.iter().zip(&buffers.sums);
                    for (shift, (&most, &sum)) in shifts[..count].iter_mut().zip(statistics) {
                        *shift = [most, sum.ln()];
                    }
                }
                if let Some(logarithms) = &mut self.logarithms {
                    let shape = [classes, inner, count];
                    log_softmax(
                        level,
                        &self.scores,
                        start + column,
                        shape,
                        &shifts,
                        logarithms,
                    );
                }
                for (nth, [most, rest]) in shifts[..count].iter().enumerate() {
                    let position = line * inner + column + nth;
                    let label = self.labels.get(position);
                    let (mut of_position, mut weight) = (0.0, 0.0);
                    if loss.ignored != Some(label) {
                        let class = class(label, classes)?;
                        weight = self
                            .weights
                            .map_or(1.0, |weights| weights.get(class).into());
                        let score = self.scores.get(start + class * inner + column + nth);
                        let logarithm = f64::from(score - most) - f64::from(*rest);
                        of_position = -weight * logarithm;
                    }
                    sum += of_position;
                    weight_sum += weight;
                    if loss.reduction == LossReduction::None {
                        let one = [of_position as f32];
                        self.losses.write(level, position..position + 1, &one);
                    }
                }
            }
        }
        match loss.reduction {
            LossReduction::None => {}
            LossReduction::Sum => self.losses.write(level, 0..1, &[sum as f32]),
            LossReduction::Mean => {
                self.losses.write(level, 0..1, &[(sum / weight_sum) as f32]);
            }
        }
        Ok(())
    }
}

/// Writes the log-softmax of `count` columns of a matrix.
#[inline(always)]
fn log_softmax(
    level: Level,
    scores: &Floats<'_>,
    start: usize,
    [classes, inner, count]: [usize; 3],
    shifts: &[[f32; 2]; COLUMNS],
    to: &mut FloatsMut<'_>,
) {
    let mut buffer = [0f32; 1024];
    let mut results = [0f32; 1024];
    if inner == 1 {
        let [most, rest] = shifts[0];
        for at in (0..classes).step_by(buffer.len()) {
            let range = start + at..start + (at + buffer.len()).min(classes);
            let from = scores.load(level, range.clone(), &mut buffer);
            for (to, &x) in results.iter_mut().zip(from) {
                *to = (x - most) - rest;
            }
            to.write(level, range.clone(), &results[..range.len()]);
        }
        return;
    }
    for class in 0..classes {
        let range = start + class * inner..start + class * inner + count;
        let from = scores.load(level, range.clone(), &mut buffer);
        for ((to, &x), [most, rest]) in results.iter_mut().zip(from).zip(shifts) {
            *to = (x - most) - rest;
        }
        to.write(level, range, &results[..count]);
    }
}

/// The class of a label; negative labels do not count from the end.
fn class(label: i64, classes: usize) -> Result<usize> {
    let class = usize::try_from(label).ok().filter(|&class| class < classes);
    class.ok_or_else(|| {
        Error::new(ErrorKind::OutOfBounds, "a label is not a class")
            .expected(format_args!("0 to {}", classes as i64 - 1))
            .found(label)
    })
}
