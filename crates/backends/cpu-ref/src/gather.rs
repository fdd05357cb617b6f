//! Operators that read elements at indices of a tensor.

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, indices, position, sized};
use crate::loop_nest::{AxisExtents, LoopNest, strides};
use crate::number::Index;
use tenon_base::Result;
use tenon_tensor::{Element, Packing};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
];

fn gather(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let extents = AxisExtents::new(shape, node.axis("axis", 0, shape.len())?);
    let dtype = node.dtype(0)?;
    match Packing::of(dtype) {
        Some(packing) if extents.inner.is_multiple_of(packing.per_byte()) => {
            let inner = extents.inner / packing.per_byte();
            gather_rows::<u8>(node, AxisExtents { inner, ..extents })
        }
        Some(packing) => gather_packed(node, extents, packing),
        None => sized!(dtype, 0, T => gather_rows::<T>(node, extents)),
    }
}

fn gather_rows<T: Element>(node: &Node<'_>, extents: AxisExtents) -> Result<Kernel, BuildError> {
    indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (data, at) = (inputs.slice::<T>(0)?, inputs.slice::<I>(1)?);
        let to = outputs.slice::<T>(0)?;
        for_each_row(extents, at, |start, from| {
            to[start..start + extents.inner].copy_from_slice(&data[from..from + extents.inner]);
        })
    })))
}

/// Of elements of less than a byte, whose rows do not begin at whole bytes.
fn gather_packed(
    node: &Node<'_>,
    extents: AxisExtents,
    packing: Packing,
) -> Result<Kernel, BuildError> {
    indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (data, at) = (inputs.slice::<u8>(0)?, inputs.slice::<I>(1)?);
        let to = outputs.slice::<u8>(0)?;
        for_each_row(extents, at, |start, from| {
            for nth in 0..extents.inner {
                packing.set(to, start + nth, packing.code(data, from + nth));
            }
        })
    })))
}

/// Calls `copy` with the first element of each row of the output and of the data.
fn for_each_row<I: Index>(
    extents: AxisExtents,
    at: &[I],
    mut copy: impl FnMut(usize, usize),
) -> Result<()> {
    for above in 0..extents.outer {
        for (nth, index) in at.iter().enumerate() {
            let row = above * extents.extent + position(index.to_i64(), extents.extent)?;
            copy(
                (above * at.len() + nth) * extents.inner,
                row * extents.inner,
            );
        }
    }
    Ok(())
}

fn gather_elements(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let along = node.axis("axis", 0, shape.len())?;
    let extent = shape[along];
    let mut from = strides(shape);
    let step = std::mem::take(&mut from[along]) as usize;
    let nest = LoopNest::new(out, [&strides(out), &from]);
    sized!(node.dtype(0)?, 0, T => indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (data, at) = (inputs.slice::<T>(0)?, inputs.slice::<I>(1)?);
        let to = outputs.slice::<T>(0)?;
        nest.try_for_each(|[out, from]| {
            to[out] = data[from + step * position(at[out].to_i64(), extent)?];
            Ok(())
        })
    }))))
}

fn gather_nd(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, at) = (node.shape(0)?, node.shape(1)?);
    let shared = node
        .attributes
        .int("batch_dims", 0)?
        .clamp(0, shape.len() as i64) as usize;
    let tuple = at.last().copied().unwrap_or(0);
    let extents = shape[shared..shared + tuple].to_vec();
    let inner: usize = shape[shared + tuple..].iter().product();
    let batches: usize = shape[..shared].iter().product();
    let batch: usize = shape[shared..].iter().product();
    let tuples: usize = at[shared..at.len() - 1].iter().product();
    sized!(node.dtype(0)?, 0, T => indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (data, at) = (inputs.slice::<T>(0)?, inputs.slice::<I>(1)?);
        let to = outputs.slice::<T>(0)?;
        for nth in 0..batches * tuples {
            let from = flat_index(&at[nth * tuple..(nth + 1) * tuple], &extents)? * inner;
            let from = nth / tuples * batch + from;
            to[nth * inner..(nth + 1) * inner].copy_from_slice(&data[from..from + inner]);
        }
        Ok(())
    }))))
}

/// The flat index of a tuple of indices in dimensions of these extents.
pub(crate) fn flat_index<I: Index>(tuple: &[I], extents: &[usize]) -> Result<usize> {
    tuple
        .iter()
        .zip(extents)
        .try_fold(0, |flat, (index, &extent)| {
            Ok(flat * extent + position(index.to_i64(), extent)?)
        })
}
