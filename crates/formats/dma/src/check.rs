//! Checks of a descriptor, and the byte ranges that it accesses.

use crate::{Access, Descriptor, MAX_DIMENSIONS, MAX_SOURCES, Operation, VariableId};
use std::fmt::Arguments;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::DataType;

/// A range of bytes of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The variable.
    pub variable: VariableId,
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl Access {
    /// The smallest range that covers all bytes of the pattern, empty when it visits none; `None`
    /// on overflow at either end.
    pub fn range(&self) -> Option<ByteRange> {
        let empty = self.sizes.is_empty() || self.sizes.contains(&0);
        let (mut start, mut end) = (self.offset, self.offset);
        if !empty {
            for (&size, &step) in self.sizes.iter().zip(&self.steps) {
                let bytes = (size - 1).checked_mul(step.unsigned_abs())?;
                if step < 0 {
                    start = start.checked_sub(bytes)?;
                } else {
                    end = end.checked_add(bytes)?;
                }
            }
            end = end.checked_add(1)?;
        }
        Some(ByteRange {
            variable: self.variable,
            start,
            end,
        })
    }

    /// Number of elements. Requires a successful [`Descriptor::check`], which rejects patterns that
    /// cut an element.
    pub(crate) fn elements(&self) -> Option<u64> {
        let bytes = u64::try_from(self.dtype.bytes(1)?).ok()?;
        Some(self.volume()? / bytes)
    }

    fn check(
        &self,
        side: Arguments<'_>,
        typed: bool,
        size_of: &dyn Fn(VariableId) -> Option<u64>,
        problems: &mut Vec<Error>,
    ) {
        let mut problem = |field: &str, error: Error| {
            problems.push(error.at(Location::field(format!("{side}{field}"))));
        };
        let rank = self.sizes.len();
        if rank == 0 || rank > MAX_DIMENSIONS {
            let error = invalid("a wrong number of dimensions")
                .expected("1 to 4")
                .found(rank);
            problem("_sizes", error);
        }
        if self.steps.len() != rank {
            let error = invalid("sizes and steps differ in number");
            problem("_steps", error.expected(rank).found(self.steps.len()));
            return;
        }
        if typed {
            self.check_elements(&mut problem);
        }
        let Some(size) = size_of(self.variable) else {
            let text = format!("no variable has the id {}", self.variable.0);
            return problem("", Error::new(ErrorKind::NotFound, text));
        };
        match self.range().filter(|_| self.volume().is_some()) {
            None if self.offset < size && self.steps.iter().any(|&step| step < 0) => {
                let error = invalid("the access pattern leaves its variable, or overflows");
                problem("_off", error.expected("at least byte 0"));
            }
            None => problem("_sizes", invalid("the access pattern overflows")),
            Some(range) if range.end > size => {
                let error = invalid("the access pattern leaves its variable")
                    .expected(format_args!("at most byte {size}"))
                    .found(range.end);
                problem("_off", error);
            }
            Some(_) => {}
        }
    }

    /// Elements must be whole: the innermost dimension is a run of packed elements.
    fn check_elements(&self, problem: &mut impl FnMut(&str, Error)) {
        let bytes = self.dtype.bytes(1).filter(|_| self.dtype.bits() >= 8);
        let Some(bytes) = bytes.and_then(|bytes| u64::try_from(bytes).ok()) else {
            let error = Error::new(ErrorKind::Unsupported, "elements smaller than a byte");
            return problem("_dtype", error.found(self.dtype));
        };
        if bytes == 1 {
            return;
        }
        let inner = self.sizes.first().copied().unwrap_or(0);
        if inner % bytes != 0 {
            let error = invalid(format!(
                "the innermost size is not whole elements {}",
                self.dtype
            ));
            problem(
                "_sizes",
                error
                    .expected(format_args!("a multiple of {bytes}"))
                    .found(inner),
            );
        }
        if self.steps.first() != Some(&1) {
            let error = invalid(format!(
                "the bytes of an element {} must be contiguous",
                self.dtype
            ));
            let found = self.steps.first().copied().unwrap_or(0);
            problem(
                "_steps",
                error.expected("an innermost step of 1").found(found),
            );
        }
    }
}

impl Descriptor {
    /// Checks it against the sizes in bytes of the variables; all problems together.
    pub fn check(&self, size_of: impl Fn(VariableId) -> Option<u64>) -> Result<()> {
        let mut problems = Vec::new();
        let typed = self.operation.is_typed();
        let many = !matches!(
            self.operation,
            Operation::Copy | Operation::Cast | Operation::Transpose { .. }
        );
        let most = if many { MAX_SOURCES } else { 1 };
        if self.from.is_empty() || self.from.len() > most {
            let name = self.operation.name();
            let error = invalid(format!("a wrong number of sources for {name}"));
            let expected = if many { "1 to 16" } else { "1" };
            let error = error.expected(expected).found(self.from.len());
            problems.push(error.at(Location::field("from_arr")));
        }
        if let Operation::Fma { scales } = &self.operation
            && scales.len() != self.from.len()
        {
            let error = invalid("sources and scales differ in number");
            let error = error.expected(self.from.len()).found(scales.len());
            problems.push(error.at(Location::field("scale")));
        }
        (self.to).check(format_args!("to"), typed, &size_of, &mut problems);
        for (index, from) in self.from.iter().enumerate() {
            if many {
                let side = format_args!("from_arr[{index}].from");
                from.check(side, typed, &size_of, &mut problems);
            } else {
                from.check(format_args!("from"), typed, &size_of, &mut problems);
            }
        }
        if problems.is_empty() {
            self.check_volumes(&mut problems);
            self.check_transpose(&mut problems);
        }
        // Bounds the work by the size of the target: a step of 0 could repeat a write 2^64 times.
        if let (true, Some(size), Some(volume)) = (
            problems.is_empty(),
            size_of(self.to.variable),
            self.to.volume(),
        ) && volume > size
        {
            let error = invalid("more bytes are written than the variable has");
            let error = error.expected(format_args!("at most {size}"));
            problems.push(error.found(volume).at(Location::field("to_sizes")));
        }
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// Sources and target must have the same size: in bytes, or in elements where types differ.
    fn check_volumes(&self, problems: &mut Vec<Error>) {
        let typed = self.operation.is_typed();
        let volume = |access: &Access| {
            if typed {
                access.elements()
            } else {
                access.volume()
            }
        };
        let unit = if typed { "elements" } else { "bytes" };
        for from in &self.from {
            if let (Some(read), Some(written)) = (volume(from), volume(&self.to))
                && read != written
            {
                let error = invalid("source and target differ in size")
                    .expected(format_args!("{written} {unit}"))
                    .found(read);
                problems.push(error.at(Location::field("from_sizes")));
            }
        }
    }

    /// The shape of a transpose must cover all bytes of both patterns.
    fn check_transpose(&self, problems: &mut Vec<Error>) {
        let Operation::Transpose {
            shape,
            element_size,
        } = &self.operation
        else {
            return;
        };
        let bytes = shape
            .iter()
            .try_fold(*element_size, |bytes, &count| bytes.checked_mul(count));
        let volume = self.to.volume();
        if *element_size == 0 {
            let error = invalid("elements without bytes");
            problems.push(error.at(Location::field("transpose_element_size")));
        } else if bytes != volume {
            let mut error = invalid("shape and target differ in size");
            if let Some(volume) = volume {
                error = error.expected(format_args!("{volume} bytes"));
            }
            if let Some(bytes) = bytes {
                error = error.found(bytes);
            }
            problems.push(error.at(Location::field("transpose_shape")));
        }
    }

    /// The non-empty byte ranges that it reads. Requires a successful [`check`](Self::check).
    pub fn reads(&self) -> impl Iterator<Item = ByteRange> {
        self.from
            .iter()
            .filter_map(Access::range)
            .filter(|range| range.start < range.end)
    }

    /// The byte range that it writes; `None` when it is empty. Requires a successful
    /// [`check`](Self::check).
    pub fn writes(&self) -> Option<ByteRange> {
        self.to.range().filter(|range| range.start < range.end)
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

/// Whether an access may have this data type (those of neff 2.16 and Tenon's additions).
pub(crate) fn is_movable(dtype: DataType) -> bool {
    dtype.bits() >= 8 && !matches!(dtype, DataType::C64 | DataType::C128)
}
