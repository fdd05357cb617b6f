//! The dialects of host tensors: `tfrt_dht` (dense), `tfrt_sht` (strings) and `coo` (sparse),
//! bef 4.3.

mod buffers;
mod comparing;
mod creating;
mod printing;
mod sparse;
mod text;

use crate::host::{CooHostTensor, DenseHostTensor, HostBuffer, StringHostTensor};
use tenon_executor::{KernelDef, Opaque};

impl Opaque for DenseHostTensor {
    const TYPE: &'static str = TENSOR;
}

impl Opaque for StringHostTensor {
    const TYPE: &'static str = TENSOR;
}

impl Opaque for CooHostTensor {
    const TYPE: &'static str = TENSOR;
}

impl Opaque for HostBuffer {
    const TYPE: &'static str = "!ht.host_buffer";
}

/// The one type of all tensors in programs.
const TENSOR: &str = "!tfrt_tensor.tensor";

/// The kernels of all three.
pub fn library() -> Vec<KernelDef> {
    let families = [
        creating::kernels(),
        comparing::kernels(),
        buffers::kernels(),
        printing::kernels(),
        text::kernels(),
        sparse::kernels(),
    ];
    families.into_iter().flatten().collect()
}
