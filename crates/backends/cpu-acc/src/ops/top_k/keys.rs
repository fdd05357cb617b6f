//! Elements and the unsigned keys that have their order.

use half::{bf16, f16};
use tenon_tensor::Element;

/// An element with a key of the same order.
pub(super) trait Keyed: Element {
    /// Whether keys have at most 32 bits.
    const NARROW: bool;
    /// An unsigned integer with the order of the elements: zeros of both signs are equal, NaN is the
    /// greatest.
    fn key(self) -> u64;

    /// Whether the key is above (`greater`) or below that of `other`; may be true where one is NaN.
    fn is_beyond(self, other: Self, greater: bool) -> bool;
}

#[inline(always)]
fn by_key<T: Keyed>(a: T, b: T, greater: bool) -> bool {
    let (a, b) = (a.key() as u32, b.key() as u32);
    if greater { a > b } else { a < b }
}

macro_rules! keyed_integers {
    ($($T:ty, $unsigned:ty, $narrow:literal;)*) => {$(
        impl Keyed for $T {
            const NARROW: bool = $narrow;
            #[inline(always)]
            fn key(self) -> u64 {
                u64::from(self as $unsigned ^ <$T>::MIN as $unsigned)
            }
            #[inline(always)]
            fn is_beyond(self, other: Self, greater: bool) -> bool {
                if greater { self > other } else { self < other }
            }
        }
    )*};
}

keyed_integers! {
    u8, u8, true;
    u16, u16, true;
    u32, u32, true;
    u64, u64, false;
    i8, u8, true;
    i16, u16, true;
    i32, u32, true;
    i64, u64, false;
}

macro_rules! keyed_floats {
    ($($T:ty, $bits:ty, $signed:ty, $narrow:literal, $beyond:expr;)*) => {$(
        impl Keyed for $T {
            const NARROW: bool = $narrow;
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                let ordered = bits ^ ((bits as $signed >> (<$bits>::BITS - 1)) as $bits | SIGN);
                if bits & !SIGN > <$T>::INFINITY.to_bits() {
                    <$bits>::MAX.into()
                } else if bits == SIGN {
                    SIGN.into()
                } else {
                    ordered.into()
                }
            }
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is beyond all others")]
            fn is_beyond(self, other: Self, greater: bool) -> bool {
                let compare: fn($T, $T, bool) -> bool = $beyond;
                compare(self, other, greater)
            }
        }
    )*};
}

keyed_floats! {
    f32, u32, i32, true, |a, b, greater| if greater { !(a <= b) } else { !(a >= b) };
    f64, u64, i64, false, |a, b, greater| if greater { !(a <= b) } else { !(a >= b) };
    f16, u16, i16, true, by_key;
    bf16, u16, i16, true, by_key;
}

/// The rank of an element: lower is better. `flip` complements keys, for the largest elements.
#[inline(always)]
pub(super) fn rank<T: Keyed>(element: T, flip: u64) -> u64 {
    if T::NARROW {
        (element.key() as u32 ^ flip as u32).into()
    } else {
        element.key() ^ flip
    }
}
