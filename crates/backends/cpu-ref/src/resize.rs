//! Resizing of tensors by separable interpolation, one axis at a time.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, numeric, scratch, sized, unsupported_value,
};
use crate::loop_nest::{AxisExtents, AxisMaps};
use crate::number::Number;
use tenon_base::{Result, stop};
use tenon_graph::geometry::{AxisWeights, Interpolation, resize_axes};
use tenon_tensor::{DataType, TensorType};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("Resize", resize)];

/// The resize of one axis.
struct ResizePass {
    outer: usize,
    input: usize,
    inner: usize,
    weights: AxisWeights,
}

impl ResizePass {
    fn run(&self, to: &mut [f64], from: &[f64], extrapolation: f64) {
        let ResizePass {
            outer,
            input,
            inner,
            ref weights,
        } = *self;
        for row in 0..outer {
            for (at, weights) in weights.iter().enumerate() {
                stop::checkpoint();
                let to = &mut to[(row * self.weights.len() + at) * inner..][..inner];
                if weights.is_empty() {
                    to.fill(extrapolation);
                    continue;
                }
                to.fill(0.0);
                for &(source, weight) in weights {
                    let from = &from[(row * input + source) * inner..][..inner];
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, from)| *to += weight * from);
                }
            }
        }
    }
}

fn resize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let axes = resize_axes(&node.inference())?;
    let rules = Interpolation::new(node.attributes)?;
    let weights: Vec<AxisWeights> = axes
        .iter()
        .zip(&**shape)
        .map(|(axis, &n)| rules.axis(axis, n))
        .collect::<Result<_>>()?;
    if rules.is_nearest()
        && weights
            .iter()
            .flat_map(AxisWeights::iter)
            .all(|weights| !weights.is_empty())
    {
        // Elements move unchanged.
        let maps = AxisMaps::new(shape, out, |axis, at| {
            weights[axis].of(at).first().map_or(0, |&(at, _)| at)
        })?;
        return sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            maps.copy(outputs.slice::<T>(0)?, inputs.slice::<T>(0)?);
            Ok(())
        })));
    }
    let (passes, capacity) = passes(shape, weights)?;
    match node.dtype(0)? {
        DataType::Bool => Err(unsupported_value(
            "mode",
            "linear or cubic of bool elements",
        )),
        dtype => numeric!(dtype, 0, T => interpolation::<T>(passes, capacity, rules.extrapolation)),
    }
}

/// The passes over the axes that change, the last axis first, and the most elements between two passes.
fn passes(shape: &[usize], weights: Vec<AxisWeights>) -> Result<(Vec<ResizePass>, usize)> {
    let mut now = shape.to_vec();
    let mut capacity = elements(&now)?;
    let mut passes = Vec::new();
    for (axis, weights) in weights.into_iter().enumerate().rev() {
        if weights.is_identity(now[axis]) {
            continue;
        }
        let AxisExtents {
            outer,
            extent,
            inner,
        } = AxisExtents::new(&now, axis);
        now[axis] = weights.len();
        capacity = capacity.max(elements(&now)?);
        passes.push(ResizePass {
            outer,
            input: extent,
            inner,
            weights,
        });
    }
    Ok((passes, capacity))
}

/// The number of elements between two passes, in f64.
fn elements(shape: &[usize]) -> Result<usize> {
    TensorType::new(DataType::F64, shape).map(|ty| ty.elements())
}

fn interpolation<T: Number>(
    passes: Vec<ResizePass>,
    capacity: usize,
    extrapolation: f64,
) -> Result<Kernel, BuildError> {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let (mut now, mut next) =
            scratch::<f64>(&mut outputs, 2 * capacity)?.split_at_mut(capacity);
        now.iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to = from.to_f64());
        for pass in &passes {
            pass.run(next, now, extrapolation);
            std::mem::swap(&mut now, &mut next);
        }
        to.iter_mut()
            .zip(now)
            .for_each(|(to, from)| *to = T::of_f64(*from));
        Ok(())
    })
    .with_scratch(2 * capacity)
}
