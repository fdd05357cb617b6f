//! Arena allocation: offsets for memory blocks, such that blocks with overlapping lifetimes are
//! disjoint.
//!
//! A strategy packs blocks into bins, as in Arm NN (backends 7.8): a block is a rectangle of
//! kernels and bytes, and no two rectangles of one bin may overlap. The arena is the concatenation
//! of the bins. The result of every strategy is verified before it is used.

mod check;
mod constant;
mod greedy_by_size;
mod quick;
mod single_axis;

pub use check::check;
pub use constant::Constant;
pub use greedy_by_size::GreedyBySize;
pub use quick::Quick;
pub use single_axis::SingleAxisPriority;

use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::ALIGNMENT;

/// Memory that is live from the start of one kernel to the end of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Size in bytes.
    pub bytes: usize,
    /// The first kernel that accesses it.
    pub first: u32,
    /// The last kernel that accesses it, `first` or later.
    pub last: u32,
}

impl Block {
    /// Its size, rounded up to a multiple of 64.
    pub fn padded(&self) -> Result<usize> {
        self.bytes
            .checked_next_multiple_of(ALIGNMENT)
            .ok_or_else(too_large)
    }

    /// Whether the lifetimes overlap.
    fn overlaps(&self, other: &Block) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Memory that blocks share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bin {
    /// Its size, a multiple of 64.
    pub bytes: usize,
    /// Blocks, by position, and where each starts in the bin: a multiple of 64.
    pub blocks: Vec<(usize, usize)>,
}

/// A strategy that packs blocks into bins.
pub trait MemoryStrategy: Send + Sync {
    /// Its name, as in `--memory-strategy`.
    fn name(&self) -> &'static str;

    /// A description in one line.
    fn description(&self) -> &'static str;

    /// Packs every block of at least one byte into exactly one bin. Deterministic.
    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>>;
}

/// All strategies, the default first.
pub const MEMORY_STRATEGIES: [&dyn MemoryStrategy; 3] =
    [&GreedyBySize, &SingleAxisPriority, &Constant];

/// The strategy of that name.
pub fn memory_strategy(name: &str) -> Result<&'static dyn MemoryStrategy> {
    let found = MEMORY_STRATEGIES
        .into_iter()
        .find(|strategy| strategy.name() == name);
    found.ok_or_else(|| {
        let names = MEMORY_STRATEGIES.map(|strategy| strategy.name());
        Error::new(ErrorKind::NotFound, "no memory strategy has this name")
            .expected(names.join(", "))
            .found(format_args!("'{name}'"))
    })
}

/// The offsets of the blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Offsets in the order of the blocks, multiples of 64; 0 for one without bytes.
    pub offsets: Vec<usize>,
    /// The arena's size.
    pub bytes: usize,
}

/// Runs a strategy, verifies its result and concatenates its bins.
pub fn assign(strategy: &dyn MemoryStrategy, blocks: &[Block]) -> Result<Assignment> {
    let bins = strategy.pack(blocks)?;
    check(blocks, &bins).map_err(|error| {
        let text = format!("memory strategy '{}': {error}", strategy.name());
        Error::new(ErrorKind::Internal, text)
    })?;
    let mut assignment = Assignment {
        offsets: vec![0; blocks.len()],
        bytes: 0,
    };
    for bin in bins {
        for (block, offset) in bin.blocks {
            assignment.offsets[block] =
                assignment.bytes.checked_add(offset).ok_or_else(too_large)?;
        }
        assignment.bytes = assignment
            .bytes
            .checked_add(bin.bytes)
            .ok_or_else(too_large)?;
    }
    Ok(assignment)
}

/// The maximum over all kernels of the padded sizes of live blocks: a lower bound for any arena.
pub fn lower_bound(blocks: &[Block]) -> Result<usize> {
    let mut changes = Vec::with_capacity(blocks.len() * 2);
    for block in blocks {
        let bytes = block.padded()?;
        // Sorting puts the end of a block before the starts at the next kernel.
        changes.push((u64::from(block.first), true, bytes));
        changes.push((u64::from(block.last) + 1, false, bytes));
    }
    changes.sort_unstable_by_key(|&(kernel, begins, _)| (kernel, begins));
    let (mut alive, mut most) = (0usize, 0);
    for (_, begins, bytes) in changes {
        if begins {
            alive = alive.checked_add(bytes).ok_or_else(too_large)?;
        } else {
            alive -= bytes;
        }
        most = most.max(alive);
    }
    Ok(most)
}

fn too_large() -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        "the model's intermediate values are larger than memory can be",
    )
}

#[cfg(test)]
mod tests;
