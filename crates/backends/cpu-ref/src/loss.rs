//! Losses: negative log-likelihood and cross-entropy.

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, floats, indices, unsupported_value};
use crate::loop_nest::AxisExtents;
use crate::number::{Index, Number};
use tenon_base::{Error, ErrorKind, Result};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("NegativeLogLikelihoodLoss", |node| loss(node, false)),
    ("SoftmaxCrossEntropyLoss", |node| loss(node, true)),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

/// Computed in f64. With `softmax`, the loss is of the log-softmax of the scores, which is output 1.
fn loss(node: &Node<'_>, softmax: bool) -> Result<Kernel, BuildError> {
    let AxisExtents {
        outer,
        extent: classes,
        inner,
    } = AxisExtents::new(node.shape(0)?, 1);
    let reduction = match node.attributes.string("reduction", "mean")? {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        found => return Err(unsupported_value("reduction", found)),
    };
    let ignored = match node.attributes.value("ignore_index") {
        Some(_) => Some(node.attributes.int("ignore_index", 0)?),
        None => None,
    };
    floats!(node.dtype(0)?, 0, T => indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (scores, labels) = (inputs.slice::<T>(0)?, inputs.slice::<I>(1)?);
        let weights = inputs.optional::<T>(2)?;
        let to = outputs.slice::<T>(0)?;
        let mut logarithms = if softmax { outputs.optional::<T>(1)? } else { None };
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for (at, label) in (0..outer * inner).zip(labels) {
            let index = |class: usize| (at / inner * classes + class) * inner + at % inner;
            let score = |class: usize| scores[index(class)].to_f64();
            let shift = if softmax { log_sum(classes, score) } else { 0.0 };
            if let Some(logarithms) = &mut logarithms {
                for class in 0..classes {
                    logarithms[index(class)] = T::of_f64(score(class) - shift);
                }
            }
            let label = label.to_i64();
            let (mut loss, mut weight) = (0.0, 0.0);
            if ignored != Some(label) {
                let class = class(label, classes)?;
                weight = weights.map_or(1.0, |weights| weights[class].to_f64());
                loss = weight * (shift - score(class));
            }
            sum += loss;
            weight_sum += weight;
            if reduction == Reduction::None {
                to[at] = T::of_f64(loss);
            }
        }
        match reduction {
            Reduction::None => {}
            Reduction::Sum => to.fill(T::of_f64(sum)),
            Reduction::Mean => to.fill(T::of_f64(sum / weight_sum)),
        }
        Ok(())
    }))))
}

/// The logarithm of the sum of the scores' exponentials.
fn log_sum(classes: usize, score: impl Fn(usize) -> f64) -> f64 {
    let greatest = (0..classes).map(&score).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = (0..classes)
        .map(|class| (score(class) - greatest).exp())
        .sum();
    greatest + sum.ln()
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
