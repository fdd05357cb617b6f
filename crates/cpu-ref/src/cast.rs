//! Conversions between element types.

use crate::elements::{Elements, ElementsMut, known};
use crate::kernel::{Build, Kernel, Node, Stop, no_type, other};
use tenon_base::Result;

pub(crate) static KERNELS: &[(&str, Build)] = &[("Cast", cast), ("CastLike", cast)];

fn cast(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (from, to) = (node.dtype(0)?, node.output(0)?.dtype());
    let count = node.output(0)?.elements();
    if !known(from) {
        return Err(no_type(0, from));
    }
    if !known(to) {
        return Err(other(format!("no conversion to type {to}")));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = Elements::new(&inputs, 0, from)?;
        let mut to = ElementsMut::new(&mut outputs, 0, to)?;
        (0..count).for_each(|at| to.set(at, from.value(at)));
        Ok(())
    }))
}
