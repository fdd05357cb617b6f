//! Quantization and dequantization.

use crate::activation::Activation;
use crate::elements::{Elements, ElementsMut, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, unsupported_type, unsupported_value,
};
use crate::loop_nest::{AxisExtents, BLOCK};
use crate::number::Number;
use tenon_backend::Inputs;
use tenon_base::{Result, stop, vectorized};
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
];

/// The granularity of scales and zero points.
#[derive(Debug, Clone, Copy)]
enum ScaleLayout {
    /// One per tensor.
    One,
    /// One for each position of the axis.
    Axis(AxisExtents),
    /// One for each block of positions of the axis, of this length.
    Blocks(AxisExtents, usize),
}

impl ScaleLayout {
    fn new(node: &Node<'_>) -> Result<Self> {
        let shape = node.shape(0)?;
        let block = node.attributes.int("block_size", 0)?.max(0) as usize;
        if node.input(1)?.elements() == 1 && block == 0 {
            return Ok(ScaleLayout::One);
        }
        let axis = node.axis("axis", 1, shape.len())?;
        Ok(Self::along(AxisExtents::new(shape, axis), block))
    }

    /// Scales for positions of an axis, or for blocks of them if `block` is not 0.
    fn along(axis: AxisExtents, block: usize) -> Self {
        if block == 0 {
            ScaleLayout::Axis(axis)
        } else {
            ScaleLayout::Blocks(axis, block)
        }
    }

    /// The scale of an element, the stride of those of the elements after it, and for how many of them that holds.
    fn run(self, element: usize) -> (usize, isize, usize) {
        match self {
            ScaleLayout::One => (0, 0, usize::MAX),
            ScaleLayout::Axis(along) => {
                let at = element / along.inner % along.extent;
                match along.inner {
                    1 => (at, 1, along.extent - at),
                    inner => (at, 0, inner - element % inner),
                }
            }
            ScaleLayout::Blocks(along, block) => {
                let (row, column) = (element / along.inner, element % along.inner);
                let blocks = along.extent.div_ceil(block);
                let at = row % along.extent;
                let first = (row / along.extent * blocks + at / block) * along.inner;
                match along.inner {
                    1 => (first, 0, (block - at % block).min(along.extent - at)),
                    inner => (first + column, 1, inner - column),
                }
            }
        }
    }
}

/// The inputs of a (de)quantization.
struct QuantizationInputs<'a> {
    x: Elements<'a>,
    scale: Elements<'a>,
    zero: Option<Elements<'a>>,
}

impl<'a> QuantizationInputs<'a> {
    /// `zero` is the type of the zero points, if they count.
    fn new(
        inputs: &Inputs<'a>,
        x: DataType,
        scale: DataType,
        zero: Option<DataType>,
    ) -> Result<Self> {
        Ok(Self {
            x: Elements::new(inputs, 0, x)?,
            scale: Elements::new(inputs, 1, scale)?,
            zero: zero
                .map(|dtype| Elements::new(inputs, 2, dtype))
                .transpose()?,
        })
    }

    /// Sets all elements of `to`: `compute` replaces the values by the results, from the scales and zero points. Without
    /// zero points they are `none`.
    fn compute(
        &self,
        scales: ScaleLayout,
        count: usize,
        none: f64,
        to: &mut ElementsMut<'_>,
        compute: impl Fn(&mut [f64], &[f64], &[f64]),
    ) {
        let [mut values, mut factors, mut zeros] = [[none; BLOCK]; 3];
        let mut done = 0;
        while done < count {
            stop::checkpoint();
            let (at, stride, run) = scales.run(done);
            let len = run.min(count - done).min(BLOCK);
            let (values, factors, zeros) =
                (&mut values[..len], &mut factors[..len], &mut zeros[..len]);
            self.x.reals(done, values);
            self.scale.strided(at, stride, factors);
            if let Some(zero) = self.zero {
                zero.strided(at, stride, zeros);
            }
            compute(values, factors, zeros);
            to.set_reals(done, values);
            done += len;
        }
    }
}

/// The weights of `tenon.WeightOnlyMatMul`: input 1, with the scales 2 and the zero points 3.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    scales: ScaleLayout,
    /// Of the weights and of the scales.
    types: [DataType; 2],
    has_zeros: bool,
}

impl Weights {
    pub(crate) fn of(node: &Node<'_>) -> Result<Self> {
        let block = node.attributes.int("block_size", 0)?.max(0) as usize;
        // The dimension along K, or that of the columns.
        let is_first = node.attributes.flag("trans_b", false)? == (block == 0);
        let axis = AxisExtents::new(node.shape(1)?, usize::from(!is_first));
        let scales = if node.input(2)?.elements() == 1 && block == 0 {
            ScaleLayout::One
        } else {
            ScaleLayout::along(axis, block)
        };
        Ok(Self {
            scales,
            types: [node.dtype(1)?, node.dtype(2)?],
            has_zeros: node.has_input(3),
        })
    }

    /// Writes dequantized elements one after the other, from `start` on.
    pub(crate) fn bind<'a>(
        self,
        inputs: &Inputs<'a>,
    ) -> Result<impl Fn(usize, &mut [f64]) + Sync + use<'a>> {
        let weights = Elements::new(inputs, 1, self.types[0])?;
        let scales = Elements::new(inputs, 2, self.types[1])?;
        let zeros = self
            .has_zeros
            .then(|| Elements::new(inputs, 3, self.types[0]));
        let zeros = zeros.transpose()?;
        Ok(move |start: usize, mut to: &mut [f64]| {
            let mut at = start;
            while !to.is_empty() {
                let (scale, stride, run) = self.scales.run(at);
                let values = to.split_off_mut(..run.min(to.len())).unwrap_or_default();
                weights.reals(at, values);
                for (value, nth) in values.iter_mut().zip(0isize..) {
                    let scale = scale.wrapping_add_signed(nth * stride);
                    let zero = zeros.map_or(0.0, |zeros| zeros.at(scale));
                    *value = (*value - zero) * scales.at(scale);
                }
                at += values.len();
            }
        })
    }
}

/// What the fused operators on quantized tensors read beside the two tensors: input 0 has the scale 1 and the zero
/// point 2; input 3 the scales 4 and the zero points 5, one or one for each column of the output; input 6 is the bias, 7
/// and 8 are the scale and the zero point of the output. Input 9 is added, with the scale 10 and the zero point 11; the
/// sum is quantized before that with the scale 12 and the zero point 13.
pub(crate) struct QuantizedSum {
    types: [DataType; 2],
    /// The types of the addend and of the sum.
    addend: Option<DataType>,
    has_addend_zero: bool,
    sum_type: DataType,
    has_sum_zero: bool,
    zeros: [bool; 2],
    /// The strides of the scales and zero points of input 3 over columns.
    strides: [usize; 2],
    activation: Activation,
}

/// The same when executing.
pub(crate) struct BoundQuantizedSum<'a> {
    left: Elements<'a>,
    right: Elements<'a>,
    left_zero: f64,
    right_zeros: Option<Elements<'a>>,
    left_scale: f64,
    right_scales: &'a [f32],
    bias: Option<&'a [f32]>,
    /// The scale and the zero point of the output, unless it is f32.
    output: Option<(f64, f64)>,
    addend: Option<Addend<'a>>,
    /// The scale of the sum before the addition, and the least and the greatest multiple of it.
    requantized: Option<(f64, [f64; 2])>,
    sum: &'a QuantizedSum,
}

/// A tensor that is added to the sums, with its scale and its zero point.
struct Addend<'a> {
    elements: Elements<'a>,
    scale: f64,
    zero: f64,
}

impl QuantizedSum {
    pub(crate) fn of(node: &Node<'_>) -> Result<Self, BuildError> {
        let stride = |index: usize| {
            let elements = node.optional(index).map_or(1, |ty| ty.elements());
            usize::from(elements != 1)
        };
        Ok(Self {
            types: [node.dtype(0)?, node.dtype(3)?],
            zeros: [node.has_input(2), node.has_input(5)],
            addend: node.optional(9).map(|ty| ty.dtype()),
            has_addend_zero: node.has_input(11),
            sum_type: node.optional(13).map_or(DataType::U8, |ty| ty.dtype()),
            has_sum_zero: node.has_input(13),
            strides: [stride(4), stride(5)],
            activation: Activation::of(node)?,
        })
    }

    /// Reads the parameters; the output is of type `Y`.
    pub(crate) fn bind<'a, Y: Number>(
        &'a self,
        inputs: &Inputs<'a>,
    ) -> Result<BoundQuantizedSum<'a>> {
        let [left, right] = self.types;
        let zeros = |nth: usize, index: usize| -> Result<Option<Elements<'a>>> {
            let zeros = self.zeros[nth].then(|| Elements::new(inputs, index, self.types[nth]));
            zeros.transpose()
        };
        let y_zero = inputs
            .optional::<Y>(8)?
            .map_or(0.0, |zero| zero[0].to_f64());
        let y_scale = inputs.optional::<f32>(7)?;
        let zero = |has: bool, index: usize, dtype: DataType| -> Result<f64> {
            Ok(if has {
                Elements::new(inputs, index, dtype)?.at(0)
            } else {
                0.0
            })
        };
        let addend = match self.addend {
            None => None,
            Some(dtype) => Some(Addend {
                elements: Elements::new(inputs, 9, dtype)?,
                scale: inputs
                    .optional::<f32>(10)?
                    .map_or(1.0, |scale| scale[0].into()),
                zero: zero(self.has_addend_zero, 11, dtype)?,
            }),
        };
        let sum_zero = zero(self.has_sum_zero, 13, self.sum_type)?;
        let range = match self.sum_type {
            DataType::I8 => [-128.0, 127.0],
            _ => [0.0, 255.0],
        };
        let requantized = inputs
            .optional::<f32>(12)?
            .map(|scale| (scale[0].into(), range.map(|bound| bound - sum_zero)));
        Ok(BoundQuantizedSum {
            left: Elements::new(inputs, 0, left)?,
            right: Elements::new(inputs, 3, right)?,
            left_zero: zeros(0, 2)?.map_or(0.0, |zero| zero.at(0)),
            right_zeros: zeros(1, 5)?,
            left_scale: inputs.slice::<f32>(1)?[0].into(),
            right_scales: inputs.slice::<f32>(4)?,
            bias: inputs.optional::<f32>(6)?,
            output: y_scale.map(|scale| (scale[0].into(), y_zero)),
            addend,
            requantized,
            sum: self,
        })
    }
}

impl BoundQuantizedSum<'_> {
    /// Writes the elements of input 0 at `start`, `start + step`... less their zero point, exactly.
    pub(crate) fn left(&self, start: usize, step: usize, to: &mut [f64]) {
        self.left.strided(start, step as isize, to);
        to.iter_mut().for_each(|x| *x -= self.left_zero);
    }

    /// The same of input 3; element `nth` belongs to column `first + nth * along`.
    pub(crate) fn right(
        &self,
        (start, step): (usize, usize),
        (first, along): (usize, usize),
        to: &mut [f64],
    ) {
        self.right.strided(start, step as isize, to);
        if let Some(zeros) = self.right_zeros {
            for (nth, x) in to.iter_mut().enumerate() {
                *x -= zeros.at((first + nth * along) * self.sum.strides[1]);
            }
        }
    }

    /// The element `at` of the output, of a sum of products of elements in `column`. The value before each quantization,
    /// its quotient and the terms of the addition are rounded to f32, as if they were the results of separate operators.
    pub(crate) fn finish<Y: Number>(&self, at: usize, column: usize, sum: f64) -> Y {
        let scale = self.left_scale * f64::from(self.right_scales[column * self.sum.strides[0]]);
        let bias = self.bias.map_or(0.0, |bias| bias[column].into());
        let rounded = |value: f64| f64::from(value as f32);
        let mut value = sum * scale + bias;
        if let Some((scale, [low, high])) = self.requantized {
            let steps = rounded(rounded(value) / scale).round_ties_even();
            value = rounded(steps.clamp(low, high) * scale);
        }
        if let Some(addend) = &self.addend {
            value += rounded((addend.elements.at(at) - addend.zero) * addend.scale);
        }
        let value = self.sum.activation.apply(value);
        Y::of_f64(match self.output {
            None => value,
            Some((scale, zero)) => {
                let quotient = (f64::from(value as f32) / scale) as f32;
                f64::from(quotient.round_ties_even()) + zero
            }
        })
    }
}

/// Evaluates `$body` with `$Y` as the type of output 0 of an operator on quantized tensors.
macro_rules! quantized_output {
    ($node:expr, $Y:ident => $body:expr) => {
        match $node.output(0)?.dtype() {
            DataType::F32 => {
                type $Y = f32;
                $body
            }
            DataType::U8 => {
                type $Y = u8;
                $body
            }
            DataType::I8 => {
                type $Y = i8;
                $body
            }
            found => Err($crate::kernel::unsupported(format!(
                "an output of type {found}"
            ))),
        }
    };
}
pub(crate) use quantized_output;

/// Rounds values to a floating-point type.
fn rounding(dtype: DataType) -> Result<fn(&mut [f64]), BuildError> {
    floats!(dtype, 1, T => Ok(|values| {
        vectorized!(for x in values.iter_mut() { *x = T::of_f64(*x).to_f64(); });
    }))
}

fn is_f8(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// The quotient is rounded to the type of the division before it is rounded to an integer, which
/// decides ties.
fn quantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    let zero = node.optional(2).map(|ty| ty.dtype());
    let divided = match node.attributes.string("precision", "")? {
        // Powers of two have no mantissa.
        "" if scale == DataType::F8E8M0Fnu => DataType::F32,
        "" => scale,
        name => name.parse()?,
    };
    let round = rounding(divided).map_err(|_| unsupported_value("precision", divided))?;
    let saturate = node.attributes.flag("saturate", true)?;
    let [least, greatest] = match (y.quantized_range(), y.greatest_quantized()) {
        (Some(range), _) => range,
        (_, Some(greatest)) if saturate => [-greatest, greatest],
        (_, Some(_)) => [f64::NEG_INFINITY, f64::INFINITY],
        _ => return Err(unsupported_value("output_dtype", y)),
    };
    // The zero point of floating-point types of 8 bits is 0.
    let zero = zero.filter(|_| !is_f8(y));
    let count = node.output(0)?.elements();
    if !is_numeric(x) {
        return Err(unsupported_type(0, x));
    }
    let to_integers = y.is_integer();
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let inputs = QuantizationInputs::new(&inputs, x, scale, zero)?;
        let mut to = ElementsMut::new(&mut outputs, 0, y)?;
        // Negative zero leaves all values as they are, the sign of zero too.
        inputs.compute(scales, count, -0.0, &mut to, |values, scales, zeros| {
            vectorized!({
                for (x, scale) in values.iter_mut().zip(scales) {
                    *x /= scale;
                }
            });
            round(values);
            vectorized!(for (x, zero) in values.iter_mut().zip(zeros) {
                let rounded = if to_integers { x.round_ties_even() } else { *x };
                *x = (rounded + zero).clamp(least, greatest);
            });
        });
        Ok(())
    }))
}

fn dequantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    // The zero point of floating-point types is 0.
    let zero = node.optional(2).map(|ty| ty.dtype());
    let zero = zero.filter(|_| !x.is_float());
    let count = node.output(0)?.elements();
    if !is_numeric(x) {
        return Err(unsupported_type(0, x));
    }
    if !is_numeric(y) {
        return Err(unsupported_value("output_dtype", y));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let inputs = QuantizationInputs::new(&inputs, x, scale, zero)?;
        let mut to = ElementsMut::new(&mut outputs, 0, y)?;
        inputs.compute(scales, count, 0.0, &mut to, |values, scales, zeros| {
            vectorized!(
                for ((x, scale), zero) in values.iter_mut().zip(scales).zip(zeros) {
                    *x = (*x - zero) * scale;
                }
            );
        });
        Ok(())
    }))
}

/// In single precision throughout, as ONNX defines it.
fn dynamic(node: &Node<'_>) -> Result<Kernel, BuildError> {
    if node.dtype(0)? != DataType::F32 {
        return Err(unsupported_type(0, node.dtype(0)?));
    }
    Ok(Kernel::new(|operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<f32>(0)?;
        // Each of some extremes has its own elements, so that they are computed in vectors.
        let mut extremes = [[0f32; 2]; BLOCK];
        for x in x.chunks(BLOCK) {
            vectorized!(for ([least, greatest], &x) in extremes.iter_mut().zip(x) {
                (*least, *greatest) = (least.min(x), greatest.max(x));
            });
        }
        let extremes = extremes.iter();
        let [least, greatest] = extremes.fold([0f32; 2], |[least, greatest], [low, high]| {
            [least.min(*low), greatest.max(*high)]
        });
        // All elements are 0: the scale is arbitrary.
        let scale = if greatest == least {
            1.0
        } else {
            (greatest - least) / 255.0
        };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
        if let Some(to) = outputs.optional::<u8>(0)? {
            vectorized!(for (to, x) in to.iter_mut().zip(x) {
                *to = ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
            });
        }
        if let Some(to) = outputs.optional::<f32>(1)? {
            to.fill(scale);
        }
        if let Some(to) = outputs.optional::<u8>(2)? {
            to.fill(zero as u8);
        }
        Ok(())
    }))
}
