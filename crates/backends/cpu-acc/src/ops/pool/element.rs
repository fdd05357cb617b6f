//! The arithmetic of pools on elements of one type: maxima, sums and powers.

use crate::simd::Simd;
use tenon_tensor::Element;

/// The arithmetic of pools on elements of one type.
pub(super) trait PoolElement: Element + PartialOrd {
    /// The identity of `greater`.
    const LOWEST: Self;
    const ZERO: Self;
    /// The greater; NaN if either is NaN.
    fn greater(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
    fn over(self, divisor: f32) -> Self;
    /// The product with a factor of `factor_of`.
    fn times(self, factor: Self) -> Self;
    /// The reciprocal of a divisor.
    fn factor_of(divisor: f32) -> Self;
    /// The magnitude to the power `p`.
    fn power(self, p: f64) -> Self;
    /// The root of degree `p`.
    fn root(self, p: f64) -> Self;

    /// Copies the elements of `from` at even positions, of which there are as many as `to` has.
    #[inline(always)]
    fn copy_evens<S: Simd>(_: S, from: &[Self], to: &mut [Self]) {
        for (to, group) in to.iter_mut().zip(from.as_chunks::<2>().0) {
            *to = group[0];
        }
    }

    /// Joins `count` of the runs `from`, one to three, into `to`, which they replace when they are the
    /// first. All have the same length.
    #[inline(always)]
    fn join_runs<S: Simd, J: Join<Self>>(
        _: S,
        [mut a, mut b, c]: [&[Self]; 3],
        mut count: usize,
        first: bool,
        to: &mut [Self],
    ) {
        if first {
            to.copy_from_slice(a);
            (a, b) = (b, c);
            count -= 1;
        }
        match count {
            0 => {}
            1 => {
                for (to, &a) in to.iter_mut().zip(a) {
                    *to = J::join(*to, a);
                }
            }
            2 => {
                for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
                    *to = J::join(J::join(*to, a), b);
                }
            }
            _ => {
                for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
                    *to = J::join(J::join(J::join(*to, a), b), c);
                }
            }
        }
    }
}

/// The vectors of `from`, joined into `to`, see [`PoolElement::join_runs`].
#[inline(always)]
fn join_vectors<S: Simd, J: Join<f32>>(
    s: S,
    from: [&[f32]; 3],
    count: usize,
    first: bool,
    to: &mut [f32],
) {
    // The loops are compiled for each count.
    match count {
        1 => join_counted::<S, J, 1>(s, from, first, to),
        2 => join_counted::<S, J, 2>(s, from, first, to),
        _ => join_counted::<S, J, 3>(s, from, first, to),
    }
}

/// [`join_vectors`] of `COUNT` runs.
#[inline(always)]
fn join_counted<S: Simd, J: Join<f32>, const COUNT: usize>(
    s: S,
    from: [&[f32]; 3],
    first: bool,
    to: &mut [f32],
) {
    let len = to.len();
    let [a, b, c] = [&from[0][..len], &from[1][..len], &from[2][..len]];
    let at = len - len % S::LANES;
    let vectors = to.chunks_exact_mut(S::LANES).zip(a.chunks_exact(S::LANES));
    let others = b.chunks_exact(S::LANES).zip(c.chunks_exact(S::LANES));
    for ((to, a), (b, c)) in vectors.zip(others) {
        let mut joined = s.load(a);
        if !first {
            joined = J::join_vectors(s, s.load(to), joined);
        }
        if COUNT > 1 {
            joined = J::join_vectors(s, joined, s.load(b));
        }
        if COUNT > 2 {
            joined = J::join_vectors(s, joined, s.load(c));
        }
        s.store(joined, to);
    }
    if at < len {
        let to = &mut to[at..];
        let mut joined = s.load_part(&a[at..]);
        if !first {
            joined = J::join_vectors(s, s.load_part(to), joined);
        }
        if COUNT > 1 {
            joined = J::join_vectors(s, joined, s.load_part(&b[at..]));
        }
        if COUNT > 2 {
            joined = J::join_vectors(s, joined, s.load_part(&c[at..]));
        }
        s.store_part(joined, to);
    }
}

macro_rules! pool_floats {
    ($($float:ident { $($item:item)* })*) => {$(
        impl PoolElement for $float {
            const LOWEST: Self = $float::NEG_INFINITY;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                if other > self || other.is_nan() { other } else { self }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn over(self, divisor: f32) -> Self {
                self / $float::from(divisor)
            }
            #[inline(always)]
            fn times(self, factor: Self) -> Self {
                self * factor
            }
            #[inline(always)]
            fn factor_of(divisor: f32) -> Self {
                1.0 / $float::from(divisor)
            }
            #[inline(always)]
            fn power(self, p: f64) -> Self {
                if p == 2.0 {
                    self * self
                } else if p == 1.0 {
                    self.abs()
                } else {
                    self.abs().powf(p as $float)
                }
            }
            #[inline(always)]
            fn root(self, p: f64) -> Self {
                if p == 2.0 {
                    self.sqrt()
                } else if p == 1.0 {
                    self
                } else {
                    self.powf((1.0 / p) as $float)
                }
            }
            $($item)*
        }
    )*};
}

macro_rules! pool_integers {
    ($($integer:ident)*) => {$(
        impl PoolElement for $integer {
            const LOWEST: Self = $integer::MIN;
            const ZERO: Self = 0;
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn over(self, _: f32) -> Self {
                self
            }
            #[inline(always)]
            fn times(self, _: Self) -> Self {
                self
            }
            #[inline(always)]
            fn factor_of(_: f32) -> Self {
                1
            }
            #[inline(always)]
            fn power(self, _: f64) -> Self {
                self
            }
            #[inline(always)]
            fn root(self, _: f64) -> Self {
                self
            }
        }
    )*};
}

pool_floats! {
    f32 {
        #[inline(always)]
        fn join_runs<S: Simd, J: Join<Self>>(
            s: S,
            from: [&[Self]; 3],
            count: usize,
            first: bool,
            to: &mut [Self],
        ) {
            join_vectors::<S, J>(s, from, count, first, to);
        }
        #[inline(always)]
        fn copy_evens<S: Simd>(s: S, from: &[Self], to: &mut [Self]) {
            let pairs = from.chunks_exact(2 * S::LANES);
            let mut copied = 0;
            for (to, pair) in to.chunks_exact_mut(S::LANES).zip(pairs) {
                let (a, b) = pair.split_at(S::LANES);
                s.store(s.evens(s.load(a), s.load(b)), to);
                copied += S::LANES;
            }
            for (to, x) in to[copied..].iter_mut().zip(from[2 * copied..].iter().step_by(2)) {
                *to = *x;
            }
        }
    }
    f64 {}
}
pool_integers! { i8 u8 }

/// The maximum or the sum, as a type, so that loops are compiled for each.
pub(super) trait Join<T: PoolElement>: Copy + Send + Sync + 'static {
    const START: T;
    fn join(a: T, b: T) -> T;
    /// The same for vectors of f32.
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V;
}

#[derive(Clone, Copy)]
pub(super) struct Greatest;

#[derive(Clone, Copy)]
pub(super) struct Total;

impl<T: PoolElement> Join<T> for Greatest {
    const START: T = T::LOWEST;
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.greater(b)
    }
    #[inline(always)]
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V {
        s.nan_max(a, b)
    }
}

impl<T: PoolElement> Join<T> for Total {
    const START: T = T::ZERO;
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.plus(b)
    }
    #[inline(always)]
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V {
        s.add(a, b)
    }
}

/// Joins `count` runs of the length of `to` into it, which they replace when they are the first.
#[inline(always)]
pub(super) fn join_all<'a, S: Simd, T: PoolElement, J: Join<T>>(
    s: S,
    count: usize,
    mut first: bool,
    to: &mut [T],
    from: impl Fn(usize) -> &'a [T],
) {
    let len = to.len();
    let mut nth = 0;
    while nth < count {
        let group = (count - nth).min(3);
        // Not a map of the array, which is not always inlined.
        let run = |more: usize| &from(nth + more.min(group - 1))[..len];
        let runs = [run(0), run(1), run(2)];
        T::join_runs::<S, J>(s, runs, group, first, to);
        first = false;
        nth += group;
    }
}
