//! The elements of signals and spectra.

use half::{bf16, f16};
use tenon_fft::Real;
use tenon_tensor::Element;

/// An element of a signal, computed as a real number of type `Real`.
pub(super) trait Sample: Element {
    type Real: Real + Element;
    fn widen(self) -> Self::Real;
    fn narrow(real: Self::Real) -> Self;
}

macro_rules! sample {
    ($($T:ident $Real:ident |$x:ident| $widen:expr, $narrow:expr;)*) => {$(
        impl Sample for $T {
            type Real = $Real;

            #[inline(always)]
            fn widen(self) -> $Real {
                let $x = self;
                $widen
            }

            #[inline(always)]
            fn narrow($x: $Real) -> Self {
                $narrow
            }
        }
    )*};
}

sample! {
    f32 f32 |x| x, x;
    f64 f64 |x| x, x;
    f16 f32 |x| x.to_f32(), f16::from_f32(x);
    bf16 f32 |x| x.to_f32(), bf16::from_f32(x);
}
