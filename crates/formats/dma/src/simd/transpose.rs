//! Transposition of a block of `64 / N` by `64 / N` elements: a cache line of each row.

#![allow(unsafe_code, reason = "vector instructions")]

use crate::mover::LINE;
use std::mem::MaybeUninit;
#[cfg(target_arch = "x86_64")]
use tenon_base::CpuLevel;

/// Transposes a block of `64 / N` rows of 64 bytes with elements of `N` bytes. The row strides are
/// `from_row` and `to_row` bytes. `is_streaming` selects non-temporal stores; the caller calls
/// [`fence`] after the last block.
///
/// [`fence`]: super::fence
///
/// # Safety
/// 64 bytes are valid for reads at each row of `from` and for writes at each row of `to`; source and
/// target do not overlap.
pub(crate) unsafe fn transpose_block<const N: usize>(
    from: *const u8,
    from_row: isize,
    to: *mut u8,
    to_row: isize,
    is_streaming: bool,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the rows are valid and disjoint by contract; AVX2 and AVX-512F are detected before the kernels
    // that need them; all rows of the target are aligned to 64 where `is_streaming` remains set.
    unsafe {
        let is_streaming =
            is_streaming && to.align_offset(LINE) == 0 && to_row % LINE as isize == 0;
        if N == 4 && CpuLevel::in_use() >= CpuLevel::Avx512 {
            return x86::words_avx512(from, from_row, to, to_row, is_streaming);
        }
        // Rows of this stride alias in few sets of the first cache, and `words` copies their lines first.
        if N == 4 && CpuLevel::in_use() >= CpuLevel::Avx2 && from_row % 2048 != 0 {
            return x86::words_avx2(from, from_row, to, to_row);
        }
        if N == 4 {
            return x86::words(from, from_row, to, to_row);
        }
        if N == 2 {
            return x86::narrow::<2, 32>(from, from_row, to, to_row);
        }
        if N == 1 {
            return x86::narrow::<1, 64>(from, from_row, to, to_row);
        }
        if N == 8 && CpuLevel::in_use() >= CpuLevel::Avx512 {
            return x86::doubles_avx512(from, from_row, to, to_row, is_streaming);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = is_streaming;
    // SAFETY: the contract of `portable` is that of this function.
    unsafe { portable::<N>(from, from_row, to, to_row) };
}

/// # Safety
/// As for [`transpose_block`].
unsafe fn portable<const N: usize>(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
    let side = LINE / N;
    // Copies the rows of the source, then gathers columns. Only `side` of the rows are used.
    let mut block = [const { MaybeUninit::<[u8; LINE]>::uninit() }; LINE];
    // SAFETY: 64 bytes are valid at each of `side` rows of source and target by contract; the first
    // loop initialises the `side` rows of the block that the second one reads.
    unsafe {
        for (row, line) in block.iter_mut().enumerate().take(side) {
            line.write(*from.offset(row as isize * from_row).cast::<[u8; LINE]>());
        }
        for row in 0..side {
            let mut line = [0u8; LINE];
            for (target, source) in line.as_chunks_mut::<N>().0.iter_mut().zip(&block) {
                target.copy_from_slice(&source.assume_init_ref()[row * N..row * N + N]);
            }
            *to.offset(row as isize * to_row).cast::<[u8; LINE]>() = line;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::LINE;
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    /// A block of 16 by 16 elements of four bytes, as 4 by 4 sub-blocks in registers (SSE2).
    ///
    /// # Safety
    /// As for [`super::transpose_block`].
    pub unsafe fn words(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
        // Loads each line of the source once: rows with a power-of-two stride alias in one cache set,
        // whose associativity is less than sixteen.
        let mut block = [const { MaybeUninit::<[u8; LINE]>::uninit() }; 16];
        // SAFETY: 64 bytes are valid at each of 16 rows of source and target by contract; all 16 rows
        // of the block are initialised before they are loaded, at offsets below 16 lines.
        unsafe {
            for (row, line) in block.iter_mut().enumerate() {
                line.write(*from.offset(row as isize * from_row).cast::<[u8; LINE]>());
            }
            let block: *const u8 = block.as_ptr().cast();
            for column in (0..4).map(|quarter| quarter * 16) {
                for row in (0..4).map(|quarter| quarter * 4) {
                    let load = |index: usize| {
                        _mm_loadu_si128(block.add((row + index) * LINE + column).cast())
                    };
                    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
                    let (ab_low, cd_low) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
                    let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
                    let columns = [
                        _mm_unpacklo_epi64(ab_low, cd_low),
                        _mm_unpackhi_epi64(ab_low, cd_low),
                        _mm_unpacklo_epi64(ab_high, cd_high),
                        _mm_unpackhi_epi64(ab_high, cd_high),
                    ];
                    for (index, value) in columns.into_iter().enumerate() {
                        let to = to.offset((column / 4 + index) as isize * to_row);
                        _mm_storeu_si128(to.add(row * 4).cast(), value);
                    }
                }
            }
        }
    }

    /// A block of 16 by 16 elements of four bytes, as 8 by 4 sub-blocks in registers.
    ///
    /// # Safety
    /// As for [`super::transpose_block`].
    #[target_feature(enable = "avx2")]
    pub unsafe fn words_avx2(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
        // SAFETY: 64 bytes are valid at each of 16 rows of source and target by contract.
        unsafe {
            for row in [0, 8] {
                for column in (0..16).step_by(4) {
                    let quarter = |index: isize| {
                        let line = from.offset((row + index) * from_row);
                        _mm_loadu_ps(line.offset(column * 4).cast())
                    };
                    // Four elements of a row and of the fourth one after it.
                    let load = |index| _mm256_set_m128(quarter(index + 4), quarter(index));
                    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
                    let pair = |a, b| _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
                    let high_pair = |a, b| _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
                    let columns = [
                        _mm256_unpacklo_pd(pair(a, b), pair(c, d)),
                        _mm256_unpackhi_pd(pair(a, b), pair(c, d)),
                        _mm256_unpacklo_pd(high_pair(a, b), high_pair(c, d)),
                        _mm256_unpackhi_pd(high_pair(a, b), high_pair(c, d)),
                    ];
                    for (index, value) in (column..).zip(columns) {
                        let to = to.offset(index * to_row + row * 4);
                        _mm256_storeu_pd(to.cast(), value);
                    }
                }
            }
        }
    }

    /// A block of elements of one or two bytes, `SIDE` per line, as square sub-blocks in registers
    /// (SSE2).
    ///
    /// # Safety
    /// As for [`super::transpose_block`], with `SIDE` rows.
    pub unsafe fn narrow<const N: usize, const SIDE: usize>(
        from: *const u8,
        from_row: isize,
        to: *mut u8,
        to_row: isize,
    ) {
        let count = 16 / N;
        let mut block = [const { MaybeUninit::<[u8; LINE]>::uninit() }; SIDE];
        // SAFETY: 64 bytes are valid at each of `SIDE` rows of source and target by contract; all
        // rows of the block are initialised before they are loaded, at offsets below `SIDE` lines.
        unsafe {
            for (row, line) in block.iter_mut().enumerate() {
                line.write(*from.offset(row as isize * from_row).cast::<[u8; LINE]>());
            }
            let block: *const u8 = block.as_ptr().cast();
            for column in (0..SIDE).step_by(count) {
                for row in (0..SIDE).step_by(count) {
                    let mut square = [_mm_setzero_si128(); 16];
                    for (index, value) in square.iter_mut().take(count).enumerate() {
                        let at = (row + index) * LINE + column * N;
                        *value = _mm_loadu_si128(block.add(at).cast());
                    }
                    // Transposes by repeated interleaving: each pass rotates the concatenated bits
                    // of row and column index by one.
                    for _ in 0..count.trailing_zeros() {
                        let mut next = square;
                        for index in 0..count / 2 {
                            let (a, b) = (square[index], square[index + count / 2]);
                            (next[2 * index], next[2 * index + 1]) = if N == 1 {
                                (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b))
                            } else {
                                (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b))
                            };
                        }
                        square = next;
                    }
                    for (index, value) in square.into_iter().take(count).enumerate() {
                        let to = to.offset((column + index) as isize * to_row);
                        _mm_storeu_si128(to.add(row * N).cast(), value);
                    }
                }
            }
        }
    }

    /// A block of 16 by 16 elements of four bytes, in registers.
    ///
    /// # Safety
    /// As for [`super::transpose_block`]; with `is_streaming` all rows of the target are aligned to 64.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn words_avx512(
        from: *const u8,
        from_row: isize,
        to: *mut u8,
        to_row: isize,
        is_streaming: bool,
    ) {
        // SAFETY: 64 bytes are valid at each of 16 rows of source and target by contract.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); 16];
            for (index, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.offset(index as isize * from_row).cast());
            }
            // Transposes 4 by 4 elements within each 128-bit lane.
            let mut squares = [_mm512_setzero_si512(); 16];
            for group in (0..16).step_by(4) {
                let [a, b, c, d] = [0, 1, 2, 3].map(|index| rows[group + index]);
                let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                squares[group] = _mm512_unpacklo_epi64(ab_low, cd_low);
                squares[group + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
                squares[group + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
                squares[group + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
            }
            // Transposes the lanes as a 4 by 4 matrix.
            for column in 0..4 {
                let lines = quarters([0, 4, 8, 12].map(|group| squares[group + column]));
                for (quarter, line) in lines.into_iter().enumerate() {
                    let to = to.offset((quarter * 4 + column) as isize * to_row);
                    store(to, line, is_streaming);
                }
            }
        }
    }

    /// A block of 8 by 8 elements of eight bytes, in registers.
    ///
    /// # Safety
    /// As for [`words_avx512`].
    #[target_feature(enable = "avx512f")]
    pub unsafe fn doubles_avx512(
        from: *const u8,
        from_row: isize,
        to: *mut u8,
        to_row: isize,
        is_streaming: bool,
    ) {
        // SAFETY: 64 bytes are valid at each of 8 rows of source and target by contract.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); 8];
            for (index, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.offset(index as isize * from_row).cast());
            }
            for odd in 0..2 {
                // Interleaves pairs of rows: lane q has column 2 q + odd of both.
                let pair = |row: usize| {
                    if odd == 0 {
                        _mm512_unpacklo_epi64(rows[row], rows[row + 1])
                    } else {
                        _mm512_unpackhi_epi64(rows[row], rows[row + 1])
                    }
                };
                let lines = quarters([pair(0), pair(2), pair(4), pair(6)]);
                for (quarter, line) in lines.into_iter().enumerate() {
                    let to = to.offset((quarter * 2 + odd) as isize * to_row);
                    store(to, line, is_streaming);
                }
            }
        }
    }

    /// Transposes a 4 by 4 matrix of 128-bit lanes.
    #[target_feature(enable = "avx512f")]
    fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let ab_even = _mm512_shuffle_i32x4::<0x88>(a, b);
        let ab_odd = _mm512_shuffle_i32x4::<0xdd>(a, b);
        let cd_even = _mm512_shuffle_i32x4::<0x88>(c, d);
        let cd_odd = _mm512_shuffle_i32x4::<0xdd>(c, d);
        [
            _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even),
            _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd),
            _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even),
            _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd),
        ]
    }

    /// # Safety
    /// `to` is valid for writes of 64 bytes, and aligned to 64 if `is_streaming`.
    #[target_feature(enable = "avx512f")]
    unsafe fn store(to: *mut u8, line: __m512i, is_streaming: bool) {
        // SAFETY: validity and, for the non-temporal store, alignment are the caller's contract.
        unsafe {
            if is_streaming {
                _mm512_stream_si512(to.cast(), line);
            } else {
                _mm512_storeu_si512(to.cast(), line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>() {
        let from: Vec<u8> = (0..64 * 80u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for (streams, shift) in [(false, 0), (true, 0), (true, 4)] {
            let mut to = vec![0u8; 64 * 130];
            let shift = to.as_ptr().align_offset(64) + shift;
            let side = 64 / N;
            // SAFETY: rows of 64 bytes, 80 and 128 bytes apart, at most 64 of them, end before the
            // ends of the vectors.
            unsafe {
                transpose_block::<N>(from.as_ptr(), 80, to[shift..].as_mut_ptr(), 128, streams);
            };
            for row in 0..side {
                for column in 0..side {
                    let at = shift + row * 128 + column * N;
                    let source = column * 80 + row * N;
                    assert_eq!(
                        to[at..at + N],
                        from[source..source + N],
                        "{N} {row} {column}"
                    );
                }
            }
        }
    }

    #[test]
    fn blocks_of_every_element_size_are_transposed() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
    }
}
