//! Operators that write elements at positions found in data.

use crate::gather::place;
use crate::kernel::{Build, Kernel, Node, Stop, indices, no_value, numbers, position, sized};
use crate::nest::{Along, Nest, strides};
use crate::number::{Index, Number, Wide};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, Build)] = &[
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
];

/// What becomes of an element and its update.
type Combine<T> = fn(T, T) -> T;

fn combine<T: Number>(reduction: &str) -> Result<Combine<T>, Stop> {
    Ok(match reduction {
        "add" => |a, b| T::narrow(a.wide().plus(b.wide())),
        "mul" => |a, b| T::narrow(a.wide().times(b.wide())),
        "min" => |a, b| T::narrow(a.wide().least(b.wide())),
        "max" => |a, b| T::narrow(a.wide().greatest(b.wide())),
        other => return Err(no_value("reduction", other)),
    })
}

/// Runs `$body` with `$T` and `$combine`: elements of the same size when updates replace, numbers
/// when they are combined.
macro_rules! combined {
    ($node:expr, $T:ident, $combine:ident => $body:expr) => {{
        let dtype = $node.dtype(0)?;
        match $node.attributes.string("reduction", "none")? {
            "none" => sized!(dtype, 0, $T => {
                let $combine: Combine<$T> = |_, update| update;
                $body
            }),
            // Truth values are numbers 0 and 1: addition is or, which max is too.
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
            reduction => numbers!(dtype, 0, $T => {
                let $combine = combine::<$T>(reduction)?;
                $body
            }),
        }
    }};
}

fn scatter_elements(node: &Node<'_>) -> Result<Kernel, Stop> {
    fn kernel<T: Element, I: Index>(
        nest: Nest<2>,
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
    let nest = Nest::new(at, [&strides(at), &to]);
    combined!(node, T, combine => {
        indices!(node.dtype(1)?, 1, I => Ok(kernel::<T, I>(nest, step, combine)))
    })
}

fn scatter_nd(node: &Node<'_>) -> Result<Kernel, Stop> {
    fn kernel<T: Element, I: Index>(
        named: Vec<usize>,
        inner: usize,
        tuples: usize,
        combine: Combine<T>,
    ) -> Kernel {
        Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let (at, updates) = (inputs.slice::<I>(1)?, inputs.slice::<T>(2)?);
            let to = outputs.slice::<T>(0)?;
            to.copy_from_slice(inputs.slice::<T>(0)?);
            let tuple = named.len();
            for nth in 0..tuples {
                let start = place(&at[nth * tuple..(nth + 1) * tuple], &named)? * inner;
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
    let named = shape[..tuple].to_vec();
    let inner = shape[tuple..].iter().product();
    let tuples = at[..at.len() - 1].iter().product();
    combined!(node, T, combine => {
        indices!(node.dtype(1)?, 1, I => Ok(kernel::<T, I>(named, inner, tuples, combine)))
    })
}

/// `update` is written into the cache of each batch element from its write index on.
fn tensor_scatter(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (cache, update) = (node.shape(0)?, node.shape(1)?);
    let along = node.axis("axis", -2, cache.len())?;
    let circular = node.attributes.string("mode", "linear")? == "circular";
    let Along {
        outer,
        extent,
        inner,
    } = Along::new(cache, along);
    let steps = update[along];
    let rows_a_batch = outer.checked_div(cache[0]).unwrap_or(1).max(1);
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let update = inputs.slice::<T>(1)?;
        let starts = inputs.optional::<i64>(2)?;
        let to = outputs.slice::<T>(0)?;
        to.copy_from_slice(inputs.slice::<T>(0)?);
        for row in 0..outer {
            let start = starts.and_then(|starts| starts.get(row / rows_a_batch)).map_or(0, |&at| at);
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
