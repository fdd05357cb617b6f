//! The memory that transfers move in, and descriptors run on it side by side.

use crate::{Access, Descriptor, Plan};
use std::sync::Mutex;
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_tensor::BufferMut;

/// Bytes written below which descriptors run on the calling thread: less than waking another takes.
const SPREAD_BYTES: u64 = 64 << 10;

/// Pieces of memory that share no byte.
#[derive(Default)]
pub struct Bank {
    pieces: Vec<BufferMut>,
}

/// A range of bytes of one piece of a bank: where a variable lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    piece: u32,
    start: usize,
    len: usize,
}

/// A descriptor bound to the memory that it touches.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    plan: Plan,
    sources: Vec<Region>,
    target: Region,
}

impl Region {
    /// A part of it.
    pub fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        let inside = start <= end && end <= self.len;
        inside.then(|| Self {
            piece: self.piece,
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

    /// Whether both share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.piece == other.piece
            && self.len > 0
            && other.len > 0
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }
}

/// All bytes of some regions.
pub(crate) struct Cover(Vec<Region>);

impl Cover {
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

    /// Whether a region shares a byte with one of them.
    pub fn touches(&self, region: &Region) -> bool {
        // They are apart and in order: of those that start before its end, only the last may reach it.
        let end = (region.piece, region.start + region.len);
        let before = self
            .0
            .partition_point(|each| (each.piece, each.start) < end);
        before > 0 && self.0[before - 1].overlaps(region)
    }
}

impl Bank {
    /// Adds a piece with these bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Region> {
        self.add_buffer(BufferMut::copy_of(bytes)?)
    }

    /// Adds a piece of zeros.
    pub fn add_zeroed(&mut self, len: usize) -> Result<Region> {
        self.add_buffer(BufferMut::zeroed(len)?)
    }

    fn add_buffer(&mut self, buffer: BufferMut) -> Result<Region> {
        let piece = u32::try_from(self.pieces.len())
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "too many pieces of memory"))?;
        let len = buffer.len();
        self.pieces.push(buffer);
        Ok(Region {
            piece,
            start: 0,
            len,
        })
    }

    /// The bytes of a region of this bank.
    pub fn bytes(&self, region: &Region) -> Option<&[u8]> {
        let piece = self.pieces.get(region.piece as usize)?;
        piece.get(region.start..region.start.checked_add(region.len)?)
    }

    /// The bytes of a region of this bank, to be changed.
    pub fn bytes_mut(&mut self, region: &Region) -> Option<&mut [u8]> {
        let piece = self.pieces.get_mut(region.piece as usize)?;
        piece.get_mut(region.start..region.start.checked_add(region.len)?)
    }

    /// Runs moves side by side. None may write what itself or another one touches; nothing has
    /// moved when one does.
    pub(crate) fn run(&mut self, moves: &[&Move]) -> Result<()> {
        self.check(moves)?;
        let pieces: Vec<Piece> = self.pieces.iter_mut().map(Piece::of).collect();
        let failure = Mutex::new(None);
        let run = |index: usize| {
            let each: &Move = moves[index];
            let sources: Vec<&[u8]> = each
                .sources
                .iter()
                // SAFETY: the region lies inside of its piece, and no move of these writes a byte
                // of it: `check` saw to both.
                .map(|region| unsafe { pieces[region.piece as usize].part(region) })
                .collect();
            // SAFETY: as above, and no other move touches a byte of it.
            let target = unsafe { pieces[each.target.piece as usize].part_mut(&each.target) };
            if let Err(error) = each.plan.execute(&sources, target) {
                let mut failure = failure.lock().unwrap_or_else(|lock| lock.into_inner());
                failure.get_or_insert(error);
            }
        };
        let bytes: u64 = moves.iter().map(|each| each.target.len as u64).sum();
        if moves.len() == 1 || bytes < SPREAD_BYTES {
            // A single one spreads its own loops.
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
        let apart = |(index, each): (usize, &&Move)| {
            let others = moves[index + 1..].iter();
            !each.writes_what_it_reads() && !others.into_iter().any(|other| each.conflicts(other))
        };
        if moves.iter().all(|each| regions(each)) && moves.iter().enumerate().all(apart) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Internal,
            "descriptors that run side by side touch the same bytes",
        ))
    }
}

/// The start of a piece, shared by the threads that each touch their own part.
#[derive(Clone, Copy)]
struct Piece(*mut u8);

// SAFETY: threads read and write through it only what `Bank::check` found to be apart.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    fn of(buffer: &mut BufferMut) -> Self {
        Self(buffer.as_mut_ptr())
    }

    /// # Safety
    /// The region lies inside of this piece, and nobody writes it meanwhile.
    unsafe fn part<'a>(self, region: &Region) -> &'a [u8] {
        // SAFETY: the caller vouches; memory of a bank is initialised.
        unsafe { std::slice::from_raw_parts(self.0.add(region.start), region.len) }
    }

    /// # Safety
    /// The region lies inside of this piece, and nobody else touches it meanwhile.
    unsafe fn part_mut<'a>(self, region: &Region) -> &'a mut [u8] {
        // SAFETY: the caller vouches; memory of a bank is initialised.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(region.start), region.len) }
    }
}

impl Move {
    /// A descriptor that was checked against the sizes of its variables, which lie where `region`
    /// says.
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
        if bound.writes_what_it_reads() {
            return Err(Error::new(
                ErrorKind::InvalidPackage,
                "a descriptor writes bytes that it reads",
            ));
        }
        Ok(bound)
    }

    /// What it writes.
    pub fn target(&self) -> &Region {
        &self.target
    }

    /// Whether one of both writes what the other one touches.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.target.overlaps(&other.target)
            || self.sources.iter().any(|read| read.overlaps(&other.target))
            || other.sources.iter().any(|read| read.overlaps(&self.target))
    }

    fn writes_what_it_reads(&self) -> bool {
        self.sources.iter().any(|read| read.overlaps(&self.target))
    }
}
