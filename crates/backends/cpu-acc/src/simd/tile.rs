//! The micro-kernel of GEMM (GotoBLAS, BLIS): one tile of the output, whose sums stay in registers
//! over a K block, as a sequence of rank-1 updates.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::Simd;
use super::products::Product;
use crate::panels::WIDTH;
use std::sync::atomic::{Ordering, compiler_fence};

/// Rows of the table of row pointers: at least the rows of a tile, at any level.
pub(crate) const MAX_ROWS: usize = 16;

/// A micro-kernel of one level, for tiles of one number of rows and panels.
///
/// # Safety
/// The CPU has the level's instructions; the tile is as [`compute`] requires.
pub(crate) type Kernel = unsafe fn(&Tile<'_>);

/// Most rows of a tile that reads each element of B for few multiply-adds: the time of reading B bounds it, and it
/// prefetches its own panels into the first-level cache, whether or not other tiles read them too (as at levels with
/// tiles of few rows).
const FEW_ROWS: usize = 4;

/// Rows of B between one that such a tile multiplies and one that it prefetches.
const FEW_ROWS_AHEAD: usize = 24;

/// Pointers to the rows of A of one tile, at one kernel position.
pub(crate) type RowPointers<T = f32> = [*const T; MAX_ROWS];

/// One tile and one K block of its sum: `C[r][c] += sum over positions and depth of
/// rows[position][r][k] * B[position * depth + k][c]`, then, in the last K block of a product of f32, the
/// epilogue. Of other products A, B and C have words of 32 bits, see [`Product`].
pub(crate) struct Tile<'a> {
    /// For each kernel position its rows of A.
    pub(crate) rows: &'a [RowPointers],
    /// Elements of each row at each position: of f32, else rows of B in words.
    pub(crate) depth: usize,
    /// The first panel of B, at the first row of this K block.
    pub(crate) panel: *const f32,
    /// Elements from a panel to the next.
    pub(crate) panel_stride: usize,
    /// The tile's first column in C.
    pub(crate) output: *mut f32,
    /// The offset of each row of the tile in C.
    pub(crate) offsets: &'a [usize; MAX_ROWS],
    /// Columns of C in the tile: at most those of the kernel's vectors, more than those of all but
    /// the last vector's panel.
    pub(crate) columns: usize,
    /// Whether this is the first K block of the sum: the tile's former content is not added.
    pub(crate) first: bool,
    /// Whether this is the last K block of the sum: the epilogue is applied.
    pub(crate) last: bool,
    pub(crate) epilogue: Epilogue,
    pub(crate) prefetch: Prefetch,
    /// Elements of C from a row of the tile to that of the tile which is computed next in these columns: its lines are
    /// prefetched during the sum. 0 where there is none.
    pub(crate) next_rows: usize,
}

/// The operations fused into the last store of a tile:
/// `min(max(C * scale + bias + addend, low), high)`.
pub(crate) struct Epilogue {
    /// One element per column, or null.
    pub(crate) bias: *const f32,
    /// The tile's first column in a matrix of the layout of C, or null.
    pub(crate) addend: *const f32,
    /// The factor of the sum.
    pub(crate) scale: f32,
    /// The least result.
    pub(crate) low: f32,
    /// The greatest result.
    pub(crate) high: f32,
    /// Whether the tile is written with non-temporal stores; each of its rows is aligned to a vector.
    pub(crate) stream: bool,
}

/// The memory of B that is multiplied next: prefetched during the sum.
pub(crate) struct Prefetch {
    /// The first line; any address, valid or not.
    pub(crate) address: *const f32,
    /// Elements from a panel to the next.
    pub(crate) stride: usize,
    /// Cache lines of each panel.
    pub(crate) lines: usize,
}

/// Computes a tile of `ROWS` rows and `VECTORS` vectors of columns.
///
/// # Safety
/// The first `ROWS` pointers of each kernel position are valid for reading `depth` elements; `panel`
/// for `rows.len() * depth * 16` elements, at each of the panels; `output` for writing (and reading,
/// unless `first`) `columns` elements at each of the rows; `bias`, unless null, for reading `columns`
/// elements; `addend`, unless null, for reading `columns` elements at each of the rows. Where
/// `stream` is set, each row of `output` is aligned to a vector. `output` overlaps none of the others. Where
/// elements are words, a row of A has [`Product::ROW_WORDS`] of them for each of `depth`.
#[inline(always)]
pub(super) unsafe fn compute<S: Simd, P: Product<S>, const ROWS: usize, const VECTORS: usize>(
    s: S,
    tile: &Tile<'_>,
) {
    // SAFETY: the same requirements as this function's, which the caller fulfils.
    unsafe {
        if ROWS * VECTORS <= 4 {
            // Too few independent sums to hide the latency of a multiply-add: four chains each.
            compute_chains::<S, P, ROWS, VECTORS, 4>(s, tile);
        } else if ROWS * VECTORS <= 7 {
            compute_chains::<S, P, ROWS, VECTORS, 2>(s, tile);
        } else {
            compute_chains::<S, P, ROWS, VECTORS, 1>(s, tile);
        }
    }
}

/// [`compute`] with `CHAINS` partial sums for each element of the tile, added up at the end.
///
/// # Safety
/// As for [`compute`].
#[inline(always)]
unsafe fn compute_chains<
    S: Simd,
    P: Product<S>,
    const ROWS: usize,
    const VECTORS: usize,
    const CHAINS: usize,
>(
    s: S,
    tile: &Tile<'_>,
) {
    // The addend is prefetched during the sum, one line every four steps.
    let panels = (VECTORS * S::LANES).div_ceil(WIDTH);
    let mut addend_lines = if tile.last && !tile.epilogue.addend.is_null() {
        0..ROWS * panels
    } else {
        0..0
    };
    if tile.next_rows > 0 {
        for offset in tile.offsets.iter().take(ROWS) {
            let row = tile.output.wrapping_add(offset + tile.next_rows);
            (0..panels).for_each(|panel| prefetch(row.wrapping_add(panel * WIDTH)));
        }
    }
    let mut sums = [[[s.splat(0.0); VECTORS]; ROWS]; CHAINS];
    let mut b = tile.panel;
    // From the end of a position's rows of B to the panels after these.
    let to_next_panels = panels
        .wrapping_mul(tile.panel_stride)
        .wrapping_sub(tile.depth * WIDTH);
    let mut next = tile.prefetch.address;
    let mut next_lines = tile.prefetch.lines;
    for position in tile.rows {
        // A copy, so that the pointers stay in registers across the fences of the steps.
        let rows: [*const f32; ROWS] = *position.first_chunk().unwrap_or_else(|| unreachable!());
        let rows = &rows;
        let mut k = 0;
        while k + 4 <= tile.depth {
            // SAFETY: `k + 3` is below `depth`, so that the steps read elements of the rows and of
            // the panels that the caller guarantees; `b` is at row `k` of this position.
            unsafe {
                if ROWS <= FEW_ROWS {
                    let mut ahead = b.wrapping_add(FEW_ROWS_AHEAD * WIDTH);
                    if k + FEW_ROWS_AHEAD >= tile.depth {
                        ahead = ahead.wrapping_add(to_next_panels);
                    }
                    for panel in 0..panels {
                        let first = ahead.wrapping_add(panel * tile.panel_stride);
                        (0..4).for_each(|line| {
                            prefetch_first_level(first.wrapping_add(line * WIDTH))
                        });
                    }
                } else if next_lines > 0 {
                    for panel in 0..panels {
                        let line = next.wrapping_add(panel * tile.prefetch.stride);
                        prefetch(line);
                        prefetch(line.wrapping_add(WIDTH));
                    }
                    next = next.wrapping_add(2 * WIDTH);
                    next_lines = next_lines.saturating_sub(2);
                }
                if let Some(line) = addend_lines.next() {
                    let row = tile
                        .epilogue
                        .addend
                        .wrapping_add(tile.offsets[line / panels]);
                    prefetch(row.wrapping_add(line % panels * WIDTH));
                }
                step::<S, P, ROWS, VECTORS>(s, rows, k, b, tile.panel_stride, &mut sums[0]);
                step::<S, P, ROWS, VECTORS>(
                    s,
                    rows,
                    k + 1,
                    b.add(WIDTH),
                    tile.panel_stride,
                    &mut sums[1 % CHAINS],
                );
                step::<S, P, ROWS, VECTORS>(
                    s,
                    rows,
                    k + 2,
                    b.add(2 * WIDTH),
                    tile.panel_stride,
                    &mut sums[2 % CHAINS],
                );
                step::<S, P, ROWS, VECTORS>(
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
            // SAFETY: `k` is below `depth`, so that the step reads elements of the rows and of the
            // panels that the caller guarantees; `b` is at row `k` of this position.
            unsafe {
                step::<S, P, ROWS, VECTORS>(s, rows, k, b, tile.panel_stride, &mut sums[0]);
                b = b.add(WIDTH);
            }
            k += 1;
        }
    }
    let mut total = sums[0];
    for chain in sums.iter().skip(1) {
        for (total, chain) in total.iter_mut().zip(chain) {
            for (total, &chain) in total.iter_mut().zip(chain) {
                *total = P::add(s, *total, chain);
            }
        }
    }
    let epilogue = &tile.epilogue;
    let is_simple = tile.first && tile.last && epilogue.addend.is_null() && !epilogue.stream;
    // SAFETY: the caller guarantees `columns` elements of output, bias and addend in `ROWS` rows;
    // `WHOLE` is set only where they are all columns of the vectors, `SIMPLE` only for a simple epilogue.
    unsafe {
        if !P::FLOATS {
            write_words::<S, P, ROWS, VECTORS>(s, tile, total);
        } else if tile.columns != VECTORS * S::LANES {
            write::<S, ROWS, VECTORS, false, false>(s, tile, total);
        } else if is_simple {
            write::<S, ROWS, VECTORS, true, true>(s, tile, total);
        } else {
            write::<S, ROWS, VECTORS, true, false>(s, tile, total);
        }
    }
}

/// The rank-1 update of the sums by column `k` of the rows and one row of B.
///
/// # Safety
/// Each row is valid for reading element `k`, and `b` for reading 16 elements at each of the panels.
#[inline(always)]
unsafe fn step<S: Simd, P: Product<S>, const ROWS: usize, const VECTORS: usize>(
    s: S,
    rows: &[*const f32; ROWS],
    k: usize,
    b: *const f32,
    panel_stride: usize,
    sums: &mut [[S::V; VECTORS]; ROWS],
) {
    let per_panel = WIDTH / S::LANES;
    if S::LANES == WIDTH / 2 {
        // Of the 16 registers of this level the sums leave four. Without the fence the compiler loads the vectors of the
        // next step early and keeps six sums on the stack, which costs ResNet-50 a fifth of its time. It is no instruction.
        compiler_fence(Ordering::SeqCst);
    }
    for nth in 0..P::ROW_WORDS {
        let mut columns = [s.splat(0.0); VECTORS];
        for (v, column) in columns.iter_mut().enumerate() {
            let panel = b.wrapping_add(v / per_panel * panel_stride);
            // SAFETY: the caller guarantees 16 elements or words of each panel, of which this is one of the vectors.
            *column = unsafe { P::columns(s, panel, v % per_panel * S::LANES, nth) };
        }
        for (row, sums) in rows.iter().zip(&mut *sums) {
            // SAFETY: the caller guarantees the elements or words of each row. Words of bytes may be unaligned.
            let a = s.splat(unsafe { row.add(k * P::ROW_WORDS + nth).read_unaligned() });
            let a = P::row(s, a);
            for (sum, &column) in sums.iter_mut().zip(&columns) {
                *sum = P::multiply_add(s, a, column, *sum);
            }
        }
    }
}

/// Stores the sums of words, added to the former ones unless this is the first K block.
///
/// # Safety
/// As for [`compute`], whose `output` has all columns of the vectors.
#[inline(always)]
unsafe fn write_words<S: Simd, P: Product<S>, const ROWS: usize, const VECTORS: usize>(
    s: S,
    tile: &Tile<'_>,
    sums: [[S::V; VECTORS]; ROWS],
) {
    for (r, sums) in sums.into_iter().enumerate() {
        let output = tile.output.wrapping_add(tile.offsets[r]);
        for (v, mut sum) in sums.into_iter().enumerate() {
            let to = output.wrapping_add(v * S::LANES);
            // SAFETY: the caller guarantees all lanes of each vector in each row.
            unsafe {
                if !tile.first {
                    sum = P::add(s, sum, s.load_ptr(to));
                }
                s.store_ptr(sum, to);
            }
        }
    }
}

/// Stores the tile, after the epilogue when this is the last K block.
///
/// # Safety
/// `output`, `bias` and `addend` are as [`compute`] requires; `WHOLE` only when the tile has all
/// columns of its vectors; `SIMPLE` only in the single K block of a sum without addend, and without
/// non-temporal stores: without branches on these the sums stay in registers.
#[inline(always)]
unsafe fn write<
    S: Simd,
    const ROWS: usize,
    const VECTORS: usize,
    const WHOLE: bool,
    const SIMPLE: bool,
>(
    s: S,
    tile: &Tile<'_>,
    sums: [[S::V; VECTORS]; ROWS],
) {
    let count = |v: usize| tile.columns.saturating_sub(v * S::LANES).min(S::LANES);
    // SAFETY: `count(v)` elements of vector `v` are among the tile's `columns`, for which the caller
    // guarantees the pointer; with `WHOLE` that is every lane.
    let load = |from: *const f32, v: usize| unsafe {
        match (WHOLE, count(v)) {
            (true, _) => s.load_ptr(from.add(v * S::LANES)),
            (false, 0) => s.splat(0.0),
            (false, count) if count == S::LANES => s.load_ptr(from.add(v * S::LANES)),
            (false, count) => s.load_part_ptr(from.add(v * S::LANES), count),
        }
    };
    let mut bias = [s.splat(0.0); VECTORS];
    let epilogue = &tile.epilogue;
    let (is_first, is_last) = (SIMPLE || tile.first, SIMPLE || tile.last);
    if is_last && !epilogue.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            *bias = load(epilogue.bias, v);
        }
    }
    let scale = s.splat(epilogue.scale);
    let (low, high) = (s.splat(epilogue.low), s.splat(epilogue.high));
    for (r, sums) in sums.into_iter().enumerate() {
        let output = tile.output.wrapping_add(tile.offsets[r]);
        for (v, mut sum) in sums.into_iter().enumerate() {
            if !is_first {
                sum = s.add(sum, load(output, v));
            }
            if is_last {
                sum = s.fma(sum, scale, bias[v]);
                if !SIMPLE && !epilogue.addend.is_null() {
                    let addend = epilogue.addend.wrapping_add(tile.offsets[r]);
                    sum = s.add(sum, load(addend, v));
                }
                sum = s.min(high, s.max(low, sum));
            }
            let output = output.wrapping_add(v * S::LANES);
            // SAFETY: `count(v)` elements of vector `v` are among the tile's `columns`, which the
            // caller guarantees for writing in each row; with `WHOLE` that is every lane. Rows are
            // aligned to a vector where `stream` is set. Masked stores are slow on some CPUs.
            unsafe {
                match (WHOLE, count(v)) {
                    (true, _) if !SIMPLE && epilogue.stream => s.stream_ptr(sum, output),
                    (true, _) => s.store_ptr(sum, output),
                    (false, 0) => {}
                    (false, count) if count == S::LANES => s.store_ptr(sum, output),
                    (false, count) => s.store_part_ptr(sum, output, count),
                }
            }
        }
    }
}

/// Prefetches all cache lines of `elements` into the second level cache.
#[inline(always)]
pub(crate) fn prefetch_all<T>(elements: &[T]) {
    let lines = size_of_val(elements).div_ceil(64);
    (0..lines).for_each(|line| prefetch(elements.as_ptr().cast::<f32>().wrapping_add(line * 16)));
}

/// Prefetches the cache line at `address`, which need not be valid, into the second level cache.
#[inline(always)]
pub(crate) fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory, whatever the address; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// As [`prefetch`], into the first level cache.
#[inline(always)]
fn prefetch_first_level(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
