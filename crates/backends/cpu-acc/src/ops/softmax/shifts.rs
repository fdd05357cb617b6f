//! The shifts of a safe softmax and of log-sum-exp: maxima, and sums of the exponentials of the
//! differences to them, of rows and of columns.

use crate::floats::Floats;
use crate::ops::blocks::{BLOCK, blocks};
use crate::simd::math::exp;
use crate::simd::{Level, MAX_LANES, Simd};
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
            let power = exp(s, s.sub(s.load_part(x), maximum));
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

/// The sum of `exp(x - shift)` over a row.
#[inline(always)]
pub(in crate::ops) fn sum_exp<S: Simd>(s: S, row: &[f32], shift: f32) -> f32 {
    let shift_vector = s.splat(shift);
    let mut sums = [s.splat(0.0); 2];
    let whole = row.len() - row.len() % (2 * S::LANES);
    for pair in row[..whole].chunks_exact(2 * S::LANES) {
        let (a, b) = pair.split_at(S::LANES);
        sums = [
            s.add(sums[0], exp(s, s.sub(s.load(a), shift_vector))),
            s.add(sums[1], exp(s, s.sub(s.load(b), shift_vector))),
        ];
    }
    let mut rest = 0.0;
    for chunk in row[whole..].chunks(S::LANES) {
        let mut lanes = [0.0; MAX_LANES];
        s.store(exp(s, s.sub(s.load_part(chunk), shift_vector)), &mut lanes);
        rest += lanes[..chunk.len()].iter().sum::<f32>();
    }
    s.sum(s.add(sums[0], sums[1])) + rest
}

/// Replaces the elements of a row by `exp(x - shift)`, and returns their sum.
#[inline(always)]
pub(super) fn replace_by_exp<S: Simd>(s: S, row: &mut [f32], shift: f32) -> f32 {
    let shift = s.splat(shift);
    let mut sums = [s.splat(0.0); 2];
    let whole = row.len() - row.len() % (2 * S::LANES);
    let (body, tail) = row.split_at_mut(whole);
    for pair in body.chunks_exact_mut(2 * S::LANES) {
        let (first, second) = pair.split_at_mut(S::LANES);
        let (a, b) = (
            exp(s, s.sub(s.load(first), shift)),
            exp(s, s.sub(s.load(second), shift)),
        );
        s.store(a, first);
        s.store(b, second);
        sums = [s.add(sums[0], a), s.add(sums[1], b)];
    }
    let mut rest = 0.0;
    for chunk in tail.chunks_mut(S::LANES) {
        s.store_part(exp(s, s.sub(s.load_part(chunk), shift)), chunk);
        rest += chunk.iter().sum::<f32>();
    }
    s.sum(s.add(sums[0], sums[1])) + rest
}

/// Adds `exp(x - shift)` of each column to its sum.
#[inline(always)]
pub(in crate::ops) fn add_exp<S: Simd>(s: S, row: &[f32], shifts: &[f32], sums: &mut [f32]) {
    let sums = sums.chunks_mut(S::LANES).zip(shifts.chunks(S::LANES));
    for ((sums, shift), x) in sums.zip(row.chunks(S::LANES)) {
        let power = exp(s, s.sub(s.load_part(x), s.load_part(shift)));
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
