//! Operands of f32, f16 or bf16. Kernels compute in f32: rows or chunks are converted to and from
//! buffers that stay in the first-level cache.

use crate::simd::disjoint::for_each_chunk;
use crate::simd::elements::VectorElement;
use crate::simd::tile::prefetch_all;
use crate::simd::{Level, MAX_LANES, Simd, VectorOp};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::ops::Range;
use tenon_backend::{Inputs, Outputs, Reason, Refusal};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Element};

/// Elements that a thread converts at a time.
const CONVERTED: usize = 1 << 14;

/// An element type that kernels compute with in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatType {
    F32,
    F16,
    Bf16,
}

impl FloatType {
    /// The type of input `index`, or the reason that it is not computed in f32.
    pub(crate) fn of_input(dtype: DataType, index: usize) -> Result<Self, Refusal> {
        let found = dtype;
        Self::of(dtype).ok_or_else(|| {
            let input = index;
            Reason::InputType { input, found }.into()
        })
    }

    pub(crate) fn of(dtype: DataType) -> Option<Self> {
        match dtype {
            DataType::F32 => Some(Self::F32),
            DataType::F16 => Some(Self::F16),
            DataType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }
}

/// Evaluates `$body` with the elements of `$floats`, of whichever type.
macro_rules! match_floats {
    ($Floats:ident, $floats:expr, $elements:ident => $body:expr) => {
        match $floats {
            $Floats::F32($elements) => $body,
            $Floats::F16($elements) => $body,
            $Floats::Bf16($elements) => $body,
        }
    };
}
pub(crate) use match_floats;

/// The elements of an input.
#[derive(Clone, Copy)]
pub(crate) enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl<'a> Floats<'a> {
    /// The elements of input `index`.
    pub(crate) fn input(inputs: &Inputs<'a>, index: usize, float: FloatType) -> Result<Self> {
        Ok(match float {
            FloatType::F32 => Self::F32(inputs.slice(index)?),
            FloatType::F16 => Self::F16(inputs.slice(index)?),
            FloatType::Bf16 => Self::Bf16(inputs.slice(index)?),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match_floats!(Floats, self, elements => elements.len())
    }

    /// The elements of a range.
    #[inline]
    pub(crate) fn range(&self, range: Range<usize>) -> Floats<'a> {
        match_floats!(Floats, self, elements => FloatElement::floats(&elements[range]))
    }

    /// Prefetches the elements of a range; nothing for one that is not inside.
    #[inline(always)]
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        match_floats!(Floats, self, elements => {
            prefetch_all(elements.get(range).unwrap_or_default());
        });
    }

    /// The elements of a range in f32: the memory itself, or converted into `buffer`, which has at
    /// least the length of the range.
    #[inline]
    pub(crate) fn load<'b>(
        &self,
        level: Level,
        range: Range<usize>,
        buffer: &'b mut [f32],
    ) -> &'b [f32]
    where
        'a: 'b,
    {
        if let Self::F32(elements) = self {
            return &elements[range];
        }
        let to = &mut buffer[..range.len()];
        self.copy(level, range, to);
        to
    }

    /// All elements in f32: the memory itself, or converted in parallel into `buffer`, which has at least their number.
    pub(crate) fn load_all<'b>(&self, level: Level, buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        if let Self::F32(elements) = self {
            return elements;
        }
        let to = &mut buffer[..self.len()];
        for_each_chunk(to, CONVERTED, true, |chunk, to| {
            let first = chunk * CONVERTED;
            self.copy(level, first..first + to.len(), to);
        });
        to
    }

    /// Writes the elements of a range in f32 to `to`, which has the length of the range.
    pub(crate) fn copy(&self, level: Level, range: Range<usize>, to: &mut [f32]) {
        match self {
            Self::F32(elements) => to.copy_from_slice(&elements[range]),
            Self::F16(elements) => level.run(WidenF16(&elements[range], to)),
            Self::Bf16(elements) => level.run(WidenBf16(&elements[range], to)),
        }
    }

    /// One element.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> f32 {
        match_floats!(Floats, self, elements => to_f32(elements[index]))
    }
}

/// The elements of an output.
pub(crate) enum FloatsMut<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
}

impl<'a> FloatsMut<'a> {
    /// The elements of output `index`.
    pub(crate) fn output(
        outputs: &mut Outputs<'a>,
        index: usize,
        float: FloatType,
    ) -> Result<Self> {
        Ok(match float {
            FloatType::F32 => Self::F32(outputs.slice(index)?),
            FloatType::F16 => Self::F16(outputs.slice(index)?),
            FloatType::Bf16 => Self::Bf16(outputs.slice(index)?),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match_floats!(FloatsMut, self, elements => elements.len())
    }

    /// Writes the elements of a range in f32 to `to`, which has the length of the range.
    pub(crate) fn copy(&self, level: Level, range: Range<usize>, to: &mut [f32]) {
        match_floats!(FloatsMut, self, elements => {
            FloatElement::floats(&elements[range.clone()]).copy(level, 0..range.len(), to);
        });
    }

    /// Calls `compute` with memory for the elements of a range in f32, which it must write: the output
    /// itself, or `buffer`, whose elements are then rounded to the output's type.
    #[inline]
    pub(crate) fn store(
        &mut self,
        level: Level,
        range: Range<usize>,
        buffer: &mut [f32],
        compute: impl FnOnce(&mut [f32]),
    ) {
        if let Self::F32(elements) = self {
            return compute(&mut elements[range]);
        }
        let from = &mut buffer[..range.len()];
        compute(from);
        self.write(level, range, from);
    }

    /// Rounds `from` to the output's type, to nearest with ties to even, into a range of its length.
    pub(crate) fn write(&mut self, level: Level, range: Range<usize>, from: &[f32]) {
        match self {
            Self::F32(elements) => elements[range].copy_from_slice(from),
            Self::F16(elements) => level.run(NarrowF16(from, &mut elements[range])),
            Self::Bf16(elements) => level.run(NarrowBf16(from, &mut elements[range])),
        }
    }

    /// [`FloatsMut::write`] with the vectors at hand.
    #[inline(always)]
    pub(crate) fn write_by<S: Simd>(&mut self, s: S, range: Range<usize>, from: &[f32]) {
        match self {
            Self::F32(elements) => elements[range].copy_from_slice(from),
            Self::F16(elements) => NarrowF16(from, &mut elements[range]).eval(s),
            Self::Bf16(elements) => NarrowBf16(from, &mut elements[range]).eval(s),
        }
    }
}

/// Runs `body` with the elements of an output of `float` in chunks of `chunk` elements, in parallel when
/// `parallel`, see [`for_each_chunk`].
pub(crate) fn for_each_float_chunk(
    output: FloatsMut<'_>,
    chunk: usize,
    parallel: bool,
    body: impl Fn(usize, FloatsMut<'_>) + Sync,
) {
    match_floats!(FloatsMut, output, elements => {
        for_each_chunk(elements, chunk, parallel, |nth, part| {
            body(nth, FloatElement::floats_mut(part));
        });
    });
}

/// The element types of [`Floats`].
pub(crate) trait FloatElement: Element + Into<f32> {
    fn floats(elements: &[Self]) -> Floats<'_>;
    fn floats_mut(elements: &mut [Self]) -> FloatsMut<'_>;
}

macro_rules! float_element {
    ($($T:ident $variant:ident),*) => {$(
        impl FloatElement for $T {
            fn floats(elements: &[Self]) -> Floats<'_> {
                Floats::$variant(elements)
            }

            fn floats_mut(elements: &mut [Self]) -> FloatsMut<'_> {
                FloatsMut::$variant(elements)
            }
        }
    )*};
}

float_element!(f32 F32, f16 F16, bf16 Bf16);

/// The element in f32, which is exact.
#[inline]
fn to_f32<T: FloatElement>(element: T) -> f32 {
    element.into()
}

/// A type of two bytes that kernels compute with in f32.
pub(crate) trait Half: VectorElement {}

impl Half for f16 {}

impl Half for bf16 {}

/// f16 to f32: exact.
pub(crate) struct WidenF16<'a>(pub(crate) &'a [f16], pub(crate) &'a mut [f32]);

impl VectorOp for WidenF16<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self(from, to) = self;
        if !S::CONVERTS_F16 {
            return from.convert_to_f32_slice(to);
        }
        let len = from.len().min(to.len());
        let mut at = 0;
        while at + S::LANES <= len {
            s.store(s.widen(&from[at..]), &mut to[at..]);
            at += S::LANES;
        }
        if let (true, Some(last)) = (at < len, len.checked_sub(S::LANES)) {
            // Overlaps the vector before it.
            s.store(s.widen(&from[last..]), &mut to[last..]);
        } else if at < len {
            let mut lanes = [f16::ZERO; MAX_LANES];
            lanes
                .iter_mut()
                .zip(from)
                .for_each(|(lane, from)| *lane = *from);
            s.store_part(s.widen(&lanes), &mut to[..len]);
        }
    }
}

/// f32 to f16: to nearest, ties to even; a NaN stays one.
pub(crate) struct NarrowF16<'a>(pub(crate) &'a [f32], pub(crate) &'a mut [f16]);

impl VectorOp for NarrowF16<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self(from, to) = self;
        if !S::CONVERTS_F16 {
            return to.convert_from_f32_slice(from);
        }
        let len = from.len().min(to.len());
        let mut at = 0;
        while at + S::LANES <= len {
            s.narrow(s.load(&from[at..]), &mut to[at..]);
            at += S::LANES;
        }
        if let (true, Some(last)) = (at < len, len.checked_sub(S::LANES)) {
            // Overlaps the vector before it.
            s.narrow(s.load(&from[last..]), &mut to[last..]);
        } else if at < len {
            let mut lanes = [f16::ZERO; MAX_LANES];
            s.narrow(s.load_part(&from[..len]), &mut lanes);
            to.iter_mut().zip(&lanes).for_each(|(to, lane)| *to = *lane);
        }
    }
}

/// bf16 to f32: exact.
pub(crate) struct WidenBf16<'a>(pub(crate) &'a [bf16], pub(crate) &'a mut [f32]);

impl VectorOp for WidenBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let Self(from, to) = self;
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }
}

/// f32 to bf16: to nearest, ties to even; a NaN stays one.
pub(crate) struct NarrowBf16<'a>(pub(crate) &'a [f32], pub(crate) &'a mut [bf16]);

impl VectorOp for NarrowBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let Self(from, to) = self;
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            // Half of the last place kept, minus one unless that place is odd.
            let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
            let quiet = bits >> 16 | 0x40;
            let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
            *to = bf16::from_bits(if is_nan { quiet } else { rounded } as u16);
        }
    }
}

/// The error of scratch or operand memory that is shorter than the kernel's plan.
#[cold]
pub(crate) fn too_short(what: &str, expected: usize, found: usize) -> Error {
    Error::new(ErrorKind::InvalidPackage, format!("{what} is too short"))
        .expected(format_args!("{expected} elements"))
        .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_backend::CpuLevel;

    /// Values at every rounding boundary of either type, and NaN, infinities and subnormals.
    fn values() -> Vec<f32> {
        let mut values: Vec<f32> = (0..=u16::MAX)
            .flat_map(|high| {
                [0u32, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
                    .map(|low| f32::from_bits(u32::from(high) << 16 | low))
            })
            .collect();
        values.extend((0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32()));
        values.extend((0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32() * 1.000_488_3));
        values
    }

    #[test]
    fn conversions_equal_those_of_half() {
        let values = values();
        let len = values.len();
        for limit in CpuLevel::ALL {
            let level = Level::detect(limit);
            let mut narrow = vec![bf16::ZERO; len];
            FloatsMut::Bf16(&mut narrow).write(level, 0..len, &values);
            let mut half = vec![f16::ZERO; len];
            FloatsMut::F16(&mut half).write(level, 0..len, &values);
            let (mut from_narrow, mut from_half) = (vec![0.0; len], vec![0.0; len]);
            Floats::Bf16(&narrow).copy(level, 0..len, &mut from_narrow);
            Floats::F16(&half).copy(level, 0..len, &mut from_half);
            for (i, &value) in values.iter().enumerate() {
                let (b, h) = (bf16::from_f32(value), f16::from_f32(value));
                assert!(
                    narrow[i] == b || (b.is_nan() && narrow[i].is_nan()),
                    "{value}"
                );
                assert!(half[i] == h || (h.is_nan() && half[i].is_nan()), "{value}");
                assert!(from_narrow[i] == b.to_f32() || b.is_nan());
                assert!(from_half[i] == h.to_f32() || h.is_nan());
            }
        }
    }

    #[test]
    fn ranges_in_f32_are_not_copied() {
        let elements = [1.0, 2.0, 3.0];
        let level = Level::detect(CpuLevel::Avx512);
        let loaded = Floats::F32(&elements).load(level, 1..3, &mut []);
        assert_eq!(loaded.as_ptr(), elements[1..].as_ptr());
    }
}
