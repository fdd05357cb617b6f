//! Kernels of buffers.

use crate::host::{DenseHostTensor, HostBuffer, failed};
use tenon_base::Result;
use tenon_executor::{Chain, Host, KernelDef, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_dht.allocate_buffer", allocate)
            .doc("A buffer of the given number of zero bytes, aligned to 64 bytes; the second operand may be any power of two up to 64."),
        kernel(
            "tfrt_dht.get_buffer",
            |tensor: &DenseHostTensor, _: Chain| (tensor.buffer().clone(), Chain),
        )
        .doc("The bytes of a tensor, shared with it."),
        kernel(
            "tfrt_dht.get_buffer_slice",
            |buffer: &HostBuffer, offset: i64, size: i64| buffer.slice(offset, size),
        )
        .doc("A slice of a buffer (offset, size), shared with it."),
        kernel(
            "tfrt_dht.print_buffer",
            |buffer: &HostBuffer, _: Chain, host: &Host| {
                host.print(format_args!("{}\n", *buffer));
                Chain
            },
        )
        .doc("Prints the address and size of a buffer."),
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
