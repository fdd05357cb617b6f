//! The one-dimensional transforms of Winograd's algorithm, F(2, 3) and F(4, 3), with the interpolation points 0, ±1, ∞
//! and 0, ±1, ±2, ∞. Applied to the columns and then to the rows of a tile they give F(2×2, 3×3) and F(4×4, 3×3).

use crate::simd::Arithmetic;

/// The transforms of windows of `TILE` elements, which give `OUTPUTS` results.
pub(super) trait Transform<const TILE: usize, const OUTPUTS: usize> {
    fn input<A: Arithmetic>(s: A, elements: [A::V; TILE]) -> [A::V; TILE];

    fn weights<A: Arithmetic>(s: A, weights: [A::V; 3]) -> [A::V; TILE];

    fn output<A: Arithmetic>(s: A, products: [A::V; TILE]) -> [A::V; OUTPUTS];
}

pub(super) struct F2;

impl Transform<4, 2> for F2 {
    #[inline(always)]
    fn input<A: Arithmetic>(s: A, [a, b, c, d]: [A::V; 4]) -> [A::V; 4] {
        [s.sub(a, c), s.add(b, c), s.sub(c, b), s.sub(b, d)]
    }

    #[inline(always)]
    fn weights<A: Arithmetic>(s: A, [a, b, c]: [A::V; 3]) -> [A::V; 4] {
        let half = s.splat(0.5);
        let (outer, inner) = (s.mul(s.add(a, c), half), s.mul(b, half));
        [a, s.add(outer, inner), s.sub(outer, inner), c]
    }

    #[inline(always)]
    fn output<A: Arithmetic>(s: A, [a, b, c, d]: [A::V; 4]) -> [A::V; 2] {
        [s.add(a, s.add(b, c)), s.sub(s.sub(b, c), d)]
    }
}

pub(super) struct F4;

impl Transform<6, 4> for F4 {
    #[inline(always)]
    fn input<A: Arithmetic>(s: A, [a, b, c, d, e, f]: [A::V; 6]) -> [A::V; 6] {
        let [minus_5, minus_4, minus_2, two, four] =
            [-5.0, -4.0, -2.0, 2.0, 4.0].map(|x| s.splat(x));
        // Sums of the even and of the odd elements, for a point and its negative.
        let (even, odd) = (s.fma(minus_4, c, e), s.fma(minus_4, b, d));
        let (even_2, odd_2) = (s.sub(e, c), s.sub(d, b));
        [
            s.fma(four, a, s.fma(minus_5, c, e)),
            s.add(even, odd),
            s.sub(even, odd),
            s.fma(two, odd_2, even_2),
            s.fma(minus_2, odd_2, even_2),
            s.fma(four, b, s.fma(minus_5, d, f)),
        ]
    }

    #[inline(always)]
    fn weights<A: Arithmetic>(s: A, [a, b, c]: [A::V; 3]) -> [A::V; 6] {
        let sixth = s.splat(-1.0 / 6.0);
        let (even, odd) = (s.mul(s.add(a, c), sixth), s.mul(b, sixth));
        let even_2 = s.fma(c, s.splat(1.0 / 6.0), s.mul(a, s.splat(1.0 / 24.0)));
        let odd_2 = s.mul(b, s.splat(1.0 / 12.0));
        [
            s.mul(a, s.splat(0.25)),
            s.add(even, odd),
            s.sub(even, odd),
            s.add(even_2, odd_2),
            s.sub(even_2, odd_2),
            c,
        ]
    }

    #[inline(always)]
    fn output<A: Arithmetic>(s: A, [a, b, c, d, e, f]: [A::V; 6]) -> [A::V; 4] {
        let (sum, difference) = (s.add(b, c), s.sub(b, c));
        let (sum_2, difference_2) = (s.add(d, e), s.sub(d, e));
        [
            s.add(a, s.add(sum, sum_2)),
            s.fma(s.splat(2.0), difference_2, difference),
            s.fma(s.splat(4.0), sum_2, sum),
            s.add(f, s.fma(s.splat(8.0), difference_2, difference)),
        ]
    }
}
