//! A descriptor made ready: checked once, then executed on memory without checks or allocation.

use crate::loops::Nest;
use crate::typed::Typed;
use crate::walk::{Walk, common_unit};
use crate::{Access, ByteRange, Descriptor, Operation, mover};
use tenon_base::{Error, ErrorKind, Result};

/// A descriptor ready to execute on the bytes of its [`sources`](Plan::sources) and its
/// [`target`](Plan::target).
///
/// ```
/// use tenon_dma::{Place, Plan, VariableId, copy_strided};
/// let from = Place::new(VariableId(0), 0, [1, 3]);
/// let to = Place::contiguous(VariableId(1), 0, 1, &[3, 2]);
/// let descriptors = copy_strided(1, &[3, 2], &from, &to)?;
/// let plan = Plan::new(&descriptors[0])?;
/// let mut target = [0; 6];
/// plan.execute(&[b"abcdef"], &mut target)?;
/// assert_eq!(&target, b"adbecf");
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    sources: Vec<ByteRange>,
    target: ByteRange,
    work: Work,
}

#[derive(Debug, Clone)]
enum Work {
    Nothing,
    Copy(Nest),
    /// A copy whose two sides do not share loops.
    Rewrap {
        unit: usize,
        from: Walk,
        to: Walk,
    },
    Typed(Typed),
}

impl Plan {
    /// Checks a descriptor and makes it ready. That it stays inside its variables is checked by
    /// [`Descriptor::check`], or by the one who hands out the ranges.
    pub fn new(descriptor: &Descriptor) -> Result<Self> {
        descriptor.check(|_| Some(u64::MAX))?;
        let too_large = || invalid("an access pattern larger than memory can be");
        let range = |access: &Access| {
            access
                .range()
                .filter(|range| range.end <= isize::MAX as u64)
                .ok_or_else(too_large)
        };
        let sources = descriptor
            .from
            .iter()
            .map(range)
            .collect::<Result<Vec<_>>>()?;
        let target = range(&descriptor.to)?;
        let work = if target.start == target.end {
            Work::Nothing
        } else {
            match (&descriptor.operation, &descriptor.from[..]) {
                (Operation::Copy, [from]) => copy(from, &descriptor.to).ok_or_else(too_large)?,
                (Operation::Transpose { .. }, _) => {
                    let text = "the DMA operation transpose cannot be executed";
                    return Err(Error::new(ErrorKind::Unsupported, text)
                        .help("a copy with the steps of the transposed dimensions does the same"));
                }
                _ => Work::Typed(Typed::new(descriptor)?),
            }
        };
        Ok(Self {
            sources,
            target,
            work,
        })
    }

    /// The bytes it reads, one range a source, in the descriptor's order.
    pub fn sources(&self) -> &[ByteRange] {
        &self.sources
    }

    /// The bytes around those that it writes.
    pub fn target(&self) -> ByteRange {
        self.target
    }

    /// Executes it on exactly the bytes of its ranges.
    pub fn execute(&self, sources: &[&[u8]], target: &mut [u8]) -> Result<()> {
        let fits = sources.len() == self.sources.len()
            && sources
                .iter()
                .zip(&self.sources)
                .all(|(bytes, range)| is_of(bytes, range))
            && is_of(target, &self.target);
        let done = fits
            && match (&self.work, sources) {
                (Work::Nothing, _) => true,
                (Work::Copy(nest), [from]) => mover::copy(nest, from, target),
                (Work::Rewrap { unit, from, to }, [source]) => {
                    rewrap(*unit, *from, source, *to, target)
                }
                (Work::Typed(typed), _) => typed.execute(sources, target),
                _ => false,
            };
        if done {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Internal,
            "a movement is given other bytes than its ranges",
        ))
    }
}

fn is_of(bytes: &[u8], range: &ByteRange) -> bool {
    bytes.len() as u64 == range.end - range.start
}

fn copy(from: &Access, to: &Access) -> Option<Work> {
    if let Some(nest) = Nest::new(from, to) {
        return Some(Work::Copy(nest));
    }
    let unit = common_unit(from, to);
    Some(Work::Rewrap {
        unit,
        from: Walk::new(from, unit)?,
        to: Walk::new(to, unit)?,
    })
}

/// Copies unit by unit, each side in its own order.
fn rewrap(unit: usize, mut from: Walk, source: &[u8], mut to: Walk, target: &mut [u8]) -> bool {
    for _ in 0..to.len() {
        let (read, write) = (from.next(1).offset, to.next(1).offset);
        let (Some(read), Some(write)) = (
            source.get(read..read + unit),
            target.get_mut(write..write + unit),
        ) else {
            return false;
        };
        write.copy_from_slice(read);
    }
    true
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
