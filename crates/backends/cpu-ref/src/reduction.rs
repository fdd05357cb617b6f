//! Reductions of dimensions to one element each.

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, axis, numeric};
use crate::loop_nest::Lanes;
use crate::number::{Number, WidenedArithmetic};
use tenon_base::Result;
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
    /// Adds an element to the accumulator.
    fn step<W: WidenedArithmetic>(self) -> fn(W, W) -> W {
        match self {
            Reduction::Max => W::nan_max,
            Reduction::Min => W::nan_min,
            Reduction::Prod => W::times,
            Reduction::L1 => |all, x| all.plus(x.absolute()),
            Reduction::L2 | Reduction::SumSquare => |all, x| all.plus(x.times(x)),
            _ => W::plus,
        }
    }

    /// The result from the accumulator of `count` elements.
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

fn kernel<T: Number>(lanes: Lanes, reduction: Reduction, [lowest, highest]: [T; 2]) -> Kernel {
    let (step, finish) = (
        reduction.step::<T::Widened>(),
        reduction.finish::<T::Widened>(),
    );
    let start = match reduction {
        Reduction::Max => lowest.widen(),
        Reduction::Min => highest.widen(),
        Reduction::Prod => WidenedArithmetic::ONE,
        _ => WidenedArithmetic::ZERO,
    };
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start_at]| {
            let mut all = start;
            lanes
                .lane
                .for_each(|[at]| all = step(all, from[start_at + at].widen()));
            to[out] = T::narrow(finish(all, lanes.len));
        });
        Ok(())
    })
}

/// Log-sum-exp: the maximum is subtracted first, so that no exponential overflows.
fn log_sum_exp<T: Number>(lanes: Lanes) -> Kernel {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let mut max = f64::NEG_INFINITY;
            lanes
                .lane
                .for_each(|[at]| max = max.nan_max(from[start + at].to_f64()));
            let shift = if max.is_finite() { max } else { 0.0 };
            let mut sum = 0.0;
            lanes
                .lane
                .for_each(|[at]| sum += (from[start + at].to_f64() - shift).exp());
            to[out] = T::from_f64(sum.ln() + shift);
        });
        Ok(())
    })
}
