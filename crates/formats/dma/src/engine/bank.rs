//! The memory of variables, and the concurrent execution of descriptors on it.

#![allow(unsafe_code, reason = "memory that queues share")]

use crate::{Access, Descriptor, Plan};
use std::sync::Mutex;
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_tensor::BufferMut;

/// Bytes written below which descriptors run on the calling thread: waking another costs more.
const SPREAD_BYTES: u64 = 64 << 10;

/// Disjoint buffers that hold the variables.
#[derive(Default)]
pub struct Bank {
    buffers: Vec<BufferMut>,
}

/// A range of bytes of one buffer of a bank: the storage of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    buffer: u32,
    start: usize,
    len: usize,
}

/// A descriptor bound to the memory that it accesses.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    plan: Plan,
    sources: Vec<Region>,
    target: Region,
}

impl Region {
    /// The sub-range `start..end`; `None` when it exceeds the region.
    pub fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        let inside = start <= end && end <= self.len;
        inside.then(|| Self {
            buffer: self.buffer,
            start: self.start + start,
            len: end - start,
        })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the regions share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer
            && self.len > 0
            && other.len > 0
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }
}

/// A set of regions as sorted disjoint intervals.
pub(crate) struct RegionSet(Vec<Region>);

impl RegionSet {
    pub fn new(regions: impl Iterator<Item = Region>) -> Self {
        let mut sorted: Vec<Region> = regions.filter(|region| region.len > 0).collect();
        sorted.sort_unstable();
        let mut merged: Vec<Region> = Vec::new();
        for region in sorted {
            match merged.last_mut() {
                Some(last) if last.overlaps(&region) => {
                    last.len = last.len.max(region.start + region.len - last.start);
                }
                _ => merged.push(region),
            }
        }
        Self(merged)
    }

    /// Whether a region shares a byte with the set.
    pub fn overlaps(&self, region: &Region) -> bool {
        // The intervals are disjoint and sorted: of those that start before the end of `region`, only
        // the last one can overlap it.
        let end = (region.buffer, region.start + region.len);
        let before = self
            .0
            .partition_point(|each| (each.buffer, each.start) < end);
        before > 0 && self.0[before - 1].overlaps(region)
    }
}

impl Bank {
    /// Adds a buffer with these bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Region> {
        self.add_buffer(BufferMut::copy_of(bytes)?)
    }

    /// Adds a buffer of zeros.
    pub fn add_zeroed(&mut self, len: usize) -> Result<Region> {
        self.add_buffer(BufferMut::zeroed(len)?)
    }

    fn add_buffer(&mut self, buffer: BufferMut) -> Result<Region> {
        let index = u32::try_from(self.buffers.len())
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "too many buffers"))?;
        let len = buffer.len();
        self.buffers.push(buffer);
        Ok(Region {
            buffer: index,
            start: 0,
            len,
        })
    }

    /// The bytes of a region of this bank.
    pub fn bytes(&self, region: &Region) -> Option<&[u8]> {
        let buffer = self.buffers.get(region.buffer as usize)?;
        buffer.get(region.start..region.start.checked_add(region.len)?)
    }

    /// The mutable bytes of a region of this bank.
    pub fn bytes_mut(&mut self, region: &Region) -> Option<&mut [u8]> {
        let buffer = self.buffers.get_mut(region.buffer as usize)?;
        buffer.get_mut(region.start..region.start.checked_add(region.len)?)
    }

    /// Runs moves concurrently. Fails before it writes anything when a move writes bytes that it or
    /// another move accesses.
    pub(crate) fn run(&mut self, moves: &[&Move]) -> Result<()> {
        self.check(moves)?;
        let buffers: Vec<BufferStart> = self.buffers.iter_mut().map(BufferStart::of).collect();
        let failure = Mutex::new(None);
        let run = |index: usize| {
            let each: &Move = moves[index];
            let sources: Vec<&[u8]> = each
                .sources
                .iter()
                // SAFETY: `check` has verified that the region is inside its buffer and that no
                // move of `moves` writes a byte of it; `&mut self` excludes other accesses.
                .map(|region| unsafe { buffers[region.buffer as usize].slice(region) })
                .collect();
            // SAFETY: `check` has verified that the target is inside its buffer and that neither
            // this move's sources nor another move accesses a byte of it; each index runs once.
            let target = unsafe { buffers[each.target.buffer as usize].slice_mut(&each.target) };
            if let Err(error) = each.plan.execute(&sources, target) {
                let mut failure = failure.lock().unwrap_or_else(|lock| lock.into_inner());
                failure.get_or_insert(error);
            }
        };
        let bytes: u64 = moves.iter().map(|each| each.target.len as u64).sum();
        if moves.len() == 1 || bytes < SPREAD_BYTES {
            // A single move distributes its own loops over the pool.
            (0..moves.len()).for_each(run);
        } else {
            pool::for_each(moves.len(), run);
        }
        let failure = failure
            .into_inner()
            .unwrap_or_else(|lock| lock.into_inner());
        failure.map_or(Ok(()), Err)
    }

    fn check(&self, moves: &[&Move]) -> Result<()> {
        let inside = |region: &Region| self.bytes(region).is_some();
        let regions = |each: &Move| inside(&each.target) && each.sources.iter().all(inside);
        let disjoint = |(index, each): (usize, &&Move)| {
            let others = moves[index + 1..].iter();
            !each.overlaps_itself() && !others.into_iter().any(|other| each.conflicts(other))
        };
        if moves.iter().all(|each| regions(each)) && moves.iter().enumerate().all(disjoint) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Internal,
            "concurrent descriptors access the same bytes",
        ))
    }
}

/// The address of a buffer, shared by threads that access disjoint parts.
#[derive(Clone, Copy)]
struct BufferStart(*mut u8);

// SAFETY: the pointer is dereferenced only in `slice` and `slice_mut`, whose callers guarantee that
// no byte is written on one thread and accessed on another (`Bank::check`).
unsafe impl Send for BufferStart {}
// SAFETY: a shared reference gives no more than a copy of the pointer; the contracts of `slice` and
// `slice_mut` exclude data races.
unsafe impl Sync for BufferStart {}

impl BufferStart {
    fn of(buffer: &mut BufferMut) -> Self {
        Self(buffer.as_mut_ptr())
    }

    /// # Safety
    /// The region is inside this buffer, which outlives `'a`, and no byte of it is written during `'a`.
    unsafe fn slice<'a>(self, region: &Region) -> &'a [u8] {
        // SAFETY: the caller guarantees bounds, lifetime and absence of writes; a `BufferMut` is
        // initialised.
        unsafe { std::slice::from_raw_parts(self.0.add(region.start), region.len) }
    }

    /// # Safety
    /// The region is inside this buffer, which outlives `'a`, and no other reference accesses a byte
    /// of it during `'a`.
    unsafe fn slice_mut<'a>(self, region: &Region) -> &'a mut [u8] {
        // SAFETY: the caller guarantees bounds, lifetime and exclusive access; a `BufferMut` is
        // initialised.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(region.start), region.len) }
    }
}

impl Move {
    /// Binds a descriptor, which was checked against the sizes of its variables, to the regions that
    /// `region` returns for its accesses.
    pub fn new(
        descriptor: &Descriptor,
        region: impl Fn(&Access) -> Result<Region>,
    ) -> Result<Self> {
        let plan = Plan::new(descriptor)?;
        let part = |access: &Access, range: crate::ByteRange| {
            region(access)?.part(range.start, range.end).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidPackage,
                    "the access pattern leaves its variable",
                )
            })
        };
        let sources = descriptor.from.iter().zip(plan.sources());
        let bound = Self {
            sources: sources
                .map(|(access, range)| part(access, *range))
                .collect::<Result<_>>()?,
            target: part(&descriptor.to, plan.target())?,
            plan,
        };
        if bound.overlaps_itself() {
            return Err(Error::new(
                ErrorKind::InvalidPackage,
                "a descriptor writes bytes that it reads",
            ));
        }
        Ok(bound)
    }

    /// The region that it writes.
    pub fn target(&self) -> &Region {
        &self.target
    }

    /// Whether one of the moves writes a byte that the other one accesses.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.target.overlaps(&other.target)
            || self.sources.iter().any(|read| read.overlaps(&other.target))
            || other.sources.iter().any(|read| read.overlaps(&self.target))
    }

    fn overlaps_itself(&self) -> bool {
        self.sources.iter().any(|read| read.overlaps(&self.target))
    }
}
