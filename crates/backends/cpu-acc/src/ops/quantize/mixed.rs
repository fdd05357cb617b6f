//! QuantizeLinear and DequantizeLinear of all other types and granularities: blocks along an axis, types of
//! 2 and 4 bits, floating point of 8 bits, scales of 16 bits. Computed in f64, a step of elements at a time.

use crate::floats::{FloatType, Floats};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Inputs, Operands, Refusal, Workload};
use tenon_base::{Result, round_to_odd};
use tenon_tensor::{ConvertFn, DataType, Packing, converter};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Elements that a thread converts at a time, whole bytes of any type.
const CHUNK: usize = 1 << 12;

/// Elements of a conversion step, whole bytes of any type.
const STEP: usize = 64;

/// Values of a step, in f64 or as its bytes.
type StepBytes = [u8; 8 * STEP];

/// The scale of each element of `[outer, extent, inner]`: the same for `block` positions of the axis.
#[derive(Clone, Copy)]
struct Granularity {
    extent: usize,
    inner: usize,
    block: usize,
    /// Whether each inner position has its own scale, as with blocks.
    inner_scales: bool,
}

impl Granularity {
    /// Of the scale at input 1, whose shape inference checks.
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let shape = signature.input(0)?.shape();
        let scales = signature.input(1)?.elements();
        let block = usize::try_from(signature.int("block_size", 0)?).unwrap_or(0);
        if scales == 1 && block == 0 {
            let elements = shape.elements();
            return Ok(Self {
                extent: 1,
                inner: elements,
                block: 1,
                inner_scales: false,
            });
        }
        let axis = signature.axis("axis", 1, shape.len())?;
        let (extent, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let outer = shape[..axis].iter().product::<usize>();
        let granularity = Self {
            extent,
            inner,
            block: block.max(1),
            inner_scales: block > 0,
        };
        let blocks = extent.div_ceil(granularity.block);
        let expected = if block > 0 {
            outer.saturating_mul(blocks).saturating_mul(inner)
        } else {
            blocks
        };
        if scales == expected {
            Ok(granularity)
        } else {
            Err(refuse("the scales do not fit"))
        }
    }

    /// Calls `body` with the index in the step and the index of the scale of `count` elements from
    /// `first` on.
    fn for_each(self, first: usize, count: usize, mut body: impl FnMut(usize, usize)) {
        let blocks = self.extent.div_ceil(self.block);
        let mut done = 0;
        while done < count {
            let element = first + done;
            let (row, column) = (element / self.inner, element % self.inner);
            let run = (self.inner - column).min(count - done);
            let of_axis = row % self.extent / self.block;
            if self.inner_scales {
                let start = (row / self.extent * blocks + of_axis) * self.inner + column;
                (0..run).for_each(|at| body(done + at, start + at));
            } else {
                (0..run).for_each(|at| body(done + at, of_axis));
            }
            done += run;
        }
    }
}

/// A type of the quantised side or of the real side, converted from and to f64.
#[derive(Clone, Copy)]
enum Format {
    /// Whole bytes.
    Bytes {
        size: usize,
        read: ConvertFn,
        write: ConvertFn,
    },
    /// Elements of less than a byte.
    Packed(Packing),
}

impl Format {
    fn of(dtype: DataType) -> Option<Self> {
        if let Some(packing) = Packing::of(dtype) {
            return Some(Self::Packed(packing));
        }
        let known = dtype.is_integer()
            || FloatType::of(dtype).is_some()
            || dtype.greatest_quantized().is_some();
        let known = known || dtype == DataType::F64;
        let (read, write) = (
            converter(dtype, DataType::F64)?,
            converter(DataType::F64, dtype)?,
        );
        let size = dtype.bits() / 8;
        known.then_some(Self::Bytes { size, read, write })
    }

    /// Bytes of `count` elements, whole bytes unless it is the last step.
    fn bytes(self, count: usize) -> usize {
        match self {
            Self::Bytes { size, .. } => count * size,
            Self::Packed(packing) => count.div_ceil(packing.per_byte()),
        }
    }

    /// Element `at`.
    fn get(self, from: &[u8], at: usize) -> f64 {
        match self {
            Self::Bytes { size, read, .. } => {
                let mut wide = [0; 8];
                read(&from[at * size..(at + 1) * size], &mut wide);
                f64::from_le_bytes(wide)
            }
            Self::Packed(packing) => packing.value(from, at),
        }
    }

    /// Elements from `first` on, the first of a byte.
    fn read(self, from: &[u8], first: usize, count: usize, to: &mut [f64; STEP]) {
        match self {
            Self::Bytes { size, read, .. } => {
                let mut wide: StepBytes = [0; 8 * STEP];
                read(&from[first * size..(first + count) * size], &mut wide);
                for (to, &value) in to.iter_mut().zip(wide.as_chunks::<8>().0).take(count) {
                    *to = f64::from_le_bytes(value);
                }
            }
            Self::Packed(_) => {
                for (at, to) in to.iter_mut().enumerate().take(count) {
                    *to = self.get(from, first + at);
                }
            }
        }
    }

    /// Writes a whole slice; integers are in range.
    fn write(self, from: &[f64], to: &mut [u8]) {
        match self {
            Self::Bytes { write, .. } => {
                let mut wide: StepBytes = [0; 8 * STEP];
                for (wide, value) in wide.as_chunks_mut::<8>().0.iter_mut().zip(from) {
                    *wide = value.to_le_bytes();
                }
                write(&wide[..8 * from.len()], to);
            }
            Self::Packed(packing) => {
                for (at, &value) in from.iter().enumerate() {
                    packing.set(to, at, packing.saturated(value));
                }
            }
        }
    }
}

/// The function of an element, its scale and its zero point.
#[derive(Clone, Copy)]
enum Function {
    /// To integers of this range: the quotient is rounded to the type of the division, then to even.
    Integers {
        division: FloatType,
        range: [f64; 2],
    },
    /// To floating point of 4 or 8 bits, saturated at this magnitude.
    SmallFloats { division: FloatType, greatest: f64 },
    /// The difference from the zero point times the scale.
    Dequantization,
}

/// `value` rounded to a floating-point type.
fn rounded(value: f64, to: FloatType) -> f64 {
    match to {
        FloatType::F32 => f64::from(value as f32),
        FloatType::F16 => half::f16::from_f32(round_to_odd(value)).to_f64(),
        FloatType::Bf16 => half::bf16::from_f32(round_to_odd(value)).to_f64(),
    }
}

impl Function {
    fn apply(self, x: f64, scale: f64, zero: f64) -> f64 {
        match self {
            Self::Integers {
                division,
                range: [least, greatest],
            } => {
                let quotient = rounded(x / scale, division).round_ties_even() + zero;
                // NaN, which the conversion to integers makes 0, stays.
                quotient.clamp(least, greatest)
            }
            Self::SmallFloats { division, greatest } => {
                rounded(x / scale, division).clamp(-greatest, greatest)
            }
            Self::Dequantization => (x - zero) * scale,
        }
    }
}

/// Quantisation or dequantisation.
struct MixedQuantization {
    elements: usize,
    from: Format,
    to: Format,
    scale: FloatType,
    granularity: Granularity,
    /// The type of the zero points, unless they are 0.
    zero: Option<Format>,
    function: Function,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let quantize = signature.op.name == "QuantizeLinear";
    let (x, y) = (signature.input(0)?.dtype(), signature.output(0)?.dtype());
    let scale = FloatType::of_input(signature.input(1)?.dtype(), 1)?;
    let refused = |dtype: DataType| refuse(format!("no kernel for elements of type {dtype}"));
    let format = |dtype: DataType| Format::of(dtype).ok_or_else(|| refused(dtype));
    let function = if quantize {
        let name = signature.string("precision", "")?;
        let division = match name {
            "" => Some(scale),
            name => name.parse().ok().and_then(FloatType::of),
        };
        let division = division.ok_or_else(|| refuse_attribute("precision", name))?;
        if let Some(greatest) = y.greatest_quantized() {
            let saturate = signature.flag("saturate", true)?;
            let greatest = if saturate { greatest } else { f64::INFINITY };
            Function::SmallFloats { division, greatest }
        } else {
            let range = y.quantized_range().ok_or_else(|| refused(y))?;
            Function::Integers { division, range }
        }
    } else {
        Function::Dequantization
    };
    let quantized = if quantize { y } else { x };
    let zero = signature.optional(2);
    if zero.is_some_and(|zero| {
        zero.dtype() != quantized
            || signature.optional(1).map(|scale| scale.elements()) != Some(zero.elements())
    }) {
        return Err(refuse("the types do not fit"));
    }
    if quantize && zero.is_some() && y.is_float() && y.bits() < 8 {
        return Err(refuse("a zero point of a floating-point type of 4 bits"));
    }
    // The zero point of other floating-point types is 0.
    let zero = zero.filter(|_| !quantized.is_float());
    Ok(Box::new(MixedQuantization {
        elements: signature.input(0)?.elements(),
        from: format(x)?,
        to: format(y)?,
        scale,
        granularity: Granularity::of(signature)?,
        zero: zero.map(|zero| format(zero.dtype())).transpose()?,
        function,
    }))
}

impl UnpreparedWorkload for MixedQuantization {}

impl Workload for MixedQuantization {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, scales) = (
            inputs.slice::<u8>(0)?,
            Floats::input(&inputs, 1, self.scale)?,
        );
        let zeros = self.zeros(&inputs)?;
        let to = outputs.slice::<u8>(0)?;
        let parallel = self.elements >= PARALLEL;
        for_each_chunk(to, self.to.bytes(CHUNK), parallel, |index, to| {
            let mut first = index * CHUNK;
            for to in to.chunks_mut(self.to.bytes(STEP)) {
                let count = STEP.min(self.elements - first);
                let mut values = [0.0; STEP];
                self.from.read(from, first, count, &mut values);
                self.granularity.for_each(first, count, |at, of| {
                    let zero = zeros.map_or(0.0, |(zeros, format)| format.get(zeros, of));
                    let scale = f64::from(scales.get(of));
                    values[at] = self.function.apply(values[at], scale, zero);
                });
                self.to.write(&values[..count], to);
                first += count;
            }
        });
        Ok(())
    }
}

impl MixedQuantization {
    /// The bytes and the type of the zero points.
    fn zeros<'a>(&self, inputs: &Inputs<'a>) -> Result<Option<(&'a [u8], Format)>> {
        let zeros = |format| Ok((inputs.slice::<u8>(2)?, format));
        self.zero.map(zeros).transpose()
    }
}
