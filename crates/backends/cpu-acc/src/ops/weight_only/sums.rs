//! Sums of products of rows of f32 and weights that are unpacked in registers, and what is done with them.

use super::ZEROS_PER_WORD;
use crate::activation::Activation;
use crate::panels::WIDTH;
use crate::simd::elements::{VectorElement, add_and_clamp};
use crate::simd::math::map_in_place;
use crate::simd::tile::prefetch;
use crate::simd::{Simd, VectorOp};
use tenon_base::stop;

/// The parameters of the blocks of all columns, in panels of 16 columns.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a> {
    pub(super) rows: &'a [[f32; WIDTH]],
    /// Rows of a panel; 0 where all panels and blocks have the only row.
    pub(super) per_panel: usize,
}

impl<'a> Parameters<'a> {
    /// The rows of a panel, and the distance from the row of a block to the next.
    #[inline(always)]
    fn of_panel(self, panel: usize) -> (&'a [[f32; WIDTH]], usize) {
        let first = panel * self.per_panel;
        (&self.rows[first..], usize::from(self.per_panel > 0))
    }
}

/// The constants of a product: panels of 16 columns, whose blocks along K have a scale and a zero point for each column.
pub(super) struct Constants<'a> {
    /// The weights.
    pub(super) words: &'a [[f32; WIDTH]],
    /// Words of a column, of a block of a column, and blocks of a column.
    pub(super) column_words: usize,
    pub(super) block_words: usize,
    pub(super) blocks: usize,
    pub(super) scales: Parameters<'a>,
    /// In words of four blocks; `None` where all are 0.
    pub(super) zeros: Option<Parameters<'a>>,
}

impl<'a> Constants<'a> {
    /// The constants of a vector of columns that starts at a lane of a panel.
    #[inline(always)]
    fn columns(&self, (panel, lane): (usize, usize)) -> Columns<'a> {
        let words = &self.words[panel * self.column_words..][..self.column_words];
        Columns {
            lane,
            words,
            scales: self.scales.of_panel(panel),
            zeros: self.zeros.map(|zeros| zeros.of_panel(panel)),
        }
    }
}

/// The constants of a vector of columns.
#[derive(Clone, Copy)]
struct Columns<'a> {
    lane: usize,
    words: &'a [[f32; WIDTH]],
    scales: (&'a [[f32; WIDTH]], usize),
    zeros: Option<(&'a [[f32; WIDTH]], usize)>,
}

impl Columns<'_> {
    #[inline(always)]
    fn scale<S: Simd>(&self, s: S, block: usize) -> S::V {
        let (rows, stride) = self.scales;
        s.load(&rows[block * stride][self.lane..])
    }

    /// 0 where there are none.
    #[inline(always)]
    fn zero<S: Simd>(&self, s: S, block: usize) -> S::V {
        let Some((rows, stride)) = self.zeros else {
            return s.splat(0.0);
        };
        let words = s.load(&rows[block / ZEROS_PER_WORD * stride][self.lane..]);
        s.signed_fields::<8>(words, (block % ZEROS_PER_WORD) as u32)
    }
}

/// Words of a column between one that is multiplied and one that is prefetched.
const PREFETCHED: usize = 64;

/// Some panels of results.
pub(super) struct Sums<'a> {
    pub(super) constants: &'a Constants<'a>,
    /// The first panel.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Rows that end with zeros up to a whole word.
    pub(super) a: &'a [f32],
    /// The rows of each panel.
    pub(super) results: &'a mut [f32],
}

/// Evaluates `$body` for the fields of a word, 4 or 8. The compiler does not unroll a loop over a long body, without which
/// sums are not in registers.
macro_rules! each_field {
    ($count:expr, $field:ident => $body:expr) => {
        each_field!(@ $field, $body, 0 1 2 3);
        if $count == 8 {
            each_field!(@ $field, $body, 4 5 6 7);
        }
    };
    (@ $field:ident, $body:expr, $($index:literal)*) => {$({
        const $field: usize = $index;
        $body
    })*};
}

/// Weights of 4 bits.
pub(super) struct Nibbles<'a>(pub(super) Sums<'a>);

/// Weights of 8 bits.
pub(super) struct Bytes<'a>(pub(super) Sums<'a>);

impl VectorOp for Nibbles<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        match self.0.constants.zeros {
            Some(_) => self.0.compute::<S, 4, 8, true>(s),
            None => self.0.compute::<S, 4, 8, false>(s),
        }
    }
}

impl VectorOp for Bytes<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        match self.0.constants.zeros {
            Some(_) => self.0.compute::<S, 8, 4, true>(s),
            None => self.0.compute::<S, 8, 4, false>(s),
        }
    }
}

impl Sums<'_> {
    /// Computes two vectors of columns at a time, of up to four rows.
    #[inline(always)]
    fn compute<S: Simd, const BITS: u32, const PER_WORD: usize, const ZEROS: bool>(mut self, s: S) {
        let vectors = self.results.len() / self.rows.max(1) / S::LANES;
        let mut first = 0;
        while first < vectors {
            stop::checkpoint();
            let both = first + 1 < vectors;
            for row in (0..self.rows).step_by(4) {
                let at = (row, first);
                match ((self.rows - row).min(4), both) {
                    (1, false) => self.tile::<S, BITS, PER_WORD, ZEROS, 1, 1, 4>(s, at),
                    (2, false) => self.tile::<S, BITS, PER_WORD, ZEROS, 2, 1, 4>(s, at),
                    (3, false) => self.tile::<S, BITS, PER_WORD, ZEROS, 3, 1, 2>(s, at),
                    (_, false) => self.tile::<S, BITS, PER_WORD, ZEROS, 4, 1, 2>(s, at),
                    (1, true) => self.tile::<S, BITS, PER_WORD, ZEROS, 1, 2, 4>(s, at),
                    (2, true) => self.tile::<S, BITS, PER_WORD, ZEROS, 2, 2, 2>(s, at),
                    (3, true) => self.tile::<S, BITS, PER_WORD, ZEROS, 3, 2, 1>(s, at),
                    (_, true) => self.tile::<S, BITS, PER_WORD, ZEROS, 4, 2, 1>(s, at),
                }
            }
            first += 1 + usize::from(both);
        }
    }

    /// Computes `ROWS` rows of `VECTORS` vectors of columns. With `ZEROS` there are zero points, which are subtracted from
    /// each weight: the product with an infinite element has the sign of the difference. `CHAINS` sums of each are
    /// independent, as many as the latency of a multiply-add requires.
    #[inline(always)]
    fn tile<
        S: Simd,
        const BITS: u32,
        const PER_WORD: usize,
        const ZEROS: bool,
        const ROWS: usize,
        const VECTORS: usize,
        const CHAINS: usize,
    >(
        &mut self,
        s: S,
        (row, first): (usize, usize),
    ) {
        let constants = self.constants;
        let depth = constants.column_words * PER_WORD;
        let rows: [&[[f32; PER_WORD]]; ROWS] = std::array::from_fn(|nth| {
            let row = &self.a[(row + nth) * depth..][..depth];
            row.as_chunks().0
        });
        // The panel of each vector, counted from the first of all, and its first lane.
        let positions: [(usize, usize); VECTORS] = std::array::from_fn(|nth| {
            let lane = (first + nth) * S::LANES;
            (self.first + lane / WIDTH, lane % WIDTH)
        });
        let columns = positions.map(|position| constants.columns(position));
        let mut totals = [[s.splat(0.0); VECTORS]; ROWS];
        for nth in 0..constants.blocks {
            let start = nth * constants.block_words;
            let count = constants.block_words.min(constants.column_words - start);
            let mut sums = [[[s.splat(0.0); CHAINS]; VECTORS]; ROWS];
            let mut zeros = [s.splat(0.0); VECTORS];
            for vector in 0..VECTORS {
                zeros[vector] = columns[vector].zero(s, nth);
            }
            let of_rows = rows.map(|row| &row[start..][..count]);
            let words = columns.map(|columns| &columns.words[start..][..count]);
            for word in 0..count {
                let mut packed = [s.splat(0.0); VECTORS];
                for vector in 0..VECTORS {
                    if columns[vector].lane == 0 {
                        let mut ahead = start + word + PREFETCHED;
                        if ahead >= constants.column_words {
                            // Of the panels after these.
                            ahead += constants.column_words
                                * (VECTORS * S::LANES / WIDTH).saturating_sub(1);
                        }
                        prefetch(columns[vector].words.as_ptr().wrapping_add(ahead).cast());
                    }
                    packed[vector] = s.load(&words[vector][word][columns[vector].lane..]);
                }
                each_field!(PER_WORD, FIELD => {
                    let mut weights = packed;
                    for vector in 0..VECTORS {
                        let weight = &mut weights[vector];
                        *weight = s.signed_fields::<BITS>(*weight, FIELD as u32);
                        if ZEROS {
                            *weight = s.sub(*weight, zeros[vector]);
                        }
                    }
                    for row in 0..ROWS {
                        let x = s.splat(of_rows[row][word][FIELD]);
                        for vector in 0..VECTORS {
                            let sum = &mut sums[row][vector][FIELD % CHAINS];
                            *sum = s.fma(x, weights[vector], *sum);
                        }
                    }
                });
            }
            for vector in 0..VECTORS {
                let scale = columns[vector].scale(s, nth);
                for index in 0..ROWS {
                    let mut sum = sums[index][vector][0];
                    for &other in &sums[index][vector][1..] {
                        sum = s.add(sum, other);
                    }
                    totals[index][vector] = s.fma(scale, sum, totals[index][vector]);
                }
            }
        }
        for (vector, (panel, lane)) in positions.into_iter().enumerate() {
            let panel = panel - self.first;
            for (index, totals) in totals.iter().enumerate() {
                let at = (panel * self.rows + row + index) * WIDTH + lane;
                s.store(totals[vector], &mut self.results[at..]);
            }
        }
    }
}

/// Unpacks a panel into f32.
pub(super) struct Unpack<'a> {
    pub(super) constants: &'a Constants<'a>,
    pub(super) panel: usize,
    /// Weights of a word.
    pub(super) per_word: usize,
    pub(super) to: &'a mut [f32],
}

impl VectorOp for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        match self.per_word {
            8 => self.unpack::<S, 4, 8>(s),
            _ => self.unpack::<S, 8, 4>(s),
        }
    }
}

impl Unpack<'_> {
    #[inline(always)]
    fn unpack<S: Simd, const BITS: u32, const PER_WORD: usize>(self, s: S) {
        let constants = self.constants;
        for lane in (0..WIDTH).step_by(S::LANES) {
            let rows = self.to.chunks_mut(WIDTH * PER_WORD);
            let columns = constants.columns((self.panel, lane));
            for (word, (words, to)) in columns.words.iter().zip(rows).enumerate() {
                let nth = word / constants.block_words;
                let (scale, zero) = (columns.scale(s, nth), columns.zero(s, nth));
                let packed = s.load(&words[lane..]);
                for field in 0..PER_WORD {
                    let weight = s.signed_fields::<BITS>(packed, field as u32);
                    let at = field * WIDTH + lane;
                    if let Some(to) = to.get_mut(at..at + S::LANES) {
                        s.store(s.mul(s.sub(weight, zero), scale), to);
                    }
                }
            }
        }
    }
}

/// `function(clamp(sums + bias + addend))` in the output's type.
pub(super) struct Epilogue<'a, T> {
    pub(super) sums: &'a mut [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) addend: Option<&'a [T]>,
    pub(super) activation: Activation,
    pub(super) to: &'a mut [T],
}

impl<T: VectorElement> VectorOp for Epilogue<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Activation { limits, function } = self.activation;
        let none = [f32::NEG_INFINITY, f32::INFINITY];
        let zeros = [0.0; WIDTH];
        let bias = self.bias.unwrap_or(&zeros);
        let first = if self.addend.is_some() { none } else { limits };
        add_and_clamp(s, bias, first, self.sums);
        if let Some(addend) = self.addend {
            add_and_clamp(s, addend, limits, self.sums);
        }
        if let Some(function) = function {
            map_in_place(s, function, self.sums);
        }
        T::narrow(s, self.sums, self.to);
    }
}
