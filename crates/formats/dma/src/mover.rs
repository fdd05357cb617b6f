//! Copy kernels: contiguous runs, strided elements, cache-blocked transposes; large copies are
//! distributed over the thread pool.

#![allow(unsafe_code, reason = "copies between raw regions")]

use crate::loops::{Loop, MAX_LOOPS, Nest};
use crate::simd;
use std::sync::atomic::{Ordering, compiler_fence};
use tenon_base::pool;

/// Bytes from which a copy is distributed over threads: some ten microseconds of copying.
const SPREAD_BYTES: usize = 256 << 10;

/// Bytes of a row of a transpose block: a cache line.
pub(crate) const LINE: usize = 64;

/// Bytes of a run up to which it is copied in place.
const SHORT_RUN: usize = 256;

/// Bytes of a row of a tile of transpose blocks.
const TILE: usize = 4 * LINE;

/// Bytes of a run from which non-temporal stores are used; its unaligned ends use ordinary stores.
const LONG_RUN: usize = 4 << 10;

/// Addresses of source and target, shared by threads that write disjoint parts of the target.
#[derive(Clone, Copy)]
struct Ends {
    from: *const u8,
    to: *mut u8,
}

// SAFETY: the pointers are dereferenced only in unsafe functions whose callers guarantee that threads
// only read through `from` and write disjoint bytes through `to`: `copy` gives each thread its own
// iterations of an injective nest, `for_each_chunk` its own chunk.
unsafe impl Send for Ends {}
// SAFETY: a shared reference gives no more than copies of the pointers; the contracts of the unsafe
// functions that dereference them exclude data races.
unsafe impl Sync for Ends {}

impl Ends {
    /// The addresses at these byte offsets.
    ///
    /// # Safety
    /// Both results are inside the allocation of their pointer or one past its end.
    unsafe fn offset(self, from: isize, to: isize) -> Self {
        // SAFETY: the caller guarantees that both offsets stay in their allocations.
        unsafe {
            Self {
                from: self.from.offset(from),
                to: self.to.offset(to),
            }
        }
    }

    /// The addresses after `count` iterations of a loop.
    ///
    /// # Safety
    /// Both results are inside the allocation of their pointer or one past its end.
    unsafe fn after(self, count: usize, each: &Loop) -> Self {
        let count = count as isize;
        // SAFETY: the caller guarantees that both results stay in their allocations, whose size is
        // at most `isize::MAX`, so that the products do not overflow.
        unsafe { self.offset(count * each.from, count * each.to) }
    }
}

/// The part of a loop nest that one thread runs.
#[derive(Clone, Copy)]
struct NestPart {
    run: usize,
    loops: [Loop; MAX_LOOPS],
    rank: usize,
    /// Whether to write with non-temporal stores: the target exceeds the caches.
    is_streaming: bool,
}

/// Whether all accesses of a nest to one side are in bounds of its `len` bytes.
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

/// Executes a nest from `from`, which starts at the lowest byte read, to `to`, which starts at the
/// lowest byte written. False, with nothing written, when a slice is too short.
pub(crate) fn copy(nest: &Nest, from: &[u8], to: &mut [u8]) -> bool {
    if !fits(nest, nest.from_start, from.len(), |each| each.from)
        || !fits(nest, nest.to_start, to.len(), |each| each.to)
    {
        return false;
    }
    let mut part = NestPart {
        run: nest.run,
        loops: Default::default(),
        rank: nest.loops().len(),
        is_streaming: false,
    };
    part.loops[..part.rank].copy_from_slice(nest.loops());
    let ends = Ends {
        // SAFETY: `fits` has verified that the first iteration of the nest is inside `from`.
        from: unsafe { from.as_ptr().add(nest.from_start) },
        // SAFETY: `fits` has verified that the first iteration of the nest is inside `to`.
        to: unsafe { to.as_mut_ptr().add(nest.to_start) },
    };
    let bytes = nest
        .loops()
        .iter()
        .fold(nest.run, |bytes, each| bytes.saturating_mul(each.count));
    part.is_streaming = nest.is_injective && bytes >= simd::STREAM_BYTES;
    let threads = pool::threads();
    if !nest.is_injective || bytes < SPREAD_BYTES || threads == 1 {
        // SAFETY: `fits` has verified that all accesses of the nest are in bounds; a shared and a
        // mutable slice do not overlap; loops are reordered only if no byte is written twice.
        unsafe { copy_part(&part, ends, nest.is_injective) };
        return true;
    }
    let chunks = threads.saturating_mul(4).min(bytes / (SPREAD_BYTES / 8));
    match parallel_loop(&part, threads) {
        Some(axis) => {
            let whole = part.loops[axis];
            let chunks = chunks.min(whole.count);
            pool::for_each(chunks, |chunk| {
                let range = chunk_range(whole.count, chunks, chunk, 16);
                let mut part = part;
                part.loops[axis].count = range.len();
                // SAFETY: a part of the iterations of the nest, whose accesses are in bounds
                // (`fits`). The chunks share no iteration of the loop `axis`, and the nest is
                // injective, so that no byte is written by two threads.
                unsafe {
                    if !range.is_empty() {
                        copy_part(&part, ends.after(range.start, &whole), true);
                    }
                }
            });
        }
        None => pool::for_each(chunks, |chunk| {
            let range = chunk_range(part.run, chunks, chunk, LINE);
            let mut part = part;
            part.run = range.len();
            let start = range.start as isize;
            // SAFETY: a part of each run of the nest, whose accesses are in bounds (`fits`). The
            // chunks share no byte of the runs, and the nest is injective, so that no byte is written
            // by two threads.
            unsafe { copy_part(&part, ends.offset(start, start), true) };
        }),
    }
    true
}

/// Calls `body` in parallel with the index and the bytes of each chunk of `bytes` bytes of `target`;
/// the last chunk may be shorter.
pub(crate) fn for_each_chunk(
    target: &mut [u8],
    bytes: usize,
    body: &(impl Fn(usize, &mut [u8]) + Sync),
) {
    let bytes = bytes.max(1);
    let len = target.len();
    let ends = Ends {
        from: std::ptr::null(),
        to: target.as_mut_ptr(),
    };
    pool::for_each(len.div_ceil(bytes), |chunk| {
        // Captures the whole value, which is `Sync`, instead of the pointer field, which is not.
        let ends: Ends = ends;
        let start = chunk * bytes;
        let count = bytes.min(len - start);
        // SAFETY: `start + count` is at most the length of `target`, which is mutably borrowed for
        // this function; chunks of different indices are disjoint, and each index is visited once.
        let part = unsafe { std::slice::from_raw_parts_mut(ends.to.add(start), count) };
        body(chunk, part);
    });
}

/// The loop to distribute over threads: the outermost one with enough iterations, or the longest one;
/// `None` to split the runs.
fn parallel_loop(part: &NestPart, threads: usize) -> Option<usize> {
    let loops = &part.loops[..part.rank];
    let enough = loops.iter().rposition(|each| each.count >= 4 * threads);
    if enough.is_some() || part.run >= SPREAD_BYTES {
        return enough;
    }
    (0..part.rank).max_by_key(|&axis| loops[axis].count)
}

/// The iterations of a chunk, in multiples of `unit` where there are enough.
fn chunk_range(count: usize, chunks: usize, chunk: usize, unit: usize) -> std::ops::Range<usize> {
    let unit = if count >= chunks * unit { unit } else { 1 };
    let units = count.div_ceil(unit);
    let start = |chunk: usize| (units * chunk / chunks * unit).min(count);
    start(chunk)..start(chunk + 1)
}

/// # Safety
/// All bytes that the part accesses are valid for reads from `ends.from` and for writes from
/// `ends.to`; source and target do not overlap. `reorder` requires that no byte is written twice.
unsafe fn copy_part(part: &NestPart, ends: Ends, reorder: bool) {
    // SAFETY: the caller guarantees the validity of all accesses of the part and that source and
    // target do not overlap, which is the contract of the kernel for each size of run.
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
            run if part.is_streaming && run >= LONG_RUN => {
                for_each_run(&part.loops[..part.rank], ends, &|ends| {
                    simd::copy(ends.from, ends.to, run);
                });
            }
            run @ 16..=SHORT_RUN => for_each_run(&part.loops[..part.rank], ends, &|ends| {
                copy_short(ends, run);
            }),
            run => for_each_run(&part.loops[..part.rank], ends, &|ends| {
                std::ptr::copy_nonoverlapping(ends.from, ends.to, run);
            }),
        }
    }
    if part.is_streaming {
        simd::fence();
    }
}

/// Copies a run of 16 to [`SHORT_RUN`] bytes. A call of the library's function would take as long as the copy.
///
/// # Safety
/// `len` is at least 16; as many bytes are valid for reads from `ends.from` and for writes from `ends.to`, and do
/// not overlap.
#[inline(always)]
unsafe fn copy_short(ends: Ends, len: usize) {
    // SAFETY: all parts of 16 bytes lie in the run, the last one at its end.
    unsafe {
        let last = len - 16;
        for at in (0..last).step_by(16) {
            *ends.to.add(at).cast::<[u8; 16]>() = *ends.from.add(at).cast::<[u8; 16]>();
            // Else the compiler makes a call of memmove of the loop.
            compiler_fence(Ordering::SeqCst);
        }
        *ends.to.add(last).cast::<[u8; 16]>() = *ends.from.add(last).cast::<[u8; 16]>();
    }
}

/// Copies elements of `N` bytes, strided on at least one side.
///
/// # Safety
/// As for [`copy_part`], with runs of `N` bytes.
unsafe fn copy_elements<const N: usize>(part: &NestPart, ends: Ends, reorder: bool) {
    let loops = &part.loops[..part.rank];
    let Some((&write, outer)) = loops.split_first() else {
        // SAFETY: without loops the part is one run of `N` bytes, valid and disjoint by contract.
        unsafe { std::ptr::copy_nonoverlapping(ends.from, ends.to, N) };
        return;
    };
    // If the innermost loops of reads and of writes differ, both are blocked (a transpose).
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
        // SAFETY: the same iterations in another order, which `reorder` permits; all their accesses
        // are valid by the contract of this function.
        unsafe {
            for_each_run(&rest[..count], ends, &|ends| {
                transpose::<N>(read, write, ends, part.is_streaming)
            });
        }
        return;
    }
    // SAFETY: the loops of the part, all of whose accesses are valid by the contract of this function.
    unsafe {
        for_each_run(outer, ends, &|ends| copy_row::<N>(write, ends));
    }
}

/// Calls `each` at the start of every iteration of `loops` (innermost first).
///
/// # Safety
/// The positions of all iterations are inside the allocations of both pointers.
unsafe fn for_each_run(loops: &[Loop], ends: Ends, each: &impl Fn(Ends)) {
    match loops {
        [] => each(ends),
        [only] => {
            for index in 0..only.count {
                // SAFETY: an iteration of the only loop, whose positions are inside both allocations by contract.
                each(unsafe { ends.after(index, only) });
            }
        }
        [inner @ .., outer] => {
            for index in 0..outer.count {
                // SAFETY: iteration `index` of the outer loop, whose positions are inside both
                // allocations by contract.
                unsafe {
                    for_each_run(inner, ends.after(index, outer), each);
                }
            }
        }
    }
}

/// Copies a row of elements of `N` bytes.
///
/// # Safety
/// All elements of the row are valid for reads from `ends.from` and for writes from `ends.to`; source
/// and target do not overlap.
unsafe fn copy_row<const N: usize>(row: Loop, ends: Ends) {
    let (from, to) = (ends.from.cast::<[u8; N]>(), ends.to.cast::<[u8; N]>());
    let size = N as isize;
    // SAFETY: elements `0..count` are valid by contract; byte arrays have an alignment of 1.
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

/// Transposes elements of `N` bytes with two levels of cache blocking: the loop `read` is contiguous
/// in the source, `write` in the target. Blocks of a cache line by a cache line read and write whole
/// lines even if the rows alias in the same cache sets; tiles of several blocks use several lines of
/// each page per TLB entry.
///
/// # Safety
/// The elements of all iterations of both loops are valid for reads from `ends.from` and for writes
/// from `ends.to`; source and target do not overlap.
unsafe fn transpose<const N: usize>(read: Loop, write: Loop, ends: Ends, is_streaming: bool) {
    let tile = TILE / N;
    for write_at in (0..write.count).step_by(tile) {
        let count = tile.min(write.count - write_at);
        let write_tile = Loop { count, ..write };
        for read_at in (0..read.count).step_by(tile) {
            let count = tile.min(read.count - read_at);
            let read_tile = Loop { count, ..read };
            // SAFETY: the iterations of the tile are iterations of both loops, whose elements are
            // valid by contract.
            unsafe {
                let ends = ends.after(write_at, &write).after(read_at, &read);
                transpose_tile::<N>(read_tile, write_tile, ends, is_streaming);
            }
        }
    }
}

/// # Safety
/// As for [`transpose`].
unsafe fn transpose_tile<const N: usize>(read: Loop, write: Loop, ends: Ends, is_streaming: bool) {
    let side = LINE / N;
    let contiguous = read.from == N as isize && write.to == N as isize;
    if write.count < side {
        // Rows of a few elements in the target, such as the channels of a picture: each channel is one loop.
        for index in 0..write.count {
            // SAFETY: iteration `index` of the loop `write`, whose elements are valid by contract.
            unsafe { copy_row::<N>(read, ends.after(index, &write)) };
        }
        return;
    }
    for read_at in (0..read.count).step_by(side) {
        let reads = side.min(read.count - read_at);
        for write_at in (0..write.count).step_by(side) {
            let writes = side.min(write.count - write_at);
            // SAFETY: the iterations of the block are iterations of both loops, whose elements are
            // valid by contract; a full contiguous block has `side` rows of a line on both sides.
            unsafe {
                let ends = ends.after(write_at, &write).after(read_at, &read);
                if reads == side && writes == side && contiguous {
                    simd::transpose_block::<N>(
                        ends.from,
                        write.from,
                        ends.to,
                        read.to,
                        is_streaming,
                    );
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
