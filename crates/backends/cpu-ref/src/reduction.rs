//! Reductions of dimensions to one element each.

use crate::elementary::exp;
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, axis, numeric};
use crate::lanes::{Fold, Lanes, MAXIMUM, SUM, fold};
use crate::number::{Number, WidenedArithmetic};
use tenon_base::{Result, vectorized};
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("ReduceSum", |node| reduce(node, Reduction::Sum)),
    ("ReduceMean", |node| reduce(node, Reduction::Mean)),
    ("ReduceMax", |node| reduce(node, Reduction::Max)),
    ("ReduceMin", |node| reduce(node, Reduction::Min)),
    ("ReduceProd", |node| reduce(node, Reduction::Prod)),
    ("ReduceL1", |node| reduce(node, Reduction::L1)),
    ("ReduceL2", |node| reduce(node, Reduction::L2)),
    ("ReduceSumSquare", |node| reduce(node, Reduction::SumSquare)),
    ("ReduceLogSum", |node| reduce(node, Reduction::LogSum)),
    ("ReduceLogSumExp", |node| reduce(node, Reduction::LogSumExp)),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

impl Reduction {
    /// `start` of a maximum and of a minimum are the least and the greatest value of the type.
    fn fold<W: WidenedArithmetic>(self, [lowest, highest]: [W; 2]) -> Fold<W> {
        match self {
            Reduction::Max => fold!(lowest, |a, b| a.nan_max(b), |total, x| total.nan_max(x)),
            Reduction::Min => fold!(highest, |a, b| a.nan_min(b), |total, x| total.nan_min(x)),
            Reduction::Prod => fold!(W::ONE, |a, b| a.times(b), |total, x| total.times(x)),
            Reduction::L1 => fold!(W::ZERO, |a, b| a.plus(b), |total, x| total
                .plus(x.absolute())),
            Reduction::L2 | Reduction::SumSquare => {
                fold!(W::ZERO, |a, b| a.plus(b), |total, x| total.plus(x.times(x)))
            }
            _ => fold!(W::ZERO, |a, b| a.plus(b), |total, x| total.plus(x)),
        }
    }

    /// The result from the total of `count` elements.
    fn finish<W: WidenedArithmetic>(self) -> fn(W, usize) -> W {
        match self {
            Reduction::Mean => |all, count| all.divided_by(W::from_real(count as f64)),
            Reduction::L2 => |all, _| W::from_real(all.real().sqrt()),
            Reduction::LogSum => |all, _| W::from_real(all.real().ln()),
            _ => |all, _| all,
        }
    }
}

/// Without axes all dimensions are reduced, or none with `noop_with_empty_axes`.
fn lanes(node: &Node<'_>) -> Result<Lanes, BuildError> {
    let shape = node.shape(0)?;
    let axes = node.ints(1)?.unwrap_or_default();
    if axes.is_empty() {
        let all = !node.attributes.flag("noop_with_empty_axes", false)?;
        return Ok(Lanes::new(shape, |_| all));
    }
    let axes: Vec<usize> = axes
        .iter()
        .map(|&at| axis(at, shape.len()))
        .collect::<Result<_>>()?;
    Ok(Lanes::new(shape, |axis| axes.contains(&axis)))
}

fn reduce(node: &Node<'_>, reduction: Reduction) -> Result<Kernel, BuildError> {
    let lanes = lanes(node)?;
    match node.dtype(0)? {
        DataType::Bool => Ok(kernel::<u8>(lanes, reduction, [0, 1])),
        dtype => numeric!(dtype, 0, T => Ok(match reduction {
            Reduction::LogSumExp => log_sum_exp::<T>(lanes),
            _ => kernel::<T>(lanes, reduction, [T::LOWEST, T::HIGHEST]),
        })),
    }
}

fn kernel<T: Number>(lanes: Lanes, reduction: Reduction, bounds: [T; 2]) -> Kernel {
    let fold = reduction.fold(bounds.map(T::widen));
    let finish = reduction.finish::<T::Widened>();
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.fold(from, to, fold, |total| T::narrow(finish(total, lanes.len)));
        Ok(())
    })
}

/// Log-sum-exp: the maximum is subtracted first, so that no exponential overflows.
fn log_sum_exp<T: Number>(lanes: Lanes) -> Kernel {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let max = lanes.fold_reals(from, start, MAXIMUM, |_| {});
            let shift = if max.is_finite() { max } else { 0.0 };
            let sum = lanes.fold_reals(from, start, SUM, |values| {
                vectorized!(for x in values.iter_mut() {
                    *x = exp(*x - shift);
                });
            });
            to[out] = T::of_f64(sum.ln() + shift);
        });
        Ok(())
    })
}
