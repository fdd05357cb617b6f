//! The shifts of a safe softmax and of log-sum-exp: maxima, and sums of the exponentials of the
//! differences to them, of rows and of columns.

use crate::floats::Floats;
use crate::ops::blocks::{BLOCK, blocks};
use crate::simd::math::{INTERLEAVED, exp_nonpositive};
use crate::simd::unrolled::Unrolled;
use crate::simd::{Arithmetic, Level, MAX_LANES, Simd};
use std::ops::Range;
use tenon_base::stop;

/// Most columns that are computed at once.
pub(super) const COLUMNS: usize = 512;

/// The maximum of a row, and the sum of the exponentials of the differences to it.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct RowShift {
    pub(in crate::ops) maximum: f32,
    pub(in crate::ops) sum: f32,
}

impl RowShift {
    /// The shift of a row of any length.
    #[inline(always)]
    pub(in crate::ops) fn of<S: Simd>(
        s: S,
        level: Level,
        input: &Floats<'_>,
        row: Range<usize>,
        buffer: &mut [f32; BLOCK],
    ) -> Self {
        let mut maximum = f32::NEG_INFINITY;
        for block in blocks(row.clone()) {
            stop::checkpoint();
            let of_block = largest(s, input.load(level, block, buffer));
            // NaN stays the maximum.
            maximum = if of_block > maximum || of_block.is_nan() {
                of_block
            } else {
                maximum
            };
        }
        let mut total = 0.0;
        for block in blocks(row) {
            total += f64::from(sum_exp(s, input.load(level, block, buffer), maximum));
        }
        Self {
            maximum,
            sum: total as f32,
        }
    }

    /// The softmax of elements, or its logarithm.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(self, s: S, logarithm: bool, from: &[f32], to: &mut [f32]) {
        if logarithm {
            return log_softmax_of_row(from, self.maximum, self.sum.ln(), to);
        }
        let (maximum, factor) = (s.splat(self.maximum), s.splat(1.0 / self.sum));
        for (to, x) in to.chunks_mut(S::LANES).zip(from.chunks(S::LANES)) {
            let power = exp_nonpositive(s, s.sub(s.load_part(x), maximum));
            s.store_part(s.mul(power, factor), to);
        }
    }
}

/// The shifts of columns, or their logarithms.
pub(in crate::ops) struct ColumnShifts {
    /// The maxima.
    pub(in crate::ops) maxima: [f32; COLUMNS],
    /// The sums of the exponentials.
    pub(in crate::ops) sums: [f32; COLUMNS],
}

impl ColumnShifts {
    #[inline(always)]
    pub(in crate::ops) fn new() -> Self {
        Self {
            maxima: [0.0; COLUMNS],
            sums: [0.0; COLUMNS],
        }
    }
}

/// Some columns of a matrix.
pub(in crate::ops) struct Matrix {
    /// The first element.
    pub(in crate::ops) start: usize,
    pub(in crate::ops) rows: usize,
    /// Elements from a row to the next.
    pub(in crate::ops) inner: usize,
    /// Columns, at most [`COLUMNS`].
    pub(in crate::ops) count: usize,
}

impl Matrix {
    #[inline(always)]
    pub(in crate::ops) fn row(&self, row: usize) -> Range<usize> {
        let start = self.start + row * self.inner;
        start..start + self.count
    }

    /// Computes the shifts of the columns.
    #[inline(always)]
    pub(in crate::ops) fn shifts<S: Simd>(
        &self,
        s: S,
        level: Level,
        input: &Floats<'_>,
        buffer: &mut [f32; BLOCK],
        shifts: &mut ColumnShifts,
    ) {
        let maxima = &mut shifts.maxima[..self.count];
        let sums = &mut shifts.sums[..self.count];
        maxima.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        for row in 0..self.rows {
            if row.is_multiple_of(64) {
                stop::checkpoint();
            }
            let from = input.load(level, self.row(row), buffer);
            for (maximum, &x) in maxima.iter_mut().zip(from) {
                *maximum = if x > *maximum { x } else { *maximum };
            }
        }
        for row in 0..self.rows {
            if row.is_multiple_of(64) {
                stop::checkpoint();
            }
            add_exp(s, input.load(level, self.row(row), buffer), maxima, sums);
        }
    }
}

/// The maximum of a row; negative infinity for an empty row.
#[inline(always)]
pub(in crate::ops) fn largest<S: Simd>(s: S, row: &[f32]) -> f32 {
    let mut maximum = s.splat(f32::NEG_INFINITY);
    let whole = row.len() - row.len() % S::LANES;
    let mut chunks = row[..whole].chunks_exact(S::LANES);
    for chunk in chunks.by_ref() {
        maximum = s.max(maximum, s.load(chunk));
    }
    row[whole..]
        .iter()
        .fold(s.largest(maximum), |maximum, &x| maximum.max(x))
}

/// The sum of `exp(x - shift)` over a row, of which no element is greater than the shift.
#[inline(always)]
pub(in crate::ops) fn sum_exp<S: Simd>(s: S, row: &[f32], shift: f32) -> f32 {
    let mut sums = ExpSums::new(s, shift);
    let mut blocks = row.chunks_exact(INTERLEAVED * S::LANES);
    for block in blocks.by_ref() {
        sums.add_wide(block);
    }
    let mut vectors = blocks.remainder().chunks_exact(S::LANES);
    for vector in vectors.by_ref() {
        sums.add(vector);
    }
    let (rest, mut lanes) = (vectors.remainder(), [0.0; MAX_LANES]);
    if rest.is_empty() {
        return sums.total();
    }
    s.store(sums.exp_of_part(rest), &mut lanes);
    sums.total() + lanes[..rest.len()].iter().sum::<f32>()
}

/// Writes `exp(x - shift)` of the elements of `from`, or of the row itself, none of which is greater than the shift,
/// to a row, and returns their sum.
#[inline(always)]
pub(in crate::ops) fn write_exp<S: Simd>(
    s: S,
    from: Option<&[f32]>,
    row: &mut [f32],
    shift: f32,
) -> f32 {
    let (wide, len) = (Unrolled::<S, INTERLEAVED>(s), row.len());
    let mut sums = ExpSums::new(s, shift);
    let mut at = 0;
    while at + INTERLEAVED * S::LANES <= len {
        let powers = sums.add_wide(from.map_or(&row[at..], |from| &from[at..]));
        wide.store(powers, &mut row[at..]);
        at += INTERLEAVED * S::LANES;
    }
    while at + S::LANES <= len {
        let power = sums.add(from.map_or(&row[at..], |from| &from[at..]));
        s.store(power, &mut row[at..]);
        at += S::LANES;
    }
    if at == len {
        return sums.total();
    }
    let power = sums.exp_of_part(from.map_or(&row[at..], |from| &from[at..]));
    let rest = &mut row[at..];
    s.store_part(power, rest);
    sums.total() + rest.iter().sum::<f32>()
}

/// Sums of exponentials, in the lanes of several vectors.
struct ExpSums<S: Simd> {
    s: S,
    shift: f32,
    sums: [S::V; INTERLEAVED],
}

impl<S: Simd> ExpSums<S> {
    #[inline(always)]
    fn new(s: S, shift: f32) -> Self {
        let sums = [s.splat(0.0); INTERLEAVED];
        Self { s, shift, sums }
    }

    /// The exponentials of several vectors, which are added.
    #[inline(always)]
    fn add_wide(&mut self, from: &[f32]) -> [S::V; INTERLEAVED] {
        let wide = Unrolled::<S, INTERLEAVED>(self.s);
        let shifted = wide.sub(wide.load(from), wide.splat(self.shift));
        let powers = exp_nonpositive(wide, shifted);
        self.sums = wide.add(self.sums, powers);
        powers
    }

    /// Those of a vector.
    #[inline(always)]
    fn add(&mut self, from: &[f32]) -> S::V {
        let power = self.exp_of_part(from);
        self.sums[0] = self.s.add(self.sums[0], power);
        power
    }

    /// The exponentials of the elements of `from`, at most those of a vector.
    #[inline(always)]
    fn exp_of_part(&self, from: &[f32]) -> S::V {
        let s = self.s;
        exp_nonpositive(s, s.sub(s.load_part(from), s.splat(self.shift)))
    }

    #[inline(always)]
    fn total(&self) -> f32 {
        let s = self.s;
        let [a, b, c, d] = self.sums;
        s.sum(s.add(s.add(a, b), s.add(c, d)))
    }
}

/// Adds `exp(x - shift)` of each column to its sum; no element is greater than its shift.
#[inline(always)]
pub(in crate::ops) fn add_exp<S: Simd>(s: S, row: &[f32], shifts: &[f32], sums: &mut [f32]) {
    let sums = sums.chunks_mut(S::LANES).zip(shifts.chunks(S::LANES));
    for ((sums, shift), x) in sums.zip(row.chunks(S::LANES)) {
        let power = exp_nonpositive(s, s.sub(s.load_part(x), s.load_part(shift)));
        s.store_part(s.add(s.load_part(sums), power), sums);
    }
}

/// The log-softmax of elements of one row, in two steps: a large maximum would absorb the logarithm of the
/// sum.
#[inline(always)]
pub(in crate::ops) fn log_softmax_of_row(
    from: &[f32],
    maximum: f32,
    sum_logarithm: f32,
    to: &mut [f32],
) {
    for (to, &x) in to.iter_mut().zip(from) {
        *to = (x - maximum) - sum_logarithm;
    }
}

/// The log-softmax of elements of a row of columns, in two steps, as [`log_softmax_of_row`].
#[inline(always)]
pub(in crate::ops) fn log_softmax_of_columns(
    from: &[f32],
    maxima: &[f32],
    sum_logarithms: &[f32],
    to: &mut [f32],
) {
    let shifts = maxima.iter().zip(sum_logarithms);
    for ((to, &x), (&maximum, &logarithm)) in to.iter_mut().zip(from).zip(shifts) {
        *to = (x - maximum) - logarithm;
    }
}
