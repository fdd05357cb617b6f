//! The memory under tensors.

use crate::host::{DenseHostTensor, HostBuffer, failed};
use tenon_base::Result;
use tenon_executor::{Chain, Host, KernelDef, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_dht.allocate_buffer", allocate)
            .doc("A buffer of so many zero bytes, aligned to 64 bytes whatever the second operand asks for."),
        kernel(
            "tfrt_dht.get_buffer",
            |tensor: &DenseHostTensor, _: Chain| (tensor.buffer().clone(), Chain),
        )
        .doc("The bytes of a tensor, shared with it."),
        kernel(
            "tfrt_dht.get_buffer_slice",
            |buffer: &HostBuffer, offset: i64, size: i64| buffer.slice(offset, size),
        )
        .doc("So many bytes of a buffer from an offset, shared with it."),
        kernel(
            "tfrt_dht.print_buffer",
            |buffer: &HostBuffer, _: Chain, host: &Host| {
                host.print(format_args!("{}\n", *buffer));
                Chain
            },
        )
        .doc("Prints where a buffer lies, and how long it is."),
        kernel(
            "tfrt_dht.get_tensor_shape",
            |tensor: &DenseHostTensor| tensor.shape().clone(),
        )
        .doc("The shape of a tensor."),
    ]
}

fn allocate(size: i64, alignment: i64, host: &Host) -> Result<HostBuffer> {
    let aligned = u64::try_from(alignment).is_ok_and(|a| a.is_power_of_two() && a <= 64);
    let buffer = usize::try_from(size)
        .ok()
        .filter(|_| aligned)
        .and_then(|size| HostBuffer::allocate(host.allocator(), size));
    buffer.ok_or_else(|| failed("Cannot allocate host buffer"))
}
