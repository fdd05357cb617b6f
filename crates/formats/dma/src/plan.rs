//! A descriptor compiled for execution: checked once, then executed without checks or allocation.

use crate::loops::{Nest, dimensions, transposed};
use crate::typed::TypedOperation;
use crate::walk::{Walk, common_unit, gcd};
use crate::{Access, ByteRange, Descriptor, Operation, StochasticRounding, mover};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// A descriptor ready to execute on the bytes of its [`sources`](Plan::sources) and its
/// [`target`](Plan::target).
///
/// ```
/// use tenon_dma::{Plan, StridedView, VariableId, copy_strided};
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
    work: CompiledOperation,
}

#[derive(Debug, Clone)]
enum CompiledOperation {
    Nothing,
    Copy(Nest),
    /// A copy whose two sides do not share loops.
    Rewrap {
        unit: usize,
        from: Walk,
        to: Walk,
        /// The order in which units of the source are read; `None` for the order of the pattern.
        order: Option<TransposeOrder>,
    },
    Typed(TypedOperation),
}

/// The order in which a transpose reads the units of its source.
#[derive(Debug, Clone, Copy)]
struct TransposeOrder {
    /// Units of an element, then the result's dimensions, innermost first.
    counts: [usize; 5],
    /// Distance in units between neighbours along each dimension in the source.
    steps: [usize; 5],
}

impl TransposeOrder {
    /// The unit of the source that becomes unit `number` of the result.
    fn source_unit(&self, mut number: usize) -> usize {
        let mut source = 0;
        for (&count, &step) in self.counts.iter().zip(&self.steps) {
            source += number % count * step;
            number /= count;
        }
        source
    }
}

impl Plan {
    /// Checks and compiles a descriptor. The bounds of its variables are checked by
    /// [`Descriptor::check`], or by the code that provides the ranges.
    pub fn new(descriptor: &Descriptor) -> Result<Self> {
        Self::with_rounding(descriptor, None)
    }

    /// As [`new`](Self::new); with a `rounding`, casts to narrower float types round stochastically.
    pub fn with_rounding(
        descriptor: &Descriptor,
        rounding: Option<&Arc<StochasticRounding>>,
    ) -> Result<Self> {
        descriptor.check(|_| Some(u64::MAX))?;
        let too_large = || invalid("an access pattern exceeds the address space");
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
            CompiledOperation::Nothing
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
                _ => CompiledOperation::Typed(TypedOperation::new(descriptor, rounding)?),
            }
        };
        Ok(Self {
            sources,
            target,
            work,
        })
    }

    /// The byte ranges that it reads, one per source, in the order of the descriptor.
    pub fn sources(&self) -> &[ByteRange] {
        &self.sources
    }

    /// The smallest byte range that covers its writes.
    pub fn target(&self) -> ByteRange {
        self.target
    }

    /// Executes it on the bytes of its ranges.
    ///
    /// # Errors
    /// `Internal` when a slice does not have the length of its range.
    pub fn execute(&self, sources: &[&[u8]], target: &mut [u8]) -> Result<()> {
        let fits = sources.len() == self.sources.len()
            && sources
                .iter()
                .zip(&self.sources)
                .all(|(bytes, range)| has_length_of(bytes, range))
            && has_length_of(target, &self.target);
        let done = fits
            && match (&self.work, sources) {
                (CompiledOperation::Nothing, _) => true,
                (CompiledOperation::Copy(nest), [from]) => mover::copy(nest, from, target),
                (
                    CompiledOperation::Rewrap {
                        unit,
                        from,
                        to,
                        order,
                    },
                    [source],
                ) => rewrap(*unit, (*from, source), (*to, target), order.as_ref()),
                (CompiledOperation::Typed(typed), _) => typed.execute(sources, target),
                _ => false,
            };
        if done {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Internal,
            "the slices of a movement do not have the lengths of its ranges",
        ))
    }
}

fn has_length_of(bytes: &[u8], range: &ByteRange) -> bool {
    bytes.len() as u64 == range.end - range.start
}

fn copy(from: &Access, to: &Access) -> Option<CompiledOperation> {
    if let Some(nest) = Nest::new(dimensions(from)?, dimensions(to)?) {
        return Some(CompiledOperation::Copy(nest));
    }
    let unit = common_unit(from, to);
    Some(CompiledOperation::Rewrap {
        unit,
        from: Walk::new(from, unit)?,
        to: Walk::new(to, unit)?,
        order: None,
    })
}

fn transpose(
    from: &Access,
    to: &Access,
    shape: [u64; 4],
    element_size: u64,
) -> Option<CompiledOperation> {
    let element_size = usize::try_from(element_size).ok()?;
    let mut sizes = [0; 4];
    for (size, count) in sizes.iter_mut().zip(shape) {
        *size = usize::try_from(count).ok()?;
    }
    let reads = transposed(dimensions(from)?, element_size, sizes);
    if let Some(nest) = reads.and_then(|reads| Nest::new(reads, dimensions(to)?)) {
        return Some(CompiledOperation::Copy(nest));
    }
    let unit = gcd(common_unit(from, to), element_size);
    let [a, b, c, d] = sizes;
    let element = element_size / unit;
    Some(CompiledOperation::Rewrap {
        unit,
        from: Walk::new(from, unit)?,
        to: Walk::new(to, unit)?,
        order: Some(TransposeOrder {
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

/// Copies unit by unit, source and target each in the order of its pattern.
fn rewrap(
    unit: usize,
    (mut from, source): (Walk, &[u8]),
    (mut to, target): (Walk, &mut [u8]),
    order: Option<&TransposeOrder>,
) -> bool {
    for number in 0..to.len() {
        if let Some(order) = order {
            from.seek(order.source_unit(number));
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
