//! Operations on elements: cast, add, min, max, fma (docs/dma.md, "Numerics").

use crate::rounding::{ExecutionRandom, RoundedCast};
use crate::walk::Walk;
use crate::{Access, Constant, Descriptor, Operation, StochasticRounding, mover, simd};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{ConvertFn, DataType, converter};

/// Elements per block of the intermediate buffers on the stack.
const BLOCK: usize = 256;

/// Size of the widest element in bytes.
const WIDEST: usize = 16;

/// Elements of the target per task of the thread pool.
const SPREAD: usize = 32 << 10;

/// An operation on elements, compiled for execution.
#[derive(Debug, Clone)]
pub(crate) struct TypedOperation {
    sources: Vec<Side>,
    target: Side,
    kind: Kind,
}

/// The elements of one access and their conversion.
#[derive(Debug, Clone, Copy)]
struct Side {
    walk: Walk,
    bytes: usize,
    convert: ConvertFn,
}

#[derive(Debug, Clone)]
enum Kind {
    /// The conversion of the source is the whole operation.
    Cast,
    /// A cast with stochastic rounding.
    RoundedCast(RoundedCast),
    F32(Fold<f32>),
    F64(Fold<f64>),
    Integer(Fold<i128>),
}

/// A fold of the sources, element by element.
#[derive(Debug, Clone)]
struct Fold<T> {
    start: Option<T>,
    step: Step,
    /// The scales of fma, one per source.
    scales: Vec<T>,
    /// The type to which the elements of each source are widened.
    wide: Vec<DataType>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Add,
    Min,
    Max,
}

impl TypedOperation {
    /// Compiles a checked descriptor whose operation is not a copy or transpose.
    pub fn new(
        descriptor: &Descriptor,
        rounding: Option<&Arc<StochasticRounding>>,
    ) -> Result<Self> {
        let to = descriptor.to.dtype;
        if descriptor.operation == Operation::Cast {
            let from = descriptor.from.first().map(|from| from.dtype);
            let rounded = from.zip(rounding);
            let rounded = rounded.and_then(|(from, by)| RoundedCast::new(from, to, by));
            let kind = rounded.map_or(Kind::Cast, Kind::RoundedCast);
            let sides = descriptor
                .from
                .iter()
                .map(|from| Side::new(from, from.dtype, to));
            return Self::of(descriptor, sides.collect::<Result<_>>()?, to, kind);
        }
        let wide: Vec<DataType> = descriptor
            .from
            .iter()
            .map(|from| wide_of(descriptor, from.dtype))
            .collect();
        let sides = descriptor.from.iter().zip(&wide);
        let sides = sides.map(|(from, &wide)| Side::new(from, from.dtype, wide));
        let sides = sides.collect::<Result<_>>()?;
        match wide_of(descriptor, to) {
            DataType::F32 => {
                let kind = Kind::F32(Fold::new(descriptor, wide));
                Self::of(descriptor, sides, DataType::F32, kind)
            }
            DataType::F64 => {
                let kind = Kind::F64(Fold::new(descriptor, wide));
                Self::of(descriptor, sides, DataType::F64, kind)
            }
            _ => {
                let kind = Kind::Integer(Fold::new(descriptor, wide));
                Self::of(descriptor, sides, DataType::I64, kind)
            }
        }
    }

    fn of(descriptor: &Descriptor, sources: Vec<Side>, from: DataType, kind: Kind) -> Result<Self> {
        let to = &descriptor.to;
        let target = Side::new(to, from, to.dtype)?;
        Ok(Self {
            sources,
            target,
            kind,
        })
    }

    /// Executes it on the bytes of its ranges; false when an access is out of bounds.
    pub fn execute(&self, sources: &[&[u8]], target: &mut [u8]) -> bool {
        let random = match &self.kind {
            Kind::RoundedCast(cast) => Some(cast.next_random()),
            _ => None,
        };
        let walk = &self.target.walk;
        let count = walk.len();
        let outer = walk.outermost(self.target.bytes);
        let Some((step, units)) = outer.filter(|_| count > SPREAD) else {
            return self.part(sources, target, (0, count), *walk, random);
        };
        // A chunk is `rows` iterations of the outermost dimension, the last one fewer.
        let (rows, all) = (SPREAD.div_ceil(units), count / units);
        let done = std::sync::atomic::AtomicBool::new(true);
        mover::for_each_chunk(target, rows * step, &|chunk, target: &mut [u8]| {
            let first = chunk * rows;
            // The walk starts at the first byte of the chunk.
            let walk = walk.first(rows.min(all - first));
            if !self.part(sources, target, (first * units, walk.len()), walk, random) {
                done.store(false, std::sync::atomic::Ordering::Relaxed);
            }
        });
        done.into_inner()
    }

    /// Computes `count` elements from `start` on.
    fn part(
        &self,
        sources: &[&[u8]],
        target: &mut [u8],
        (start, count): (usize, usize),
        to: Walk,
        random: Option<ExecutionRandom>,
    ) -> bool {
        match &self.kind {
            Kind::Cast => self
                .cast(sources, target, (start, count), to, |side, _, from, to| {
                    (side.convert)(from, to)
                })
                .is_some(),
            Kind::RoundedCast(cast) => random
                .and_then(|random| {
                    let convert = |_: &Side, first: usize, from: &[u8], to: &mut [u8]| {
                        cast.convert(random, first, from, to)
                    };
                    self.cast(sources, target, (start, count), to, convert)
                })
                .is_some(),
            Kind::F32(fold) => self
                .fold(fold, sources, target, (start, count), to)
                .is_some(),
            Kind::F64(fold) => self
                .fold(fold, sources, target, (start, count), to)
                .is_some(),
            Kind::Integer(fold) => self
                .fold(fold, sources, target, (start, count), to)
                .is_some(),
        }
    }

    /// Casts `count` elements from `start` on; `convert` takes the index of its first element.
    fn cast(
        &self,
        sources: &[&[u8]],
        target: &mut [u8],
        (mut start, mut count): (usize, usize),
        mut to: Walk,
        convert: impl Fn(&Side, usize, &[u8], &mut [u8]),
    ) -> Option<()> {
        let (side, source) = (self.sources.first()?, *sources.first()?);
        let mut from = side.walk;
        from.seek(start);
        let mut packed = [0; BLOCK * WIDEST];
        let mut converted = [0; BLOCK * WIDEST];
        while count > 0 {
            let (read, write) = (from.row(count), to.row(count));
            let direct =
                read.step == side.bytes as isize && write.step == self.target.bytes as isize;
            if direct && read.count.min(write.count) >= BLOCK {
                let done = read.count.min(write.count);
                from.next(done);
                to.next(done);
                let source = source.get(read.offset..read.offset + done * side.bytes)?;
                let target =
                    target.get_mut(write.offset..write.offset + done * self.target.bytes)?;
                convert(side, start, source, target);
                (start, count) = (start + done, count - done);
                continue;
            }
            let done = count.min(BLOCK);
            gather(&mut from, side.bytes, source, &mut packed, done)?;
            let results = &mut converted[..done * self.target.bytes];
            convert(side, start, &packed[..done * side.bytes], results);
            scatter(&mut to, self.target.bytes, &converted, target, done)?;
            (start, count) = (start + done, count - done);
        }
        Some(())
    }

    fn fold<T: Accumulator>(
        &self,
        fold: &Fold<T>,
        sources: &[&[u8]],
        target: &mut [u8],
        (start, mut count): (usize, usize),
        mut to: Walk,
    ) -> Option<()> {
        let mut walks = [self.target.walk; crate::MAX_SOURCES];
        for (walk, side) in walks.iter_mut().zip(&self.sources) {
            *walk = side.walk;
            walk.seek(start);
        }
        let mut packed = [0; BLOCK * WIDEST];
        let mut wide = [0; BLOCK * WIDEST];
        while count > 0 {
            let done = count.min(BLOCK);
            let mut totals = [fold.start.unwrap_or(T::ZERO); BLOCK];
            let each = self.sources.iter().zip(sources).zip(&mut walks).enumerate();
            for (index, ((side, source), walk)) in each {
                gather(walk, side.bytes, source, &mut packed, done)?;
                let width = fold.wide.get(index)?.bits() / 8;
                let elements = &mut wide[..done * width];
                (side.convert)(&packed[..done * side.bytes], elements);
                let is_first = index == 0 && fold.start.is_none();
                for (total, bytes) in totals.iter_mut().zip(elements.chunks_exact(width)) {
                    let value = T::read(bytes, fold.wide[index] == DataType::U64);
                    let value = match fold.scales.get(index) {
                        Some(&scale) => value.times(scale),
                        None => value,
                    };
                    *total = if is_first {
                        value
                    } else {
                        fold.step.apply(*total, value)
                    };
                }
            }
            for (total, bytes) in totals[..done].iter().zip(wide.chunks_exact_mut(T::BYTES)) {
                total.write(bytes);
            }
            let converted = &mut packed[..done * self.target.bytes];
            (self.target.convert)(&wide[..done * T::BYTES], converted);
            scatter(&mut to, self.target.bytes, &packed, target, done)?;
            count -= done;
        }
        Some(())
    }
}

impl Side {
    /// The elements of `access`, converted between two types.
    fn new(access: &Access, from: DataType, to: DataType) -> Result<Self> {
        let refused = || {
            let text = format!("elements of type {from} do not convert to {to}");
            Error::new(ErrorKind::Unsupported, text)
        };
        let bytes = access.dtype.bits() / 8;
        let walk = Walk::new(access, bytes).filter(|_| bytes > 0 && bytes <= WIDEST);
        let convert = simd::converter(from, to).or_else(|| converter(from, to));
        let (walk, convert) = walk.zip(convert).ok_or_else(refused)?;
        Ok(Self {
            walk,
            bytes,
            convert,
        })
    }
}

/// The type in which elements of `dtype` are computed: integers if all types of the descriptor are
/// integers, binary64 if one of them is, else binary32.
fn wide_of(descriptor: &Descriptor, dtype: DataType) -> DataType {
    let types = || {
        descriptor
            .from
            .iter()
            .chain([&descriptor.to])
            .map(|access| access.dtype)
    };
    let constant = match &descriptor.operation {
        Operation::Min { constant } | Operation::Max { constant } => *constant,
        _ => None,
    };
    let is_integer = !types().any(DataType::is_float)
        && !matches!(constant, Some(Constant::F32(_)))
        && !matches!(descriptor.operation, Operation::Fma { .. });
    match dtype {
        _ if types().any(|dtype| dtype == DataType::F64) => DataType::F64,
        _ if !is_integer => DataType::F32,
        DataType::U64 => DataType::U64,
        _ => DataType::I64,
    }
}

impl<T: Accumulator> Fold<T> {
    fn new(descriptor: &Descriptor, wide: Vec<DataType>) -> Self {
        let (step, start) = match &descriptor.operation {
            Operation::Min { constant } => (Step::Min, *constant),
            Operation::Max { constant } => (Step::Max, *constant),
            _ => (Step::Add, None),
        };
        let scales = match &descriptor.operation {
            Operation::Fma { scales } => scales.iter().map(|&scale| T::scale(scale)).collect(),
            _ => Vec::new(),
        };
        Self {
            start: start.map(T::constant),
            step,
            scales,
            wide,
        }
    }
}

impl Step {
    #[inline(always)]
    fn apply<T: Accumulator>(self, total: T, value: T) -> T {
        match self {
            Step::Add => total.plus(value),
            Step::Min => total.least(value),
            Step::Max => total.greatest(value),
        }
    }
}

/// The type in which sources are folded.
trait Accumulator: Copy {
    const ZERO: Self;
    /// Size in bytes of a total as input of the target's conversion.
    const BYTES: usize;
    fn read(bytes: &[u8], unsigned: bool) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn constant(constant: Constant) -> Self;
    fn scale(scale: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

macro_rules! float {
    ($($ty:ty;)*) => {$(
        impl Accumulator for $ty {
            const ZERO: Self = 0.0;
            const BYTES: usize = size_of::<$ty>();

            fn read(bytes: &[u8], _: bool) -> Self {
                bytes.first_chunk().map_or(0.0, |&bytes| <$ty>::from_le_bytes(bytes))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn constant(constant: Constant) -> Self {
                match constant {
                    Constant::F32(value) => value as $ty,
                    Constant::I32(value) => value as $ty,
                    Constant::U32(value) => value as $ty,
                }
            }

            fn scale(scale: f64) -> Self {
                scale as $ty
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }

            // A NaN on either side is propagated.
            fn least(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }

            fn greatest(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
        }
    )*};
}

float! { f32; f64; }

impl Accumulator for i128 {
    const ZERO: Self = 0;
    const BYTES: usize = 8;

    fn read(bytes: &[u8], unsigned: bool) -> Self {
        let bytes = *bytes.first_chunk().unwrap_or(&[0; 8]);
        if unsigned {
            u64::from_le_bytes(bytes).into()
        } else {
            i64::from_le_bytes(bytes).into()
        }
    }

    fn write(self, bytes: &mut [u8]) {
        // Truncated to 64 bits; the conversion to the target type truncates further.
        bytes.copy_from_slice(&(self as i64).to_le_bytes());
    }

    fn constant(constant: Constant) -> Self {
        match constant {
            Constant::F32(value) => value as i128,
            Constant::I32(value) => value.into(),
            Constant::U32(value) => value.into(),
        }
    }

    fn scale(scale: f64) -> Self {
        scale as i128
    }

    // The sum of 16 sources of 64 bits cannot overflow 128 bits.
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn least(self, other: Self) -> Self {
        self.min(other)
    }

    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Gathers the next elements of a walk into a contiguous buffer.
fn gather(
    walk: &mut Walk,
    bytes: usize,
    source: &[u8],
    packed: &mut [u8],
    mut count: usize,
) -> Option<()> {
    let mut packed = packed;
    while count > 0 {
        let row = walk.next(count);
        let (part, rest) = packed.split_at_mut_checked(row.count * bytes)?;
        if row.step == bytes as isize {
            part.copy_from_slice(source.get(row.offset..row.offset + part.len())?);
        } else {
            for (index, element) in part.chunks_exact_mut(bytes).enumerate() {
                let start = row.at(index);
                element.copy_from_slice(source.get(start..start + bytes)?);
            }
        }
        packed = rest;
        count -= row.count;
    }
    Some(())
}

/// Scatters contiguous elements to the next positions of a walk.
fn scatter(
    walk: &mut Walk,
    bytes: usize,
    packed: &[u8],
    target: &mut [u8],
    mut count: usize,
) -> Option<()> {
    let mut packed = packed;
    while count > 0 {
        let row = walk.next(count);
        let (part, rest) = packed.split_at_checked(row.count * bytes)?;
        if row.step == bytes as isize {
            target
                .get_mut(row.offset..row.offset + part.len())?
                .copy_from_slice(part);
        } else {
            for (index, element) in part.chunks_exact(bytes).enumerate() {
                let start = row.at(index);
                target
                    .get_mut(start..start + bytes)?
                    .copy_from_slice(element);
            }
        }
        packed = rest;
        count -= row.count;
    }
    Some(())
}
