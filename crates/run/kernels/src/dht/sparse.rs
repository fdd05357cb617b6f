//! Sparse tensors.

use crate::host::{CooHostTensor, DenseHostTensor, HostElement, failed};
use tenon_base::Result;
use tenon_executor::{Chain, Host, KernelDef, kernel};

macro_rules! sparse {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            sparse!(rank $name $type, 0),
            sparse!(rank $name $type, 1),
            sparse!(rank $name $type, 2),
            sparse!(rank $name $type, 3),
        )*]
    };
    (rank $name:literal $type:ty, $rank:literal) => {
        [
            kernel(
                concat!("coo.convert_dht_to_coo.", $name, ".", $rank),
                |tensor: &DenseHostTensor, _: Chain, host: &Host| {
                    from_dense::<$type>(host, &tensor, $rank)
                },
            )
            .doc("The elements that are not 0, with their coordinates."),
            kernel(
                concat!("coo.convert_coo_to_dht.", $name, ".", $rank),
                |tensor: &CooHostTensor, _: Chain, host: &Host| {
                    to_dense::<$type>(host, &tensor, $rank)
                },
            )
            .doc("The dense tensor."),
            kernel(
                concat!("coo.tensor_equal.", $name, ".", $rank),
                |a: &CooHostTensor, b: &CooHostTensor, _: Chain| {
                    a.agrees::<$type>(&b).map(|same| (same, Chain))
                },
            )
            .doc("Whether coordinates are equal, and values up to 2 units in the last place."),
        ]
    };
}

fn from_dense<T: HostElement + Default>(
    host: &Host,
    tensor: &DenseHostTensor,
    rank: usize,
) -> Result<(CooHostTensor, Chain)> {
    check(tensor.shape().rank(), rank)?;
    let sparse = CooHostTensor::from_dense(host.allocator(), tensor, T::default())?;
    Ok((sparse, Chain))
}

fn to_dense<T: HostElement>(
    host: &Host,
    tensor: &CooHostTensor,
    rank: usize,
) -> Result<(DenseHostTensor, Chain)> {
    check(tensor.shape().rank(), rank)?;
    Ok((tensor.to_dense::<T>(host.allocator())?, Chain))
}

fn check(found: usize, rank: usize) -> Result<()> {
    if found == rank {
        return Ok(());
    }
    Err(failed("the tensor has the wrong rank")
        .expected(rank)
        .found(found))
}

pub(super) fn kernels() -> Vec<KernelDef> {
    let kernels = sparse! { "i32" i32, "f32" f32, };
    kernels.into_iter().flatten().collect()
}
