//! A descriptor made ready: checked once, then executed on memory without checks or allocation.

use crate::loops::{Nest, dimensions, transposed};
use crate::typed::Typed;
use crate::walk::{Walk, common_unit, gcd};
use crate::{Access, ByteRange, Descriptor, Operation, StochasticRounding, mover};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// A descriptor ready to execute on the bytes of its [`sources`](Plan::sources) and its
/// [`target`](Plan::target).
///
/// ```
/// use tenon_dma::{StridedView, Plan, VariableId, copy_strided};
/// let from = StridedView::new(VariableId(0), 0, [1, 3]);
/// let to = StridedView::contiguous(VariableId(1), 0, 1, &[3, 2]);
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
        /// In which order the source's units are taken; `None` one after the other.
        order: Option<Columns>,
    },
    Typed(Typed),
}

/// The units of a source in the order of a transpose.
#[derive(Debug, Clone, Copy)]
struct Columns {
    /// Units of an element, then the result's dimensions, innermost first.
    counts: [usize; 5],
    /// Units between neighbours of each in the source.
    steps: [usize; 5],
}

impl Columns {
    /// Which unit of the source is unit `number` of the result.
    fn source(&self, mut number: usize) -> usize {
        let mut source = 0;
        for (&count, &step) in self.counts.iter().zip(&self.steps) {
            source += number % count * step;
            number /= count;
        }
        source
    }
}

impl Plan {
    /// Checks a descriptor and makes it ready. That it stays inside its variables is checked by
    /// [`Descriptor::check`], or by the one who hands out the ranges.
    pub fn new(descriptor: &Descriptor) -> Result<Self> {
        Self::with_rounding(descriptor, None)
    }

    /// The same; where there is a `rounding`, casts between floats that lose bits follow it.
    pub fn with_rounding(
        descriptor: &Descriptor,
        rounding: Option<&Arc<StochasticRounding>>,
    ) -> Result<Self> {
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
                (
                    &Operation::Transpose {
                        shape,
                        element_size,
                    },
                    [from],
                ) => transpose(from, &descriptor.to, shape, element_size).ok_or_else(too_large)?,
                _ => Work::Typed(Typed::new(descriptor, rounding)?),
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
                (
                    Work::Rewrap {
                        unit,
                        from,
                        to,
                        order,
                    },
                    [source],
                ) => rewrap(*unit, (*from, source), (*to, target), order.as_ref()),
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
    if let Some(nest) = Nest::new(dimensions(from)?, dimensions(to)?) {
        return Some(Work::Copy(nest));
    }
    let unit = common_unit(from, to);
    Some(Work::Rewrap {
        unit,
        from: Walk::new(from, unit)?,
        to: Walk::new(to, unit)?,
        order: None,
    })
}

fn transpose(from: &Access, to: &Access, shape: [u64; 4], element_size: u64) -> Option<Work> {
    let element_size = usize::try_from(element_size).ok()?;
    let mut sizes = [0; 4];
    for (size, count) in sizes.iter_mut().zip(shape) {
        *size = usize::try_from(count).ok()?;
    }
    let reads = transposed(dimensions(from)?, element_size, sizes);
    if let Some(nest) = reads.and_then(|reads| Nest::new(reads, dimensions(to)?)) {
        return Some(Work::Copy(nest));
    }
    let unit = gcd(common_unit(from, to), element_size);
    let [a, b, c, d] = sizes;
    let element = element_size / unit;
    Some(Work::Rewrap {
        unit,
        from: Walk::new(from, unit)?,
        to: Walk::new(to, unit)?,
        order: Some(Columns {
            counts: [element, a, b, c, d],
            steps: [
                1,
                element * d * b * c,
                element * d,
                element * d * b,
                element,
            ],
        }),
    })
}

/// Copies unit by unit, each side in its own order.
fn rewrap(
    unit: usize,
    (mut from, source): (Walk, &[u8]),
    (mut to, target): (Walk, &mut [u8]),
    order: Option<&Columns>,
) -> bool {
    for number in 0..to.len() {
        if let Some(order) = order {
            from.seek(order.source(number));
        }
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
