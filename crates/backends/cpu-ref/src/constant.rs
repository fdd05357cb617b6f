//! Operators whose result depends only on shapes and constants.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, invalid, numeric, sized, unsupported_type,
};
use crate::number::{Number, WidenedArithmetic};
use std::f64::consts::TAU;
use tenon_base::Result;
use tenon_graph::Attribute;
use tenon_tensor::{DataType, Tensor};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Range", range),
    ("Shape", shape),
    ("Size", size),
    ("EyeLike", eye_like),
    ("HannWindow", |node| window(node, [0.5, 0.5, 0.0])),
    ("HammingWindow", |node| {
        window(node, [25.0 / 46.0, 1.0 - 25.0 / 46.0, 0.0])
    }),
    ("BlackmanWindow", |node| window(node, [0.42, 0.5, 0.08])),
];

/// A kernel that copies a tensor that is known when building it.
fn constant_kernel(tensor: Tensor) -> Kernel {
    Kernel::new(move |operands| {
        operands
            .split()
            .1
            .slice::<u8>(0)?
            .copy_from_slice(tensor.bytes());
        Ok(())
    })
}

fn constant(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (_, value) = node
        .attributes
        .iter()
        .next()
        .ok_or_else(|| invalid("a constant requires a value"))?;
    Ok(constant_kernel(match value {
        Attribute::Tensor(tensor) => tensor.clone(),
        Attribute::Float(value) => Tensor::scalar(*value)?,
        Attribute::Floats(values) => Tensor::from_slice([values.len()], values)?,
        Attribute::Int(value) => Tensor::scalar(*value)?,
        Attribute::Ints(values) => Tensor::from_slice([values.len()], values)?,
        Attribute::String(_) | Attribute::Strings(_) => {
            return Err(unsupported_type(0, DataType::String));
        }
    }))
}

fn constant_of_shape(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let value = match node.attributes.tensor("value")? {
        Some(tensor) => tensor.clone(),
        None => Tensor::scalar(0f32)?,
    };
    sized!(value.dtype(), 0, T => Ok(Kernel::new(move |operands| {
        let element = value.buffer().as_slice::<T>().and_then(|all| all.first().copied());
        operands.split().1.slice::<T>(0)?.fill(element.unwrap_or(0));
        Ok(())
    })))
}

fn range(node: &Node<'_>) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(|operands| {
        let (inputs, mut outputs) = operands.split();
        let first = |index| -> Result<<T as Number>::Widened> {
            let value = inputs.slice::<T>(index)?.first().copied().unwrap_or_default();
            Ok(value.widen())
        };
        let (start, delta) = (first(0)?, first(2)?);
        for (at, to) in outputs.slice::<T>(0)?.iter_mut().enumerate() {
            *to = T::narrow(start.plus(delta.times(WidenedArithmetic::from_real(at as f64))));
        }
        Ok(())
    })))
}

fn shape(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let rank = shape.len() as i64;
    let bound =
        |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let start = bound(node.attributes.int("start", 0)?);
    let end = bound(node.attributes.int("end", rank)?).max(start);
    let dims: Vec<i64> = shape[start..end].iter().map(|&dim| dim as i64).collect();
    Ok(constant_kernel(Tensor::from_slice([dims.len()], &dims)?))
}

fn size(node: &Node<'_>) -> Result<Kernel, BuildError> {
    Ok(constant_kernel(Tensor::scalar(
        node.shape(0)?.elements() as i64
    )?))
}

fn eye_like(node: &Node<'_>) -> Result<Kernel, BuildError> {
    fn fill<T: Number>(columns: usize, diagonal: i64) -> Kernel {
        Kernel::new(move |operands| {
            let to = operands.split().1.slice::<T>(0)?;
            to.fill(T::default());
            for (row, to) in to.chunks_exact_mut(columns.max(1)).enumerate() {
                let column = diagonal.checked_add_unsigned(row as u64);
                let column = column.and_then(|column| usize::try_from(column).ok());
                if let Some(to) = column.and_then(|column| to.get_mut(column)) {
                    *to = T::of_f64(1.0);
                }
            }
            Ok(())
        })
    }
    let (columns, diagonal) = (node.output(0)?.shape()[1], node.attributes.int("k", 0)?);
    match node.output(0)?.dtype() {
        DataType::Bool => Ok(fill::<u8>(columns, diagonal)),
        dtype => numeric!(dtype, 0, T => Ok(fill::<T>(columns, diagonal))),
    }
}

/// a - b cos(2 pi n / N) + c cos(4 pi n / N).
fn window(node: &Node<'_>, [a, b, c]: [f64; 3]) -> Result<Kernel, BuildError> {
    let size = node.output(0)?.elements();
    let periodic = node.attributes.flag("periodic", true)?;
    let period = if periodic {
        size
    } else {
        size.saturating_sub(1)
    }
    .max(1) as f64;
    numeric!(node.output(0)?.dtype(), 0, T => Ok(Kernel::new(move |operands| {
        for (at, to) in operands.split().1.slice::<T>(0)?.iter_mut().enumerate() {
            let angle = TAU * at as f64 / period;
            *to = T::of_f64(a - b * angle.cos() + c * (2.0 * angle).cos());
        }
        Ok(())
    })))
}
