//! Operators that write elements at indices of a tensor.

use crate::gather::flat_index;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, indices, numeric, position, sized, unsupported_value,
};
use crate::loop_nest::{AxisExtents, LoopNest, strides};
use crate::number::{Index, Number, WidenedArithmetic};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
];

/// The combination of an element and its update.
type Combine<T> = fn(T, T) -> T;

fn combine<T: Number>(reduction: &str) -> Result<Combine<T>, BuildError> {
    Ok(match reduction {
        "add" => |a, b| T::narrow(a.widen().plus(b.widen())),
        "mul" => |a, b| T::narrow(a.widen().times(b.widen())),
        "min" => |a, b| T::narrow(a.widen().nan_min(b.widen())),
        "max" => |a, b| T::narrow(a.widen().nan_max(b.widen())),
        other => return Err(unsupported_value("reduction", other)),
    })
}

/// Evaluates `$body` with `$T` and `$combine`: an integer of the element's size when updates replace, the
/// numeric type when they are combined.
macro_rules! combined {
    ($node:expr, $T:ident, $combine:ident => $body:expr) => {{
        let dtype = $node.dtype(0)?;
        match $node.attributes.string("reduction", "none")? {
            "none" => sized!(dtype, 0, $T => {
                let $combine: Combine<$T> = |_, update| update;
                $body
            }),
            // A bool is 0 or 1: addition is or, which is max.
            "add" | "max" if dtype == DataType::Bool => {
                type $T = u8;
                let $combine = combine::<u8>("max")?;
                $body
            }
            "mul" | "min" if dtype == DataType::Bool => {
                type $T = u8;
                let $combine = combine::<u8>("min")?;
                $body
            }
            reduction => numeric!(dtype, 0, $T => {
                let $combine = combine::<$T>(reduction)?;
                $body
            }),
        }
    }};
}

fn scatter_elements(node: &Node<'_>) -> Result<Kernel, BuildError> {
    fn kernel<T: Element, I: Index>(
        nest: LoopNest<2>,
        (extent, step): (usize, usize),
        combine: Combine<T>,
    ) -> Kernel {
        Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let (at, updates) = (inputs.slice::<I>(1)?, inputs.slice::<T>(2)?);
            let to = outputs.slice::<T>(0)?;
            to.copy_from_slice(inputs.slice::<T>(0)?);
            nest.try_for_each(|[nth, start]| {
                let to = &mut to[start + step * position(at[nth].to_i64(), extent)?];
                *to = combine(*to, updates[nth]);
                Ok(())
            })
        })
    }
    let (shape, at) = (node.shape(0)?, node.shape(1)?);
    let along = node.axis("axis", 0, shape.len())?;
    let mut to = strides(shape);
    let step = (shape[along], std::mem::take(&mut to[along]) as usize);
    let nest = LoopNest::new(at, [&strides(at), &to]);
    combined!(node, T, combine => {
        indices!(node.dtype(1)?, 1, I => Ok(kernel::<T, I>(nest, step, combine)))
    })
}

fn scatter_nd(node: &Node<'_>) -> Result<Kernel, BuildError> {
    fn kernel<T: Element, I: Index>(
        extents: Vec<usize>,
        inner: usize,
        tuples: usize,
        combine: Combine<T>,
    ) -> Kernel {
        Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let (at, updates) = (inputs.slice::<I>(1)?, inputs.slice::<T>(2)?);
            let to = outputs.slice::<T>(0)?;
            to.copy_from_slice(inputs.slice::<T>(0)?);
            let tuple = extents.len();
            for nth in 0..tuples {
                let start = flat_index(&at[nth * tuple..(nth + 1) * tuple], &extents)? * inner;
                let updates = &updates[nth * inner..(nth + 1) * inner];
                for (to, &update) in to[start..start + inner].iter_mut().zip(updates) {
                    *to = combine(*to, update);
                }
            }
            Ok(())
        })
    }
    let (shape, at) = (node.shape(0)?, node.shape(1)?);
    let tuple = at.last().copied().unwrap_or(0);
    let extents = shape[..tuple].to_vec();
    let inner = shape[tuple..].iter().product();
    let tuples = at[..at.len() - 1].iter().product();
    combined!(node, T, combine => {
        indices!(node.dtype(1)?, 1, I => Ok(kernel::<T, I>(extents, inner, tuples, combine)))
    })
}

/// Writes `update` into the cache of each batch element from its write index on.
fn tensor_scatter(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (cache, update) = (node.shape(0)?, node.shape(1)?);
    let along = node.axis("axis", -2, cache.len())?;
    let circular = node.attributes.string("mode", "linear")? == "circular";
    let AxisExtents {
        outer,
        extent,
        inner,
    } = AxisExtents::new(cache, along);
    let steps = update[along];
    let rows_per_batch = outer.checked_div(cache[0]).unwrap_or(1).max(1);
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let update = inputs.slice::<T>(1)?;
        let starts = inputs.optional::<i64>(2)?;
        let to = outputs.slice::<T>(0)?;
        to.copy_from_slice(inputs.slice::<T>(0)?);
        for row in 0..outer {
            let start = starts.and_then(|starts| starts.get(row / rows_per_batch)).map_or(0, |&at| at);
            for step in 0..steps {
                let at = start.saturating_add_unsigned(step as u64);
                let at = if circular { at.rem_euclid(extent.max(1) as i64) } else { at };
                let at = (row * extent + position(at, extent)?) * inner;
                let from = (row * steps + step) * inner;
                to[at..at + inner].copy_from_slice(&update[from..from + inner]);
            }
        }
        Ok(())
    })))
}
