//! Moves bytes: runs, strided elements, blocked transposes, spread over the pool when large. The
//! only module of this crate with unsafe code.

use crate::loops::{Loop, MAX_LOOPS, Nest};
use std::mem::MaybeUninit;
use tenon_base::pool;

/// Bytes above which a movement is worth several threads: some ten microseconds of copying.
const SPREAD_BYTES: usize = 256 << 10;

/// Bytes of a row of a transposed block: a cache line.
const LINE: usize = 64;

/// Source and target of a movement, shared by the threads that each write a part of the target.
#[derive(Clone, Copy)]
struct Ends {
    from: *const u8,
    to: *mut u8,
}

// SAFETY: threads only read through `from`, and write through `to` bytes that are theirs alone: the
// loops they run are parts of an injective nest that share no iteration.
unsafe impl Send for Ends {}
// SAFETY: as above.
unsafe impl Sync for Ends {}

impl Ends {
    /// # Safety
    /// Both sides have at least as many bytes left.
    unsafe fn moved(self, from: usize, to: usize) -> Self {
        // SAFETY: the caller vouches.
        unsafe {
            Self {
                from: self.from.add(from),
                to: self.to.add(to),
            }
        }
    }
}

/// The part of a nest that one thread runs.
#[derive(Clone, Copy)]
struct Part {
    run: usize,
    loops: [Loop; MAX_LOOPS],
    rank: usize,
}

/// Bytes of one side that a nest touches: the last byte's position plus one.
fn extent(nest: &Nest, step: impl Fn(&Loop) -> usize) -> Option<usize> {
    nest.loops().iter().try_fold(nest.run, |end, each| {
        end.checked_add((each.count - 1).checked_mul(step(each))?)
    })
}

/// Copies what `nest` says from the start of `from` to the start of `to`. Both must be as long as
/// the nest reaches; false (and nothing moved) when one is not.
pub(crate) fn copy(nest: &Nest, from: &[u8], to: &mut [u8]) -> bool {
    let fits = |len: usize, end: Option<usize>| end.is_some_and(|end| end <= len);
    if !fits(from.len(), extent(nest, |each| each.from))
        || !fits(to.len(), extent(nest, |each| each.to))
    {
        return false;
    }
    let mut part = Part {
        run: nest.run,
        loops: Default::default(),
        rank: nest.loops().len(),
    };
    part.loops[..part.rank].copy_from_slice(nest.loops());
    let ends = Ends {
        from: from.as_ptr(),
        to: to.as_mut_ptr(),
    };
    let bytes = nest
        .loops()
        .iter()
        .fold(nest.run, |bytes, each| bytes.saturating_mul(each.count));
    let threads = pool::threads();
    if !nest.is_injective || bytes < SPREAD_BYTES || threads == 1 {
        // SAFETY: the nest stays inside of both slices (checked above), which do not overlap.
        unsafe { copy_part(&part, ends, nest.is_injective) };
        return true;
    }
    let pieces = threads.saturating_mul(4).min(bytes / (SPREAD_BYTES / 8));
    match widest(&part, threads) {
        Some(axis) => {
            let whole = part.loops[axis];
            let pieces = pieces.min(whole.count);
            pool::for_each(pieces, |piece| {
                let range = piece_of(whole.count, pieces, piece, 16);
                let mut part = part;
                part.loops[axis].count = range.len();
                // SAFETY: as above; the pieces share no iteration of the loop `axis`.
                unsafe {
                    let ends = ends.moved(range.start * whole.from, range.start * whole.to);
                    if !range.is_empty() {
                        copy_part(&part, ends, true);
                    }
                }
            });
        }
        None => pool::for_each(pieces, |piece| {
            let range = piece_of(part.run, pieces, piece, LINE);
            let mut part = part;
            part.run = range.len();
            // SAFETY: as above; the pieces share no byte of the runs.
            unsafe {
                let ends = ends.moved(range.start, range.start);
                copy_part(&part, ends, true);
            }
        }),
    }
    true
}

/// Calls `body` with each piece of `bytes` bytes of `target` (the last may be shorter) and its
/// number, on several threads.
pub(crate) fn spread(target: &mut [u8], bytes: usize, body: &(impl Fn(usize, &mut [u8]) + Sync)) {
    let bytes = bytes.max(1);
    let len = target.len();
    let ends = Ends {
        from: std::ptr::null(),
        to: target.as_mut_ptr(),
    };
    pool::for_each(len.div_ceil(bytes), |piece| {
        // The whole value, not its pointer alone, is what may be shared.
        let ends: Ends = ends;
        let start = piece * bytes;
        let count = bytes.min(len - start);
        // SAFETY: the piece lies inside the target, which is borrowed mutably, and each piece is
        // visited once.
        let part = unsafe { std::slice::from_raw_parts_mut(ends.to.add(start), count) };
        body(piece, part);
    });
}

/// The loop to spread over threads, preferring outer ones; `None` for the run itself.
fn widest(part: &Part, threads: usize) -> Option<usize> {
    let loops = &part.loops[..part.rank];
    let enough = loops.iter().rposition(|each| each.count >= 4 * threads);
    if enough.is_some() || part.run >= SPREAD_BYTES {
        return enough;
    }
    (0..part.rank).max_by_key(|&axis| loops[axis].count)
}

/// Iterations of piece `piece`, in multiples of `unit` where there are enough.
fn piece_of(count: usize, pieces: usize, piece: usize, unit: usize) -> std::ops::Range<usize> {
    let unit = if count >= pieces * unit { unit } else { 1 };
    let units = count.div_ceil(unit);
    let at = |piece: usize| (units * piece / pieces * unit).min(count);
    at(piece)..at(piece + 1)
}

/// # Safety
/// All bytes the loops reach are valid at both ends, and no byte of one end is one of the other.
/// `reorder` only for loops that write no byte twice.
unsafe fn copy_part(part: &Part, ends: Ends, reorder: bool) {
    // SAFETY: the caller vouches, here and for the runs of other sizes.
    unsafe {
        match part.run {
            1 => copy_elements::<1>(part, ends, reorder),
            2 => copy_elements::<2>(part, ends, reorder),
            3 => copy_elements::<3>(part, ends, reorder),
            4 => copy_elements::<4>(part, ends, reorder),
            6 => copy_elements::<6>(part, ends, reorder),
            8 => copy_elements::<8>(part, ends, reorder),
            12 => copy_elements::<12>(part, ends, reorder),
            16 => copy_elements::<16>(part, ends, reorder),
            run => for_each_run(&part.loops[..part.rank], ends, &|ends| {
                std::ptr::copy_nonoverlapping(ends.from, ends.to, run);
            }),
        }
    }
}

/// Elements of `N` bytes, strided on one side at least.
///
/// # Safety
/// As for [`copy_part`].
unsafe fn copy_elements<const N: usize>(part: &Part, ends: Ends, reorder: bool) {
    let loops = &part.loops[..part.rank];
    let Some((&write, outer)) = loops.split_first() else {
        // SAFETY: the caller vouches for one run.
        unsafe { std::ptr::copy_nonoverlapping(ends.from, ends.to, N) };
        return;
    };
    // Written with one loop, read with another: block the two, the others around them.
    let read = loops.iter().enumerate().filter(|(_, each)| each.from >= N);
    let read = read.min_by_key(|(_, each)| each.from).map(|(axis, _)| axis);
    if let Some(axis) = read.filter(|&axis| axis > 0 && reorder && N <= 8)
        && loops[axis].from < write.from
    {
        let read = loops[axis];
        let mut rest = [Loop::default(); MAX_LOOPS];
        let others = (1..part.rank).filter(|&other| other != axis);
        let mut count = 0;
        for (slot, other) in rest.iter_mut().zip(others) {
            *slot = loops[other];
            count += 1;
        }
        // SAFETY: the same iterations in another order, which the caller allows.
        unsafe {
            for_each_run(&rest[..count], ends, &|ends| {
                transpose::<N>(read, write, ends)
            });
        }
        return;
    }
    // SAFETY: the caller vouches.
    unsafe {
        for_each_run(outer, ends, &|ends| copy_row::<N>(write, ends));
    }
}

/// Calls `each` at the start of every iteration of `loops` (innermost first).
///
/// # Safety
/// All positions the loops reach are inside both ends.
unsafe fn for_each_run(loops: &[Loop], ends: Ends, each: &impl Fn(Ends)) {
    match loops.split_last() {
        None => each(ends),
        Some((outer, inner)) => {
            for index in 0..outer.count {
                // SAFETY: the caller vouches.
                unsafe {
                    let ends = ends.moved(index * outer.from, index * outer.to);
                    for_each_run(inner, ends, each);
                }
            }
        }
    }
}

/// # Safety
/// The row lies inside both ends, which do not overlap.
unsafe fn copy_row<const N: usize>(row: Loop, ends: Ends) {
    let (from, to) = (ends.from.cast::<[u8; N]>(), ends.to.cast::<[u8; N]>());
    // SAFETY: the caller vouches; byte arrays have no alignment.
    unsafe {
        if row.from == 0 && row.to == N {
            let value = *from;
            for index in 0..row.count {
                *to.add(index) = value;
            }
        } else if row.to == N {
            for index in 0..row.count {
                *to.add(index) = *from.byte_add(index * row.from);
            }
        } else if row.from == N {
            for index in 0..row.count {
                *to.byte_add(index * row.to) = *from.add(index);
            }
        } else {
            for index in 0..row.count {
                *to.byte_add(index * row.to) = *from.byte_add(index * row.from);
            }
        }
    }
}

/// A transpose of elements of `N` bytes: `read` runs along the source, `write` along the target.
/// Blocks of a cache line by a cache line pass through a buffer on the stack, so that whole lines
/// are read and written even where the strides of many rows fall on the same cache set.
///
/// # Safety
/// All positions of both loops lie inside both ends, which do not overlap.
unsafe fn transpose<const N: usize>(read: Loop, write: Loop, ends: Ends) {
    let side = LINE / N;
    for write_at in (0..write.count).step_by(side) {
        let writes = side.min(write.count - write_at);
        for read_at in (0..read.count).step_by(side) {
            let reads = side.min(read.count - read_at);
            // SAFETY: the caller vouches for all positions of both loops.
            unsafe {
                let ends = ends.moved(
                    write_at * write.from + read_at * read.from,
                    write_at * write.to + read_at * read.to,
                );
                let whole = reads == side && writes == side;
                if whole && read.from == N && write.to == N {
                    transpose_block::<N>(write.from, read.to, ends);
                } else {
                    for index in 0..reads {
                        let ends = ends.moved(index * read.from, index * read.to);
                        copy_row::<N>(
                            Loop {
                                count: writes,
                                ..write
                            },
                            ends,
                        );
                    }
                }
            }
        }
    }
}

/// A whole block: 64 bytes of each of 64 / N rows, `from_row` and `to_row` bytes apart.
///
/// # Safety
/// As for [`transpose`].
unsafe fn transpose_block<const N: usize>(from_row: usize, to_row: usize, ends: Ends) {
    #[cfg(target_arch = "x86_64")]
    if N == 4 {
        // SAFETY: the caller vouches.
        return unsafe { transpose_words(from_row, to_row, ends) };
    }
    let side = LINE / N;
    // Rows of the source as they are, then gathered by column. Only `side` of them are used.
    let mut block = [const { MaybeUninit::<[u8; LINE]>::uninit() }; LINE];
    // SAFETY: the caller vouches for 64 bytes at each row of both ends; of the block, only rows
    // that were written are read.
    unsafe {
        for (row, line) in block.iter_mut().enumerate().take(side) {
            line.write(*ends.from.add(row * from_row).cast::<[u8; LINE]>());
        }
        for row in 0..side {
            let mut line = [0u8; LINE];
            for (target, source) in line.as_chunks_mut::<N>().0.iter_mut().zip(&block) {
                target.copy_from_slice(&source.assume_init_ref()[row * N..row * N + N]);
            }
            *ends.to.add(row * to_row).cast::<[u8; LINE]>() = line;
        }
    }
}

/// A block of 16 by 16 elements of four bytes, in quarters of 4 by 4 that stay in registers. The
/// instructions are those that every x86-64 has.
///
/// # Safety
/// As for [`transpose`].
#[cfg(target_arch = "x86_64")]
unsafe fn transpose_words(from_row: usize, to_row: usize, ends: Ends) {
    use std::arch::x86_64::*;
    // Each line of the source is touched once: rows a power of two apart share a cache set, which
    // has no room for sixteen.
    let mut block = [const { MaybeUninit::<[u8; LINE]>::uninit() }; 16];
    // SAFETY: the caller vouches for 64 bytes at each of 16 rows of both ends.
    unsafe {
        for (row, line) in block.iter_mut().enumerate() {
            line.write(*ends.from.add(row * from_row).cast::<[u8; LINE]>());
        }
        let block: *const u8 = block.as_ptr().cast();
        for column in (0..4).map(|quarter| quarter * 16) {
            for row in (0..4).map(|quarter| quarter * 4) {
                let load =
                    |index: usize| _mm_loadu_si128(block.add((row + index) * LINE + column).cast());
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
                    let to = ends.to.add((column / 4 + index) * to_row + row * 4);
                    _mm_storeu_si128(to.cast(), value);
                }
            }
        }
    }
}
