//! Losses: negative log-likelihood, and cross-entropy of the softmax of scores.

use super::axis_extents::AxisExtents;
use super::blocks::{Buffers, blocks};
use super::softmax::{ColumnShifts, Matrix, RowShift, log_softmax_of_columns, log_softmax_of_row};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::Signature;
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
    let float = FloatType::of_input(scores.dtype(), 0)?;
    signature.output(0)?;
    let extents = AxisExtents::new(scores.shape(), 1);
    let softmax = signature.op.name == "SoftmaxCrossEntropyLoss";
    let reduction = match signature.string("reduction", "mean")? {
        "none" => LossReduction::None,
        "sum" => LossReduction::Sum,
        _ => LossReduction::Mean,
    };
    let ignored = if signature.has("ignore_index") {
        Some(signature.int("ignore_index", 0)?)
    } else {
        None
    };
    Ok(Box::new(Loss {
        level: signature.level,
        extents,
        float,
        label_type: signature.input(1)?.dtype(),
        softmax,
        weighted: signature.optional(2).is_some(),
        logarithms: signature.has_output(1),
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
        // The maximum and the logarithm of the sum of exponentials of each column; 0 without a softmax.
        let mut shifts = ColumnShifts::new();
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for line in 0..outer {
            let start = line * classes * inner;
            for column in (0..inner).step_by(COLUMNS) {
                stop::checkpoint();
                let count = (inner - column).min(COLUMNS);
                if loss.softmax && inner == 1 {
                    let row = start..start + classes;
                    let shift = RowShift::of(s, level, &self.scores, row, &mut buffers.from);
                    (shifts.maxima[0], shifts.sums[0]) = (shift.maximum, shift.sum.ln());
                } else if loss.softmax {
                    let matrix = Matrix {
                        start: start + column,
                        rows: classes,
                        inner,
                        count,
                    };
                    matrix.shifts(s, level, &self.scores, &mut buffers.from, &mut shifts);
                    for sum in &mut shifts.sums[..count] {
                        *sum = sum.ln();
                    }
                }
                let (maxima, logarithms) = (&shifts.maxima[..count], &shifts.sums[..count]);
                if let Some(to) = &mut self.logarithms {
                    let scores = (&self.scores, start + column);
                    let shape = [classes, inner];
                    log_softmax(level, scores, shape, [maxima, logarithms], &mut buffers, to);
                }
                for (nth, (maximum, rest)) in maxima.iter().zip(logarithms).enumerate() {
                    let position = line * inner + column + nth;
                    let label = self.labels.get(position);
                    let (mut of_position, mut weight) = (0.0, 0.0);
                    if loss.ignored != Some(label) {
                        let class = class(label, classes)?;
                        weight = self
                            .weights
                            .map_or(1.0, |weights| weights.get(class).into());
                        let score = self.scores.get(start + class * inner + column + nth);
                        let logarithm = f64::from(score - maximum) - f64::from(*rest);
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

/// Writes the log-softmax of some columns of a matrix from `start` on, with their maxima and logarithms of
/// sums.
#[inline(always)]
fn log_softmax(
    level: Level,
    (scores, start): (&Floats<'_>, usize),
    [classes, inner]: [usize; 2],
    [maxima, logarithms]: [&[f32]; 2],
    buffers: &mut Buffers,
    to: &mut FloatsMut<'_>,
) {
    let Buffers { from, to: results } = buffers;
    if inner == 1 {
        for block in blocks(start..start + classes) {
            let results = &mut results[..block.len()];
            let from = scores.load(level, block.clone(), from);
            log_softmax_of_row(from, maxima[0], logarithms[0], results);
            to.write(level, block, results);
        }
        return;
    }
    let results = &mut results[..maxima.len()];
    for class in 0..classes {
        let row = start + class * inner..start + class * inner + maxima.len();
        let from = scores.load(level, row.clone(), from);
        log_softmax_of_columns(from, maxima, logarithms, results);
        to.write(level, row, results);
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
