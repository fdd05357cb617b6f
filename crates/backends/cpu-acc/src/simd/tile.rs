//! The micro-kernel: one tile of the output of a matrix product, kept in registers while it runs
//! along the depth.

use super::Simd;
use crate::panels::WIDTH;

/// Room for the rows of a tile in the table of row pointers, at any level.
pub(crate) const MAX_ROWS: usize = 16;

/// A micro-kernel of some level, for tiles of some number of rows and panels.
///
/// # Safety
/// The CPU has the level's instructions; see [`compute`] for the tile.
pub(crate) type Kernel = unsafe fn(&Tile<'_>);

/// Pointers to the rows of A that a tile multiplies, for one tap.
pub(crate) type RowPointers = [*const f32; MAX_ROWS];

/// One tile: `C[r][c] = sum over taps and depth of rows[tap][r][k] * B[tap * depth + k][c]`, then, in
/// the last part of the sum, `min(max(C * scale + bias + addend, low), high)`.
pub(crate) struct Tile<'a> {
    /// For each tap its rows of A.
    pub(crate) rows: &'a [RowPointers],
    /// Numbers of each row.
    pub(crate) depth: usize,
    /// The first panel of B, at the first row of this part of the sum.
    pub(crate) panel: *const f32,
    /// Numbers from a panel to the next.
    pub(crate) panel_stride: usize,
    /// The tile's first number in C.
    pub(crate) output: *mut f32,
    /// Numbers from a row of C to the next.
    pub(crate) output_stride: usize,
    /// Columns of C that the tile has: more than those of the kernel's panels but the last.
    pub(crate) columns: usize,
    /// A number for each column, or null.
    pub(crate) bias: *const f32,
    /// What is added to each number of C, in rows that lie as C's do, or null.
    pub(crate) addend: *const f32,
    /// Numbers from a row of the addend to the next.
    pub(crate) addend_stride: usize,
    /// What the sum is multiplied with.
    pub(crate) scale: f32,
    /// The least result.
    pub(crate) low: f32,
    /// The greatest result.
    pub(crate) high: f32,
    /// Whether this is the first part of the sum: C's former numbers do not count.
    pub(crate) first: bool,
    /// Whether it is the last: scale, bias, addend and limits are applied.
    pub(crate) last: bool,
    /// Whether the output, which has the alignment of a vector in each row, is written past the
    /// caches.
    pub(crate) stream: bool,
    /// What is wanted next of the memory of B, in panels too: fetched ahead while the sum runs. Any
    /// address will do.
    pub(crate) ahead: *const f32,
    /// Numbers from a panel of it to the next.
    pub(crate) ahead_stride: usize,
    /// Lines to fetch of each panel.
    pub(crate) ahead_lines: usize,
}

/// Computes a tile of `ROWS` rows and `VECTORS` vectors of columns.
///
/// # Safety
/// The first `ROWS` pointers of each tap are valid for reading `depth` numbers; `panel` for
/// `rows.len() * depth * 16` numbers, at each of the panels; `output` for writing (and reading, unless
/// `first`) `columns` numbers at each of the rows; `bias` and `addend`, unless null, for reading as
/// many. `output` overlaps none of the others.
#[inline(always)]
pub(super) unsafe fn compute<S: Simd, const ROWS: usize, const VECTORS: usize>(
    s: S,
    tile: &Tile<'_>,
) {
    // SAFETY: every access is one the caller vouches for.
    unsafe {
        if ROWS * VECTORS <= 4 {
            // Too few sums to keep the multipliers busy: four chains of each.
            compute_chains::<S, ROWS, VECTORS, 4>(s, tile);
        } else if ROWS * VECTORS <= 7 {
            compute_chains::<S, ROWS, VECTORS, 2>(s, tile);
        } else {
            compute_chains::<S, ROWS, VECTORS, 1>(s, tile);
        }
    }
}

/// The same with `CHAINS` sums for each number of the tile, added up at the end.
///
/// # Safety
/// As for [`compute`].
#[inline(always)]
unsafe fn compute_chains<S: Simd, const ROWS: usize, const VECTORS: usize, const CHAINS: usize>(
    s: S,
    tile: &Tile<'_>,
) {
    // What is added when the sum is done comes line by line meanwhile.
    let panels = VECTORS * S::LANES / WIDTH;
    let mut addend_lines = match tile.last && !tile.addend.is_null() {
        true => 0..ROWS * panels,
        false => 0..0,
    };
    let mut sums = [[[s.splat(0.0); VECTORS]; ROWS]; CHAINS];
    let mut b = tile.panel;
    let mut ahead = tile.ahead;
    let mut ahead_lines = tile.ahead_lines;
    for taps in tile.rows {
        let rows: &[*const f32; ROWS] = taps.first_chunk().unwrap_or_else(|| unreachable!());
        let mut k = 0;
        while k + 4 <= tile.depth {
            // SAFETY: the caller vouches for rows and panels of `depth`.
            unsafe {
                if ahead_lines > 0 {
                    for panel in 0..panels {
                        let line = ahead.wrapping_add(panel * tile.ahead_stride);
                        prefetch(line);
                        prefetch(line.wrapping_add(WIDTH));
                    }
                    ahead = ahead.wrapping_add(2 * WIDTH);
                    ahead_lines = ahead_lines.saturating_sub(2);
                }
                if let Some(line) = addend_lines.next() {
                    let row = tile.addend.wrapping_add(line / panels * tile.addend_stride);
                    prefetch(row.wrapping_add(line % panels * WIDTH));
                }
                step(s, rows, k, b, tile.panel_stride, &mut sums[0]);
                step(
                    s,
                    rows,
                    k + 1,
                    b.add(WIDTH),
                    tile.panel_stride,
                    &mut sums[1 % CHAINS],
                );
                step(
                    s,
                    rows,
                    k + 2,
                    b.add(2 * WIDTH),
                    tile.panel_stride,
                    &mut sums[2 % CHAINS],
                );
                step(
                    s,
                    rows,
                    k + 3,
                    b.add(3 * WIDTH),
                    tile.panel_stride,
                    &mut sums[3 % CHAINS],
                );
                b = b.add(4 * WIDTH);
            }
            k += 4;
        }
        while k < tile.depth {
            // SAFETY: as above.
            unsafe {
                step(s, rows, k, b, tile.panel_stride, &mut sums[0]);
                b = b.add(WIDTH);
            }
            k += 1;
        }
    }
    let mut total = sums[0];
    for chain in sums.iter().skip(1) {
        for (total, chain) in total.iter_mut().zip(chain) {
            for (total, &chain) in total.iter_mut().zip(chain) {
                *total = s.add(*total, chain);
            }
        }
    }
    // SAFETY: the caller vouches for output, bias and addend.
    unsafe {
        if tile.columns == VECTORS * S::LANES {
            write::<S, ROWS, VECTORS, true>(s, tile, total);
        } else {
            write::<S, ROWS, VECTORS, false>(s, tile, total);
        }
    }
}

/// Adds the products of column `k` of the rows with row `k` of B.
///
/// # Safety
/// Rows and panels reach `k`.
#[inline(always)]
unsafe fn step<S: Simd, const ROWS: usize, const VECTORS: usize>(
    s: S,
    rows: &[*const f32; ROWS],
    k: usize,
    b: *const f32,
    panel_stride: usize,
    sums: &mut [[S::V; VECTORS]; ROWS],
) {
    let per_panel = WIDTH / S::LANES;
    let mut columns = [s.splat(0.0); VECTORS];
    for (v, column) in columns.iter_mut().enumerate() {
        let at = v / per_panel * panel_stride + v % per_panel * S::LANES;
        // SAFETY: inside the panel, as the caller vouches.
        *column = unsafe { s.load_ptr(b.add(at)) };
    }
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: inside the row, as the caller vouches.
        let a = s.splat(unsafe { *row.add(k) });
        for (sum, &column) in sums.iter_mut().zip(&columns) {
            *sum = s.fma(a, column, *sum);
        }
    }
}

/// Writes the tile out, with what comes after the sum when this is its last part.
///
/// # Safety
/// As for [`compute`]; `WHOLE` only when the tile has all columns of its vectors.
#[inline(always)]
unsafe fn write<S: Simd, const ROWS: usize, const VECTORS: usize, const WHOLE: bool>(
    s: S,
    tile: &Tile<'_>,
    sums: [[S::V; VECTORS]; ROWS],
) {
    let count = |v: usize| tile.columns.saturating_sub(v * S::LANES).min(S::LANES);
    // SAFETY: both read the columns that the tile has, for which the caller vouches.
    let load = |from: *const f32, v: usize| unsafe {
        match (WHOLE, count(v)) {
            (true, _) => s.load_ptr(from.add(v * S::LANES)),
            (false, 0) => s.splat(0.0),
            (false, count) => s.load_part_ptr(from.add(v * S::LANES), count),
        }
    };
    let mut bias = [s.splat(0.0); VECTORS];
    if tile.last && !tile.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            *bias = load(tile.bias, v);
        }
    }
    let (scale, low, high) = (s.splat(tile.scale), s.splat(tile.low), s.splat(tile.high));
    for (r, sums) in sums.into_iter().enumerate() {
        let output = tile.output.wrapping_add(r * tile.output_stride);
        for (v, mut sum) in sums.into_iter().enumerate() {
            if !tile.first {
                sum = s.add(sum, load(output, v));
            }
            if tile.last {
                sum = s.fma(sum, scale, bias[v]);
                if !tile.addend.is_null() {
                    let addend = tile.addend.wrapping_add(r * tile.addend_stride);
                    sum = s.add(sum, load(addend, v));
                }
                sum = s.min(high, s.max(low, sum));
            }
            // SAFETY: the columns that the tile has, for which the caller vouches.
            unsafe {
                match (WHOLE, count(v)) {
                    (true, _) if tile.stream => s.stream_ptr(sum, output.add(v * S::LANES)),
                    (true, _) => s.store_ptr(sum, output.add(v * S::LANES)),
                    (false, 0) => {}
                    (false, count) => s.store_part_ptr(sum, output.add(v * S::LANES), count),
                }
            }
        }
    }
}

/// Asks for the line at `address`, which need not be valid.
#[inline(always)]
fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is no access; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
