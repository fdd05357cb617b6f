//! Moves bytes: runs, strided elements, blocked transposes, spread over the pool when large.

use crate::loops::{Loop, MAX_LOOPS, Nest};
use crate::simd;
use tenon_base::pool;

/// Bytes above which a movement is worth several threads: some ten microseconds of copying.
const SPREAD_BYTES: usize = 256 << 10;

/// Bytes of a row of a transposed block: a cache line.
pub(crate) const LINE: usize = 64;

/// Bytes of a row of a tile of blocks.
const TILE: usize = 4 * LINE;

/// Runs that are long enough for streaming stores, whose two ends are stored as usual.
const LONG_RUN: usize = 4 << 10;

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
    /// Both positions are inside of what the two sides point into.
    unsafe fn moved(self, from: isize, to: isize) -> Self {
        // SAFETY: the caller vouches.
        unsafe {
            Self {
                from: self.from.offset(from),
                to: self.to.offset(to),
            }
        }
    }

    /// Some iterations of a loop on.
    ///
    /// # Safety
    /// As for [`Ends::moved`].
    unsafe fn after(self, count: usize, each: &Loop) -> Self {
        let count = count as isize;
        // SAFETY: the caller vouches; positions inside of memory do not overflow.
        unsafe { self.moved(count * each.from, count * each.to) }
    }
}

/// The part of a nest that one thread runs.
#[derive(Clone, Copy)]
struct Part {
    run: usize,
    loops: [Loop; MAX_LOOPS],
    rank: usize,
    /// Whether so much is written that it had better not push everything else out of the caches.
    streams: bool,
}

/// Whether all bytes of one side that a nest touches lie in its `len` bytes.
fn fits(nest: &Nest, start: usize, len: usize, step: impl Fn(&Loop) -> isize) -> bool {
    let (mut low, mut high) = (Some(start), start.checked_add(nest.run));
    for each in nest.loops() {
        let step = step(each);
        let bytes = step.unsigned_abs().checked_mul(each.count - 1);
        let side = if step < 0 { &mut low } else { &mut high };
        *side = side.zip(bytes).and_then(|(at, bytes)| {
            if step < 0 {
                at.checked_sub(bytes)
            } else {
                at.checked_add(bytes)
            }
        });
    }
    low.is_some() && high.is_some_and(|high| high <= len)
}

/// Copies what `nest` says from `from`, which starts at the lowest byte that it reads, to `to`,
/// which starts at the lowest that it writes; false (and nothing moved) when one is too short.
pub(crate) fn copy(nest: &Nest, from: &[u8], to: &mut [u8]) -> bool {
    if !fits(nest, nest.from_start, from.len(), |each| each.from)
        || !fits(nest, nest.to_start, to.len(), |each| each.to)
    {
        return false;
    }
    let mut part = Part {
        run: nest.run,
        loops: Default::default(),
        rank: nest.loops().len(),
        streams: false,
    };
    part.loops[..part.rank].copy_from_slice(nest.loops());
    let ends = Ends {
        // SAFETY: the nest's first iteration lies inside of both slices (checked above).
        from: unsafe { from.as_ptr().add(nest.from_start) },
        // SAFETY: as above.
        to: unsafe { to.as_mut_ptr().add(nest.to_start) },
    };
    let bytes = nest
        .loops()
        .iter()
        .fold(nest.run, |bytes, each| bytes.saturating_mul(each.count));
    part.streams = nest.is_injective && bytes >= simd::STREAM_BYTES;
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
                    if !range.is_empty() {
                        copy_part(&part, ends.after(range.start, &whole), true);
                    }
                }
            });
        }
        None => pool::for_each(pieces, |piece| {
            let range = piece_of(part.run, pieces, piece, LINE);
            let mut part = part;
            part.run = range.len();
            let start = range.start as isize;
            // SAFETY: as above; the pieces share no byte of the runs.
            unsafe { copy_part(&part, ends.moved(start, start), true) };
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
            run if part.streams && run >= LONG_RUN => {
                for_each_run(&part.loops[..part.rank], ends, &|ends| {
                    simd::copy(ends.from, ends.to, run);
                });
            }
            run => for_each_run(&part.loops[..part.rank], ends, &|ends| {
                std::ptr::copy_nonoverlapping(ends.from, ends.to, run);
            }),
        }
    }
    if part.streams {
        simd::fence();
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
    let size = N as isize;
    let read = loops
        .iter()
        .enumerate()
        .filter(|(_, each)| each.from >= size);
    let read = read.min_by_key(|(_, each)| each.from).map(|(axis, _)| axis);
    if let Some(axis) = read.filter(|&axis| axis > 0 && reorder && N <= 8)
        && loops[axis].from < write.from.abs()
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
                transpose::<N>(read, write, ends, part.streams)
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
                    for_each_run(inner, ends.after(index, outer), each);
                }
            }
        }
    }
}

/// # Safety
/// The row lies inside both ends, which do not overlap.
unsafe fn copy_row<const N: usize>(row: Loop, ends: Ends) {
    let (from, to) = (ends.from.cast::<[u8; N]>(), ends.to.cast::<[u8; N]>());
    let size = N as isize;
    // SAFETY: the caller vouches; byte arrays have no alignment.
    unsafe {
        if row.from == 0 && row.to == size {
            let value = *from;
            for index in 0..row.count {
                *to.add(index) = value;
            }
        } else if row.to == size {
            for index in 0..row.count {
                *to.add(index) = *from.byte_offset(index as isize * row.from);
            }
        } else if row.from == size {
            for index in 0..row.count {
                *to.byte_offset(index as isize * row.to) = *from.add(index);
            }
        } else {
            for index in 0..row.count as isize {
                *to.byte_offset(index * row.to) = *from.byte_offset(index * row.from);
            }
        }
    }
}

/// A transpose of elements of `N` bytes: `read` runs along the source, `write` along the target.
/// Blocks of a cache line by a cache line, so that whole lines are read and written even where the
/// strides of many rows fall on the same cache set; tiles of several blocks, so that a page is
/// touched for more than one line.
///
/// # Safety
/// All positions of both loops lie inside both ends, which do not overlap.
unsafe fn transpose<const N: usize>(read: Loop, write: Loop, ends: Ends, streams: bool) {
    let tile = TILE / N;
    for write_at in (0..write.count).step_by(tile) {
        let count = tile.min(write.count - write_at);
        let write_tile = Loop { count, ..write };
        for read_at in (0..read.count).step_by(tile) {
            let count = tile.min(read.count - read_at);
            let read_tile = Loop { count, ..read };
            // SAFETY: the caller vouches for all positions of both loops.
            unsafe {
                let ends = ends.after(write_at, &write).after(read_at, &read);
                transpose_tile::<N>(read_tile, write_tile, ends, streams);
            }
        }
    }
}

/// # Safety
/// As for [`transpose`].
unsafe fn transpose_tile<const N: usize>(read: Loop, write: Loop, ends: Ends, streams: bool) {
    let side = LINE / N;
    let packed = read.from == N as isize && write.to == N as isize;
    for read_at in (0..read.count).step_by(side) {
        let reads = side.min(read.count - read_at);
        for write_at in (0..write.count).step_by(side) {
            let writes = side.min(write.count - write_at);
            // SAFETY: the caller vouches for all positions of both loops.
            unsafe {
                let ends = ends.after(write_at, &write).after(read_at, &read);
                if reads == side && writes == side && packed {
                    simd::transpose_block::<N>(ends.from, write.from, ends.to, read.to, streams);
                } else {
                    let count = writes;
                    for index in 0..reads {
                        copy_row::<N>(Loop { count, ..write }, ends.after(index, &read));
                    }
                }
            }
        }
    }
}
