//! Several vectors as one, for elementwise functions: the chains of dependent instructions of an
//! exponential are interleaved, of which the CPU would not overlap enough by itself.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::Arithmetic;

/// Arithmetic on `COUNT` vectors of `S`.
#[derive(Clone, Copy)]
pub(crate) struct Unrolled<S, const COUNT: usize>(pub(crate) S);

/// Functions of vectors, for each of several.
macro_rules! each_vector {
    ($($function:ident($($operand:ident),+);)*) => {$(
        #[inline(always)]
        fn $function(self, $($operand: Self::V),+) -> Self::V {
            let mut result = [self.0.splat(0.0); COUNT];
            for (v, result) in result.iter_mut().enumerate() {
                *result = self.0.$function($($operand[v]),+);
            }
            result
        }
    )*};
}

impl<S: Arithmetic, const COUNT: usize> Arithmetic for Unrolled<S, COUNT> {
    type V = [S::V; COUNT];
    type Mask = [S::Mask; COUNT];
    const LANES: usize = COUNT * S::LANES;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [self.0.splat(value); COUNT]
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> Self::V {
        let mut result = self.splat(0.0);
        for (v, result) in result.iter_mut().enumerate() {
            // SAFETY: the caller guarantees `COUNT` vectors of `S::LANES` elements.
            *result = unsafe { self.0.load_ptr(from.add(v * S::LANES)) };
        }
        result
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: Self::V, to: *mut f32) {
        for (index, v) in v.into_iter().enumerate() {
            // SAFETY: the caller guarantees `COUNT` vectors of `S::LANES` writable elements.
            unsafe { self.0.store_ptr(v, to.add(index * S::LANES)) };
        }
    }

    each_vector! {
        add(a, b);
        sub(a, b);
        mul(a, b);
        div(a, b);
        sqrt(a);
        fma(a, b, c);
        min(a, b);
        max(a, b);
        round(a);
        scale2(a, n);
        power2(n);
        abs(a);
        copysign(a, sign);
    }

    #[inline(always)]
    fn staged(self, a: Self::V) -> Self::V {
        self.0.join(a)
    }

    #[inline(always)]
    fn less(self, a: Self::V, b: Self::V) -> Self::Mask {
        let mut result = [self.0.less(a[0], b[0]); COUNT];
        for (v, result) in result.iter_mut().enumerate().skip(1) {
            *result = self.0.less(a[v], b[v]);
        }
        result
    }

    #[inline(always)]
    fn select(self, mask: Self::Mask, yes: Self::V, no: Self::V) -> Self::V {
        let mut result = no;
        for (v, result) in result.iter_mut().enumerate() {
            *result = self.0.select(mask[v], yes[v], *result);
        }
        result
    }
}
