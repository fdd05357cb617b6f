//! Quantized models: convolutions and matmuls of dequantized tensors become operators on the quantized tensors, which
//! backends compute in integers.
//!
//! A model in QDQ form has DequantizeLinear before an operator and QuantizeLinear behind it. The rules start at the
//! operator, whose result is f32 at first; its activation and the QuantizeLinear are fused when they are visited.
//! Operators that only move or compare elements work on the quantized tensors themselves. Matmuls of floating-point tensors
//! with dequantized weights become an operator on the quantized weights.

mod dynamic;
mod movement;
mod products;
pub(crate) mod unsigned;
mod weights;

use crate::rewrite::{Rewriter, Rule};
use std::sync::Arc;
use tenon_backend::{Backend, PropertyValue};
use tenon_base::Result;
use tenon_graph::{DataType, Node, ValueId};

/// The operators on quantized tensors.
pub(crate) const PRODUCTS: [&str; 2] = ["tenon.QuantizedConv", "tenon.QuantizedMatMul"];

/// The operator with quantized weights alone.
pub(crate) const WEIGHT_ONLY: &str = "tenon.WeightOnlyMatMul";

/// Positions of the inputs of [`PRODUCTS`].
pub(crate) const BIAS: usize = 6;
pub(crate) const Y_SCALE: usize = 7;
pub(crate) const ADDEND: usize = 9;

/// Data movement of quantized tensors.
pub(crate) const MOVEMENTS: &[Rule] = &[movement::pair, movement::moved, movement::concatenated];

/// Operators on quantized tensors, for graphs whose weights are not folded into f32.
pub(crate) const RULES: &[Rule] = &[
    movement::compared,
    products::convolution,
    products::quantized_convolution,
    products::matmul,
    products::quantized_matmul,
    weights::matmul,
    dynamic::scaled,
    products::before_transpose,
    crate::fuse::into_product,
    crate::fuse::matmul_bias,
    products::output,
];

/// The residual of an operator on quantized tensors, and the quantization of what it is added to, for graphs whose images
/// have their channels last.
pub(crate) use products::{has_plain_sums, is_open_product, output, residual};

/// Whether a node is one of those that the rules start at.
pub(crate) fn is_quantized(node: &Node) -> bool {
    matches!(
        node.op.name,
        "DequantizeLinear"
            | "QuantizeLinear"
            | "QLinearConv"
            | "QLinearMatMul"
            | "MatMulInteger"
            | "ConvInteger"
    )
}

/// Whether a backend prefers activations of u8 to those of i8.
pub(crate) fn prefers_unsigned(backend: &Arc<dyn Backend>) -> bool {
    let preferred = backend.capability("PreferredByteType");
    preferred == Some(PropertyValue::String("u8".into()))
}

/// Whether quantized weights may be of this type: integers of at most 8 bits.
pub(crate) fn is_weight_type(dtype: DataType) -> bool {
    dtype.is_integer() && dtype.bits() <= 8
}

/// The parameters of a quantized tensor, constants.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    /// Of f32.
    scale: ValueId,
    zero: Option<ValueId>,
    /// The dimension of the scales, if there are several.
    axis: Option<usize>,
}

impl Parameters {
    /// Those of a QuantizeLinear or DequantizeLinear between bytes and f32.
    fn of(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<Self>> {
        let bytes = match node.op.name {
            "QuantizeLinear" => node.outputs.first().copied().flatten(),
            "DequantizeLinear" => rewriter.input(node, 0),
            _ => None,
        };
        let (Some(bytes), Some(scale)) = (bytes, rewriter.input(node, 1)) else {
            return Ok(None);
        };
        let all_f32 = ["output_dtype", "precision"].iter().all(|name| {
            // The type of the quantized tensor is known.
            (node.op.name == "QuantizeLinear" && *name == "output_dtype")
                || matches!(node.attributes.string(name, ""), Ok("" | "f32"))
        });
        let fits = is_byte(rewriter, bytes)?
            && all_f32
            && rewriter.ty(scale)?.dtype() == DataType::F32
            && node.attributes.int("block_size", 0)? == 0;
        let zero = rewriter.input(node, 2);
        let mut parameters = [Some(scale), zero].into_iter().flatten();
        if !fits || !parameters.all(|value| rewriter.constant(Some(value)).is_some()) {
            return Ok(None);
        }
        let rank = rewriter.shape(bytes)?.len() as i64;
        let axis = node.attributes.int("axis", 1)?;
        let axis = if axis < 0 { axis + rank } else { axis };
        let is_scalar = rewriter.ty(scale)?.elements() == 1;
        Ok(Some(Self {
            scale,
            zero,
            axis: (!is_scalar).then_some(axis as usize),
        }))
    }

    /// Whether both quantize a tensor equally: scalars of the same values.
    fn equal(self, other: Self, rewriter: &Rewriter<'_>) -> bool {
        let scale = |side: Self| rewriter.scalar(Some(side.scale));
        let zero = |side: Self| match side.zero {
            None => Some(0),
            Some(zero) => rewriter.constant(Some(zero))?.to_i64s()?.first().copied(),
        };
        let is_scalar = self.axis.is_none() && other.axis.is_none();
        is_scalar && scale(self) == scale(other) && zero(self) == zero(other)
    }
}

/// A tensor of bytes with its parameters.
#[derive(Debug, Clone, Copy)]
struct Quantized {
    bytes: ValueId,
    parameters: Parameters,
}

impl Quantized {
    /// The operand of the DequantizeLinear that produces `value`.
    fn of(rewriter: &Rewriter<'_>, value: Option<ValueId>) -> Result<Option<Self>> {
        let node = value.and_then(|value| rewriter.producer(value));
        let Some(node) = node.filter(|node| node.op.name == "DequantizeLinear") else {
            return Ok(None);
        };
        let (parameters, bytes) = (Parameters::of(rewriter, node)?, rewriter.input(node, 0));
        Ok(parameters
            .zip(bytes)
            .map(|(parameters, bytes)| Self { bytes, parameters }))
    }

    /// The three inputs of an operator of [`PRODUCTS`].
    fn inputs(self) -> [Option<ValueId>; 3] {
        let Parameters { scale, zero, .. } = self.parameters;
        [Some(self.bytes), Some(scale), zero]
    }
}

/// Whether a value has elements of 8-bit integers.
fn is_byte(rewriter: &Rewriter<'_>, value: ValueId) -> Result<bool> {
    let dtype = rewriter.ty(value)?.dtype();
    Ok(matches!(dtype, DataType::U8 | DataType::I8))
}
