//! The conversion of sums of integers to elements of the output, with the parameters of an execution.

use super::{BoundProduct, Output};
use crate::activation::Activation;
use crate::simd::Simd;
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::typed_gemm::{RowPosition, Sink, words_mut};
use std::marker::PhantomData;
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
}

impl<'a> Parameters<'a> {
    /// Reads the parameters and computes those of columns into `vectors`.
    pub(super) fn read(
        bound: &BoundProduct,
        inputs: &Inputs<'_>,
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
                factors[at] = (x_scale * of_column(w_scales, column) / divisor) as f32;
                summands[at] = bias.map_or(0.0, |bias| (f64::from(bias[column]) / divisor) as f32);
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
        })
    }
}

/// An element of the output.
pub(super) trait Converted: Send + Sync + Copy {
    /// Whether it is the sum of the integers.
    const IS_SUM: bool = false;

    /// Writes values that are divided by the scale of Y.
    fn store<S: Simd>(s: S, parameters: &Parameters<'_>, value: S::V, to: &mut [Self]);
}

impl Converted for i32 {
    const IS_SUM: bool = true;

    /// The value is a vector of sums.
    #[inline(always)]
    fn store<S: Simd>(s: S, _: &Parameters<'_>, value: S::V, to: &mut [i32]) {
        let count = to.len().min(S::LANES);
        s.store_part(value, words_mut(&mut to[..count]));
    }
}

impl Converted for f32 {
    #[inline(always)]
    fn store<S: Simd>(s: S, _: &Parameters<'_>, value: S::V, to: &mut [f32]) {
        let count = to.len().min(S::LANES);
        s.store_part(value, &mut to[..count]);
    }
}

impl Converted for u8 {
    #[inline(always)]
    fn store<S: Simd>(s: S, parameters: &Parameters<'_>, value: S::V, to: &mut [u8]) {
        let [low, high] = parameters.y_limits.map(|limit| s.splat(limit));
        let whole = s.round(s.min(high, s.max(low, value)));
        s.store_bytes(s.add(whole, s.splat(parameters.y_zero)), to);
    }
}

/// Converts the sums of one group.
pub(super) struct Conversion<'a, T> {
    pub(super) parameters: &'a Parameters<'a>,
    /// The first element of the group in the vectors of columns.
    pub(super) first: usize,
    pub(super) element: PhantomData<T>,
}

impl<T: Converted> Sink for Conversion<'_, T> {
    type Element = T;

    #[inline(always)]
    fn write<S: Simd>(&self, s: S, position: &RowPosition, sums: &mut [f32], to: &mut [T]) {
        let parameters = self.parameters;
        let at = self.first + position.columns.start..;
        let (corrections, factors) = (
            &parameters.corrections[at.clone()],
            &parameters.factors[at.clone()],
        );
        let summands = &parameters.summands[at.clone()];
        let zeros = parameters.w_zeros.map(|zeros| &zeros[at]);
        let [low, high] = parameters.limits.map(|limit| s.splat(limit));
        for (index, sums) in sums.chunks_exact_mut(S::LANES).enumerate() {
            let at = index * S::LANES;
            let mut sum = s.add_integers(s.load(sums), s.load(&corrections[at..]));
            if let Some(zeros) = zeros {
                sum = s.subtract_product(sum, position.row_sum, s.load(&zeros[at..]));
            }
            if T::IS_SUM {
                if let Some(to) = to.get_mut(at..) {
                    T::store(s, parameters, sum, to);
                }
                continue;
            }
            let value = s.fma(
                s.integers_to_floats(sum),
                s.load(&factors[at..]),
                s.load(&summands[at..]),
            );
            let value = s.min(high, s.max(low, value));
            match parameters.function {
                Some(_) => s.store(value, sums),
                None => {
                    if let Some(to) = to.get_mut(at..) {
                        T::store(s, parameters, value, to);
                    }
                }
            }
        }
        if let Some((function, factor)) = parameters.function {
            map_in_place(s, function, sums);
            let factor = s.splat(factor);
            for (sums, to) in sums.chunks_exact(S::LANES).zip(to.chunks_mut(S::LANES)) {
                T::store(s, parameters, s.mul(s.load(sums), factor), to);
            }
        }
    }
}
