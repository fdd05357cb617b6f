//! Printing tensors of every kind.

use super::TENSOR;
use crate::host::{CooHostTensor, DenseHostTensor, StringHostTensor, failed};
use std::fmt;
use tenon_base::Result;
use tenon_executor::{Binder, Chain, Frame, Host, KernelDef, Parameter, Signature, kernel};

/// A tensor of any kind, to be printed.
struct Tensor<'a>(&'a dyn fmt::Display);

impl Parameter for Tensor<'_> {
    type Item<'a> = Tensor<'a>;
    type Binding = ();

    fn declare(signature: &mut Signature) {
        signature.operands.push(TENSOR);
    }

    fn bind(_: &mut Binder<'_, '_>) -> Result<()> {
        Ok(())
    }

    fn take<'a>(_: &'a (), frame: &'a Frame<'_>, next: &mut usize) -> Result<Tensor<'a>> {
        let value = frame.operand(*next);
        *next += 1;
        if let Some(tensor) = value.downcast::<DenseHostTensor>() {
            return Ok(Tensor(tensor));
        }
        if let Some(tensor) = value.downcast::<StringHostTensor>() {
            return Ok(Tensor(tensor));
        }
        if let Some(tensor) = value.downcast::<CooHostTensor>() {
            return Ok(Tensor(tensor));
        }
        Err(failed("the operand is not a tensor").found(format_args!("{value:?}")))
    }
}

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel(
            "tfrt_dht.print_tensor",
            |tensor: Tensor<'_>, _: Chain, host: &Host| {
                host.print(format_args!("{}\n", tensor.0));
                Chain
            },
        )
        .doc("Prints a tensor: its type, shape and first 16 values."),
        kernel(
            "tfrt_dht.print_tensor_shape",
            |tensor: &DenseHostTensor, _: Chain, host: &Host| {
                host.print(format_args!("{}\n", tensor.shape()));
                Chain
            },
        )
        .doc("Prints the shape of a tensor."),
    ]
}
