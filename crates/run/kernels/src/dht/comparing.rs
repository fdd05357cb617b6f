//! Comparisons of dense tensors.

use crate::host::{DenseHostTensor, HostElement};
use tenon_base::Result;
use tenon_executor::{Chain, Complex64, Complex128, KernelDef, kernel};

macro_rules! comparing {
    ($($name:literal $type:ty,)*) => {
        vec![$(
            kernel(
                concat!("tfrt_dht.tensor_equal.", $name),
                |a: &DenseHostTensor, b: &DenseHostTensor, _: Chain| {
                    let same = a.agrees(&b, |a: $type, b| a == b);
                    same.map(|same| (same, Chain))
                },
            )
            .doc("Whether shapes and elements are equal."),
            comparing!(close $name $type, "", 2),
            comparing!(close $name $type, "3ulp.", 3),
            comparing!(close $name $type, "1000ulp.", 1000),
            comparing!(close $name $type, "2000ulp.", 2000),
            comparing!(close $name $type, "100000ulp.", 100_000),
        )*]
    };
    (close $name:literal $type:ty, $infix:literal, $ulps:literal) => {
        kernel(
            concat!("tfrt_dht.tensor_allclose.", $infix, $name),
            |a: &DenseHostTensor, b: &DenseHostTensor, _: Chain| {
                close::<$type>(&a, &b, $ulps)
            },
        )
        .doc(concat!(
            "Whether shapes are equal, and elements up to ", $ulps, " units in the last place."
        ))
    };
}

fn close<T: HostElement>(
    a: &DenseHostTensor,
    b: &DenseHostTensor,
    ulps: u32,
) -> Result<(bool, Chain)> {
    let close = a.agrees(b, |a: T, b| a.close(b, ulps))?;
    Ok((close, Chain))
}

pub(super) fn kernels() -> Vec<KernelDef> {
    comparing! {
        "ui8" u8, "ui32" u32, "ui64" u64, "i8" i8, "i32" i32, "i64" i64, "f32" f32, "f64" f64,
        "bool" bool, "complex64" Complex64, "complex128" Complex128,
    }
}
