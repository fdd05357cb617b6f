//! The operations that reductions join elements with, as types, so that loops are compiled for each.

use crate::simd::Simd;
use tenon_tensor::Element;

/// Independent accumulators of a row.
const LANES: usize = 32;

/// What is done with the joined elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::ops) enum Finish {
    Identity,
    /// Division by the number of elements.
    Mean(usize),
    SquareRoot,
    Logarithm,
    /// The root of this degree.
    Root(f64),
}

/// A reduction of elements of one type, as a type, so that loops are compiled for each.
pub(in crate::ops) trait Reducer: Copy + Send + Sync + 'static {
    type Element: Element;
    /// The accumulator of a block.
    type Sum: Copy + Send + Sync + 'static;
    /// The accumulator of blocks.
    type Total: Copy + Send + Sync + 'static;
    /// The same with a sum that neither overflows nor loses small terms.
    type Exact: Reducer<Element = Self::Element, Total = Self::Total>;
    const START: Self::Sum;
    fn exact(self) -> Self::Exact;
    /// Whether the total is as [`Reducer::exact`] computes it.
    #[inline(always)]
    fn is_exact(_: Self::Total) -> bool {
        true
    }
    fn step(self, sum: Self::Sum, x: Self::Element) -> Self::Sum;
    fn join(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn total(sum: Self::Sum) -> Self::Total;
    fn join_totals(a: Self::Total, b: Self::Total) -> Self::Total;
    fn finish(total: Self::Total, finish: Finish) -> Self::Element;
    /// Reduces contiguous elements.
    #[inline(always)]
    fn row<S: Simd>(self, _: S, row: &[Self::Element]) -> Self::Sum {
        in_lanes(self, row)
    }
}

/// Finishes a floating-point total.
#[inline(always)]
fn finish_real(total: f64, finish: Finish) -> f64 {
    match finish {
        Finish::Identity => total,
        Finish::Mean(count) => total / count as f64,
        Finish::SquareRoot => total.sqrt(),
        Finish::Logarithm => total.ln(),
        Finish::Root(p) => total.powf(1.0 / p),
    }
}

/// A reducer `$name` of `$element`: `$start`, then `$step`; accumulators are joined by `$join`.
macro_rules! reducer {
    ($name:ident $(($parameter:ty))?, $element:ty, $sum:ty, $total:ty, $start:expr,
     |$this:ident, $a:ident, $x:ident| $step:expr, |$b:ident, $c:ident| $join:expr,
     |$all:ident, $finish:ident| $done:expr $(, $item:item)*) => {
        #[derive(Clone, Copy)]
        pub(in crate::ops) struct $name $((pub(super) $parameter))?;

        impl Reducer for $name {
            type Element = $element;
            type Sum = $sum;
            type Total = $total;
            type Exact = Self;
            const START: $sum = $start;
            #[inline(always)]
            fn exact(self) -> Self {
                self
            }
            #[inline(always)]
            fn step(self, $a: $sum, $x: $element) -> $sum {
                let $this = self;
                $step
            }
            #[inline(always)]
            fn join($b: $sum, $c: $sum) -> $sum {
                $join
            }
            #[inline(always)]
            fn total(sum: $sum) -> $total {
                sum as $total
            }
            #[inline(always)]
            fn join_totals($b: $total, $c: $total) -> $total {
                $join
            }
            #[inline(always)]
            fn finish($all: $total, $finish: Finish) -> $element {
                $done
            }
            $($item)*
        }
    };
}

/// Reducers of a floating-point type, with sums in it; those of f32 reduce rows with vectors.
macro_rules! float_reducers {
    ($float:ident: $sum:ident $l1:ident $product:ident $max:ident $min:ident $norm:ident
     $({ $sum_row:item $l1_row:item $max_row:item $min_row:item })?) => {
        reducer! { $sum, $float, $float, f64, 0.0, |_this, a, x| a + x, |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float $(, $sum_row)? }
        reducer! { $l1, $float, $float, f64, 0.0, |_this, a, x| a + x.abs(), |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float $(, $l1_row)? }
        reducer! { $product, $float, f64, f64, 1.0, |_this, a, x| a * f64::from(x), |b, c| b * c,
            |all, finish| finish_real(all, finish) as $float }
        reducer! { $norm(f64), $float, f64, f64, 0.0,
            |this, a, x| a + f64::from(x.abs()).powf(this.0), |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float }
        // NaN is the greatest and the least.
        reducer! { $max, $float, $float, $float, $float::NEG_INFINITY,
            |_this, a, x| if x > a || x.is_nan() { x } else { a },
            |b, c| if c > b || c.is_nan() { c } else { b }, |all, _finish| all $(, $max_row)? }
        reducer! { $min, $float, $float, $float, $float::INFINITY,
            |_this, a, x| if x < a || x.is_nan() { x } else { a },
            |b, c| if c < b || c.is_nan() { c } else { b }, |all, _finish| all $(, $min_row)? }
    };
}

float_reducers! { f32: SumF32 L1F32 ProductF32 MaxF32 MinF32 NormF32 {
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| x)
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| s.abs(x))
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        let (extreme, rest) = extreme_of(s, row, Self::START, |a, x| s.max(a, x), |v| s.largest(v));
        rest.iter().fold(extreme, |a, &x| self.step(a, x))
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        let least = |v| -s.largest(s.sub(s.splat(-0.0), v));
        let (extreme, rest) = extreme_of(s, row, Self::START, |a, x| s.min(a, x), least);
        rest.iter().fold(extreme, |a, &x| self.step(a, x))
    }
} }
float_reducers! { f64: SumF64 L1F64 ProductF64 MaxF64 MinF64 NormF64 }

/// The sum of `f` over a row in four independent chains; `f` of 0 is 0.
#[inline(always)]
fn sum_of<S: Simd>(s: S, row: &[f32], f: impl Fn(S::V) -> S::V) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let groups = row.chunks_exact(4 * S::LANES);
    let rest = groups.remainder();
    for group in groups {
        for (sum, chunk) in sums.iter_mut().zip(group.chunks_exact(S::LANES)) {
            *sum = s.add(*sum, f(s.load(chunk)));
        }
    }
    for (sum, chunk) in sums.iter_mut().zip(rest.chunks(S::LANES)) {
        *sum = s.add(*sum, f(s.load_part(chunk)));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// The extreme of a row's whole vectors, NaN when an element is NaN, and the elements after them. `join` returns its
/// second operand when either is NaN; `of_lanes` is the extreme of a vector without NaN.
#[inline(always)]
fn extreme_of<S: Simd>(
    s: S,
    row: &[f32],
    start: f32,
    join: impl Fn(S::V, S::V) -> S::V,
    of_lanes: impl Fn(S::V) -> f32,
) -> (f32, &[f32]) {
    let zero = s.splat(0.0);
    let mut extremes = [s.splat(start); 4];
    // 0 until an element is NaN or infinite.
    let mut tests = [zero; 4];
    let (whole, rest) = row.split_at(row.len() - row.len() % (4 * S::LANES));
    for group in whole.chunks_exact(4 * S::LANES) {
        for (lane, chunk) in group.chunks_exact(S::LANES).enumerate() {
            let x = s.load(chunk);
            extremes[lane] = join(extremes[lane], x);
            tests[lane] = s.fma(x, zero, tests[lane]);
        }
    }
    let test = s.add(s.add(tests[0], tests[1]), s.add(tests[2], tests[3]));
    if s.has_nan(test) && whole.iter().any(|x| x.is_nan()) {
        return (f32::NAN, rest);
    }
    let halves = [
        join(extremes[0], extremes[1]),
        join(extremes[2], extremes[3]),
    ];
    (of_lanes(join(halves[0], halves[1])), rest)
}

reducer! { SquaresF64, f64, f64, f64, 0.0, |_this, a, x| a + x * x, |b, c| b + c,
|all, finish| finish_real(all, finish) }
reducer! { WideSquaresF32, f32, f64, f64, 0.0, |_this, a, x| a + f64::from(x) * f64::from(x),
|b, c| b + c, |all, finish| finish_real(all, finish) as f32 }

#[derive(Clone, Copy)]
pub(in crate::ops) struct SquaresF32;

impl Reducer for SquaresF32 {
    type Element = f32;
    type Sum = f32;
    type Total = f64;
    type Exact = WideSquaresF32;
    const START: f32 = 0.0;
    #[inline(always)]
    fn exact(self) -> WideSquaresF32 {
        WideSquaresF32
    }
    #[inline(always)]
    fn is_exact(total: f64) -> bool {
        total > 1e-30 && total < f64::INFINITY
    }
    #[inline(always)]
    fn step(self, sum: f32, x: f32) -> f32 {
        sum + x * x
    }
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn total(sum: f32) -> f64 {
        sum.into()
    }
    #[inline(always)]
    fn join_totals(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(total: f64, finish: Finish) -> f32 {
        finish_real(total, finish) as f32
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| s.mul(x, x))
    }
}

/// Reducers of an integer type, whose arithmetic wraps.
macro_rules! integer_reducers {
    ($integer:ident: $sum:ident $squares:ident $product:ident $($l1:ident)?) => {
        reducer! { $sum, $integer, $integer, $integer, 0, |_this, a, x| a.wrapping_add(x),
        |b, c| b.wrapping_add(c), |all, _finish| all }
        $(reducer! { $l1, $integer, $integer, $integer, 0,
        |_this, a, x| a.wrapping_add(x.wrapping_abs()), |b, c| b.wrapping_add(c),
        |all, _finish| all })?
        reducer! { $squares, $integer, $integer, $integer, 0,
        |_this, a, x| a.wrapping_add(x.wrapping_mul(x)), |b, c| b.wrapping_add(c),
        |all, _finish| all }
        reducer! { $product, $integer, $integer, $integer, 1, |_this, a, x| a.wrapping_mul(x),
        |b, c| b.wrapping_mul(c), |all, _finish| all }
    };
}

integer_reducers! { i32: SumI32 SquaresI32 ProductI32 L1I32 }
integer_reducers! { i64: SumI64 SquaresI64 ProductI64 L1I64 }
integer_reducers! { u32: SumU32 SquaresU32 ProductU32 }
integer_reducers! { u64: SumU64 SquaresU64 ProductU64 }

/// The mean of the exact sum, which `$sum` contains, truncated.
macro_rules! mean_reducers {
    ($($integer:ident in $sum:ident: $mean:ident;)*) => {$(
        reducer! { $mean, $integer, $sum, $sum, 0, |_this, a, x| a.wrapping_add($sum::from(x)),
            |b, c| b.wrapping_add(c), |all, finish| match finish {
                Finish::Mean(count) => (all / count as $sum) as $integer,
                _ => all as $integer,
            }
        }
    )*};
}

mean_reducers! { i32 in i64: MeanI32; u32 in u64: MeanU32; i64 in i128: MeanI64; u64 in u128: MeanU64; }

/// The maximum and minimum of an integer type.
macro_rules! order_reducers {
    ($($integer:ident: $max:ident $min:ident;)*) => {$(
        reducer! { $max, $integer, $integer, $integer, $integer::MIN, |_this, a, x| a.max(x),
            |b, c| b.max(c), |all, _finish| all }
        reducer! { $min, $integer, $integer, $integer, $integer::MAX, |_this, a, x| a.min(x),
            |b, c| b.min(c), |all, _finish| all }
    )*};
}

order_reducers! { i32: MaxI32 MinI32; i64: MaxI64 MinI64; i8: MaxI8 MinI8;
u8: MaxU8 MinU8; u32: MaxU32 MinU32; u64: MaxU64 MinU64; }

/// Reduces contiguous elements in independent lanes.
#[inline(always)]
fn in_lanes<R: Reducer>(reducer: R, row: &[R::Element]) -> R::Sum {
    let mut sum = R::START;
    let (groups, rest) = row.as_chunks::<LANES>();
    if let [_, _, ..] = groups {
        let mut sums = [R::START; LANES];
        for group in groups {
            for (sum, &x) in sums.iter_mut().zip(group) {
                *sum = reducer.step(*sum, x);
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                sums[lane] = R::join(sums[lane], sums[lane + width]);
            }
            width /= 2;
        }
        sum = sums[0];
    } else {
        for &x in groups.as_flattened() {
            sum = reducer.step(sum, x);
        }
    }
    rest.iter().fold(sum, |sum, &x| reducer.step(sum, x))
}
