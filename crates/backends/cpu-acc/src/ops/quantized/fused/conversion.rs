//! The conversion of sums of integers to elements of the output, with the parameters of an execution.

use super::{AddendType, BoundProduct, ByteType, Output, QuantizedProduct};
use crate::activation::Activation;
use crate::simd::Simd;
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::row_elements::words_mut;
use crate::simd::typed_gemm::{Sink, SumTile};
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::Inputs;
use tenon_base::Result;

/// The parameters of an execution. Vectors have an element for each column, those of all groups one after the other.
pub(super) struct Parameters<'a> {
    /// The element of X that is 0 when dequantised.
    pub(super) padding: u8,
    /// What is added to the sums of integers, in i32.
    corrections: &'a [f32],
    /// What they are multiplied by then, and what is added.
    factors: &'a [f32],
    summands: &'a [f32],
    /// The zero points of W, in i32, where one is not zero.
    pub(super) w_zeros: Option<&'a [f32]>,
    /// The bounds of the values.
    limits: [f32; 2],
    /// Applied to the values, which are then multiplied by the number.
    function: Option<(UnaryFunction, f32)>,
    /// The zero point of Y, and the bounds of a quantised element less it.
    y_zero: f32,
    y_limits: [f32; 2],
    addend: Option<Addend<'a>>,
}

/// What is added to the values.
struct Addend<'a> {
    elements: AddendElements<'a>,
    /// Subtracted from the elements, which are multiplied by the factor then.
    zero: f32,
    factor: f32,
    /// Where values are rounded to integers before: their bounds, and what the integers are multiplied by.
    rounding: Option<([f32; 2], f32)>,
}

/// Elements in the layout of the output.
#[derive(Clone, Copy)]
enum AddendElements<'a> {
    Floats(&'a [f32]),
    Bytes(&'a [u8], ByteType),
}

impl<'a> Addend<'a> {
    /// The addend of values that are divided by `divisor`, if there is one.
    fn read(product: &QuantizedProduct, inputs: &Inputs<'a>, divisor: f64) -> Result<Option<Self>> {
        let at = product.inputs;
        let zero = |input: usize, ty: ByteType| -> Result<i32> {
            let zero = inputs.optional::<u8>(input)?;
            Ok(zero.map_or(ty.moved(0), |zero| ty.moved(zero[0])))
        };
        let factor = |scale: f32| (f64::from(scale) / divisor) as f32;
        let scale = inputs.optional::<f32>(at.z_scale)?;
        let (elements, zero_point) = match product.addend {
            None => return Ok(None),
            Some(AddendType::Floats) => (AddendElements::Floats(inputs.slice::<f32>(at.z)?), 0),
            Some(AddendType::Bytes(ty)) => {
                let elements = AddendElements::Bytes(inputs.slice::<u8>(at.z)?, ty);
                (elements, zero(at.z_zero, ty)?)
            }
        };
        let rounding = match inputs.optional::<f32>(at.s_scale)? {
            None => None,
            Some(scale) => {
                let least = -zero(at.s_zero, product.sum_type)? as f32;
                Some(([least, least + 255.0], factor(scale[0])))
            }
        };
        Ok(Some(Self {
            elements,
            zero: zero_point as f32,
            factor: factor(scale.map_or(1.0, |scale| scale[0])),
            rounding,
        }))
    }
}

impl<'a> Parameters<'a> {
    /// Reads the parameters and computes those of columns into `vectors`.
    pub(super) fn read(
        bound: &BoundProduct,
        inputs: &Inputs<'a>,
        [corrections, factors, summands, zeros]: [&'a mut [f32]; 4],
    ) -> Result<Self> {
        let product = &bound.product;
        let at = product.inputs;
        let scalar = |input: usize| Ok(inputs.optional::<f32>(input)?.map_or(1.0, |list| list[0]));
        let (x_scale, y_scale) = (
            f64::from(scalar(at.x_scale)?),
            f64::from(scalar(at.y_scale)?),
        );
        let padding = inputs.optional::<u8>(at.x_zero)?.map_or(0, |list| list[0]);
        let x_zero = product.types[0].moved(padding);
        let w_scales = inputs.optional::<f32>(at.w_scale)?.unwrap_or(&[1.0]);
        let w_zeros = inputs.optional::<u8>(at.w_zero)?.unwrap_or(&[]);
        let bias = inputs.optional::<f32>(at.bias)?;
        let Activation { limits, function } = product.activation;
        // The function is one of values that are not divided by the scale of Y.
        let divisor = if function.is_some() { 1.0 } else { y_scale };
        let sum_scale = inputs.optional::<f32>(at.s_scale)?;
        let sum_divisor = sum_scale.map_or(divisor, |scale| f64::from(scale[0]));
        let of_column = |list: &[f32], column: usize| f64::from(list[column.min(list.len() - 1)]);
        let (columns, padded) = (product.group_columns(), product.padded_columns());
        zeros.fill(0.0);
        for group in 0..product.groups {
            for (at, column) in (group * padded..).zip(group * columns..(group + 1) * columns) {
                // Less 128, as the elements.
                let w_zero = match w_zeros {
                    [] => product.types[1].moved(0) - 128,
                    [one] => product.types[1].moved(*one) - 128,
                    list => product.types[1].moved(list[column]) - 128,
                };
                let all = (product.depth as i32)
                    .wrapping_mul(x_zero)
                    .wrapping_mul(w_zero);
                let correction = all.wrapping_sub(x_zero.wrapping_mul(bound.sums[at]));
                corrections[at] = f32::from_bits(correction as u32);
                zeros[at] = f32::from_bits(w_zero as u32);
                factors[at] = (x_scale * of_column(w_scales, column) / sum_divisor) as f32;
                let summand = bias.map_or(0.0, |bias| f64::from(bias[column]));
                summands[at] = (summand / sum_divisor) as f32;
            }
        }
        let (least, y_zero) = match product.output {
            Output::Integers | Output::Floats => (0.0, 0.0),
            Output::Quantized(ty) => {
                let zero = inputs.optional::<u8>(at.y_zero)?.map_or(0, |list| list[0]);
                let least = if ty.is_signed() { -128.0 } else { 0.0 };
                (least, ty.moved(zero) as f32 + least)
            }
        };
        let is_zero = |zero: &f32| zero.to_bits() == 0;
        let zeros: &[f32] = zeros;
        Ok(Self {
            padding,
            corrections,
            factors,
            summands,
            w_zeros: (!zeros.iter().all(is_zero)).then_some(zeros),
            limits: limits.map(|limit| (f64::from(limit) / divisor) as f32),
            function: function.map(|function| (function, (1.0 / y_scale) as f32)),
            y_zero,
            y_limits: [least - y_zero, least + 255.0 - y_zero],
            addend: Addend::read(product, inputs, divisor)?,
        })
    }
}

/// An element of the output.
pub(super) trait Converted: Send + Sync + Copy {
    /// Whether it is the sum of the integers.
    const IS_SUM: bool = false;

    /// The bounds of a value that is divided by the scale of Y, which are those of elements and `limits`, and what is added
    /// to it then.
    #[inline(always)]
    fn constants<S: Simd>(s: S, _: &Parameters<'_>, [low, high]: [f32; 2]) -> [S::V; 3] {
        [low, high, 0.0].map(|constant| s.splat(constant))
    }

    /// Writes a value, or a vector of sums.
    fn store<S: Simd>(s: S, constants: &[S::V; 3], value: S::V, to: &mut [Self]);
}

impl Converted for i32 {
    const IS_SUM: bool = true;

    #[inline(always)]
    fn store<S: Simd>(s: S, _: &[S::V; 3], value: S::V, to: &mut [i32]) {
        let count = to.len().min(S::LANES);
        s.store_part(value, words_mut(&mut to[..count]));
    }
}

impl Converted for f32 {
    #[inline(always)]
    fn store<S: Simd>(s: S, [low, high, _]: &[S::V; 3], value: S::V, to: &mut [f32]) {
        let count = to.len().min(S::LANES);
        s.store_part(s.min(*high, s.max(*low, value)), &mut to[..count]);
    }
}

impl Converted for u8 {
    #[inline(always)]
    fn constants<S: Simd>(s: S, parameters: &Parameters<'_>, [low, high]: [f32; 2]) -> [S::V; 3] {
        let [least, greatest] = parameters.y_limits;
        let bound = |limit: f32| limit.clamp(least, greatest);
        // As an integer: it is added to the bits of a rounded value.
        let zero = f32::from_bits(parameters.y_zero as i32 as u32);
        [bound(low), bound(high), zero].map(|constant| s.splat(constant))
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, [low, high, zero]: &[S::V; 3], value: S::V, to: &mut [u8]) {
        /// 1.5 * 2^23: floats of this magnitude are integers, so that the sum with a small value is rounded to one, half to
        /// even. The low byte of its bits is 0, so that of the sum is the low byte of the rounded value.
        const ROUNDING: f32 = 12_582_912.0;
        let whole = s.add(s.min(*high, s.max(*low, value)), s.splat(ROUNDING));
        s.store_low_bytes(s.add_integers(whole, *zero), to);
    }
}

/// Converts the sums of one group.
pub(super) struct Conversion<'a, T> {
    pub(super) parameters: &'a Parameters<'a>,
    /// The first element of the group in the vectors of columns.
    pub(super) first: usize,
    /// The first column of the group in the output.
    pub(super) first_column: usize,
    pub(super) element: PhantomData<T>,
}

impl<T: Converted> Sink for Conversion<'_, T> {
    type Element = T;

    #[inline(always)]
    fn write<S: Simd>(&self, s: S, tile: &mut SumTile<'_, T>) {
        let parameters = self.parameters;
        if let Some(zeros) = parameters.w_zeros {
            let zeros = &zeros[self.first + tile.columns().start..];
            for row in 0..tile.rows() {
                let row_sum = tile.row_sum(row);
                let (sums, _) = tile.row(row);
                let zeros = zeros.chunks_exact(S::LANES);
                for (sums, zeros) in sums.chunks_exact_mut(S::LANES).zip(zeros) {
                    let sum = s.subtract_product(s.load(sums), row_sum, s.load(zeros));
                    s.store(sum, sums);
                }
            }
        }
        match &parameters.addend {
            None => self.convert(s, tile, NoAddend),
            Some(addend) => match addend.elements {
                AddendElements::Floats(elements) => {
                    self.convert(s, tile, addend.vectors(s, elements));
                }
                AddendElements::Bytes(elements, ty) => {
                    let vectors = addend.vectors(s, elements);
                    self.convert(s, tile, ByteVectors(vectors, ty.flip()));
                }
            },
        }
    }
}

impl<T: Converted> Conversion<'_, T> {
    /// Converts sums, the rows of a vector of columns one after the other, so that the parameters of columns stay in
    /// registers.
    #[inline(always)]
    fn convert<S: Simd>(&self, s: S, tile: &mut SumTile<'_, T>, addend: impl AddendVectors<S>) {
        let parameters = self.parameters;
        let constants = T::constants(s, parameters, parameters.limits);
        let [low, high] = parameters.limits.map(|limit| s.splat(limit));
        let (columns, has_function) = (tile.columns(), parameters.function.is_some());
        for at in (0..columns.len()).step_by(S::LANES) {
            let start = self.first + columns.start + at;
            let corrections = s.load(&parameters.corrections[start..]);
            let factors = s.load(&parameters.factors[start..]);
            let summands = s.load(&parameters.summands[start..]);
            let lanes = at..columns.len().min(at + S::LANES);
            for row in 0..tile.rows() {
                let first = self.first_column + tile.offset(row) + columns.start;
                let (sums, to) = tile.row(row);
                let sum = s.add_integers(s.load(&sums[at..]), corrections);
                if T::IS_SUM {
                    T::store(s, &constants, sum, &mut to[lanes.clone()]);
                    continue;
                }
                let value = s.fma(s.integers_to_floats(sum), factors, summands);
                let value = addend.add(s, first + lanes.start..first + lanes.end, value);
                if has_function {
                    s.store(s.min(high, s.max(low, value)), &mut sums[at..]);
                } else {
                    T::store(s, &constants, value, &mut to[lanes.clone()]);
                }
            }
        }
        if let Some((function, factor)) = parameters.function {
            let (factor, all) = (s.splat(factor), [f32::NEG_INFINITY, f32::INFINITY]);
            let constants = T::constants(s, parameters, all);
            for row in 0..tile.rows() {
                let (sums, to) = tile.row(row);
                map_in_place(s, function, sums);
                let sums = sums.chunks_exact(S::LANES);
                for (sums, to) in sums.zip(to.chunks_mut(S::LANES)) {
                    T::store(s, &constants, s.mul(s.load(sums), factor), to);
                }
            }
        }
    }
}

/// What is added to values.
trait AddendVectors<S: Simd> {
    /// Adds the elements of a range of the output to a vector of values.
    fn add(&self, s: S, range: Range<usize>, value: S::V) -> S::V;
}

struct NoAddend;

impl<S: Simd> AddendVectors<S> for NoAddend {
    #[inline(always)]
    fn add(&self, _: S, _: Range<usize>, value: S::V) -> S::V {
        value
    }
}

/// The elements of an [`Addend`], with its parameters as vectors.
struct Vectors<'a, E, S: Simd> {
    elements: &'a [E],
    zero: S::V,
    factor: S::V,
    /// The bounds and the factor of values that are rounded before.
    rounding: Option<[S::V; 3]>,
}

impl Addend<'_> {
    #[inline(always)]
    fn vectors<'e, E, S: Simd>(&self, s: S, elements: &'e [E]) -> Vectors<'e, E, S> {
        Vectors {
            elements,
            zero: s.splat(self.zero),
            factor: s.splat(self.factor),
            rounding: self
                .rounding
                .map(|([low, high], factor)| [s.splat(low), s.splat(high), s.splat(factor)]),
        }
    }
}

impl<E, S: Simd> Vectors<'_, E, S> {
    /// Adds a vector of elements to values.
    #[inline(always)]
    fn add_elements(&self, s: S, elements: S::V, value: S::V) -> S::V {
        let value = match self.rounding {
            None => value,
            Some([low, high, factor]) => s.mul(s.round(s.min(high, s.max(low, value))), factor),
        };
        s.fma(elements, self.factor, value)
    }
}

impl<S: Simd> AddendVectors<S> for Vectors<'_, f32, S> {
    #[inline(always)]
    fn add(&self, s: S, range: Range<usize>, value: S::V) -> S::V {
        self.add_elements(s, s.load_part(&self.elements[range]), value)
    }
}

/// Elements of bytes, with the bits of the number inverted.
struct ByteVectors<'a, S: Simd>(Vectors<'a, u8, S>, u8);

impl<S: Simd> AddendVectors<S> for ByteVectors<'_, S> {
    #[inline(always)]
    fn add(&self, s: S, range: Range<usize>, value: S::V) -> S::V {
        let elements = s.load_bytes(&self.0.elements[range], self.1);
        self.0.add_elements(s, s.sub(elements, self.0.zero), value)
    }
}
