//! Creation and initialisation of dense tensors.

use crate::host::{
    DenseHostTensor, Element, Elements, HostBuffer, HostElement, TensorShape, failed,
};
use std::sync::Arc;
use tenon_base::Result;
use tenon_executor::{
    Attr, BF16, Chain, Complex64, Complex128, F16, Host, KernelDef, RestOperands, kernel,
};

macro_rules! creating {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            creating!(rank $name $type, 0),
            creating!(rank $name $type, 1),
            creating!(rank $name $type, 2),
            creating!(rank $name $type, 3),
            creating!(rank $name $type, 4),
            creating!(rank $name $type, 5),
            kernel(
                concat!("tfrt_dht.fill_tensor_with_constant.", $name),
                |tensor: &DenseHostTensor, _: Chain, value: Attr<Element<$type>>| -> Result<Chain> {
                    tensor.fill(value.0.0)?;
                    Ok(Chain)
                },
            )
            .doc("Sets all elements to the attribute `value`."),
            kernel(
                concat!("tfrt_dht.set_tensor_with_constant_values.", $name),
                |tensor: &DenseHostTensor, _: Chain, values: Attr<Elements<$type>>| -> Result<Chain> {
                    tensor.set(&values.0.0)?;
                    Ok(Chain)
                },
            )
            .doc("Sets the elements to those of the attribute `values`; complex ones by their parts."),
            kernel(
                concat!("tfrt_dht.make_tensor.", $name),
                |buffer: &HostBuffer, shape: &TensorShape, _: Chain| {
                    let kernel = "dht.make_tensor";
                    DenseHostTensor::over::<$type>(buffer.clone(), shape.clone(), kernel)
                        .map(|tensor| (tensor, Chain))
                },
            )
            .doc("A tensor over a buffer, which must have exactly its size."),
        )*]
    };
    (rank $name:literal $type:ty, $rank:literal) => {
        kernel(
            concat!("tfrt_dht.create_uninitialized_tensor.", $name, ".", $rank),
            |shape: Attr<Arc<[i64]>>, host: &Host| create::<$type>(host, &shape.0, $rank),
        )
        .doc("A tensor of the attribute `shape`; its elements are 0.")
    };
}

fn create<T: HostElement>(host: &Host, shape: &[i64], rank: usize) -> Result<DenseHostTensor> {
    if shape.len() != rank {
        return Err(failed("the shape has the wrong rank")
            .expected(rank)
            .found(shape.len()));
    }
    DenseHostTensor::allocate::<T>(host.allocator(), TensorShape::new(shape)?)
}

macro_rules! setting {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            kernel(
                concat!("tfrt_dht.set_tensor_with_values.", $name),
                |tensor: &DenseHostTensor, _: Chain, values: RestOperands<'_>| -> Result<Chain> {
                    let values: Option<Vec<$type>> = values.iter().map(|value| value.read()).collect();
                    let wrong = || failed("a value does not have the tensor's type").expected($name);
                    tensor.set(&values.ok_or_else(wrong)?)?;
                    Ok(Chain)
                },
            )
            .doc("Sets the elements to the operands behind the chain."),
        )*]
    };
}

pub(super) fn kernels() -> Vec<KernelDef> {
    let mut kernels = creating! {
        "ui8" u8, "ui32" u32, "ui64" u64, "i8" i8, "i32" i32, "i64" i64, "f32" f32, "f64" f64,
        "bool" bool, "complex64" Complex64, "complex128" Complex128, "f16" F16, "bf16" BF16,
    };
    kernels.extend(setting! {
        "ui8" u8, "ui32" u32, "ui64" u64, "i8" i8, "i32" i32, "i64" i64, "f32" f32, "f64" f64,
        "bool" bool,
    });
    kernels
}
