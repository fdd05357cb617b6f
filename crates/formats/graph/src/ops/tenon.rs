//! Operators of Tenon, which the compiler emits for fused nodes. Images are batch, spatial
//! dimensions, channels; weights are in ONNX's order.

use super::matmul::product_shape;
use super::quantize::{ScaleUse, expect_finite_quotient, expect_scales, expect_scales_of_product};
use super::rows::*;
use super::shapes::{
    Inferred, broadcasts_to, choice, dtype_beside_weights, expect_dtype, expect_optional_shape,
    expect_scalar, expect_shape, extent, invalid, one, one_or_each, positive, product, rank,
    same_dtype,
};
use crate::elementwise::Program;
use crate::geometry::Window;
use crate::operator::{AttributeDef, OperandDef, Types};
use crate::{DataType, Inference};
use tenon_base::{Location, Result};
use tenon_tensor::TensorType;

/// The values of attribute `activation`.
const ACTIVATIONS: &[&str] = &[
    "none",
    "relu",
    "clip",
    "sigmoid",
    "tanh",
    "silu",
    "hardswish",
    "hardsigmoid",
    "leakyrelu",
    "gelu",
    "gelu_tanh",
];

const ACTIVATION: AttributeDef = string(
    "activation",
    "none, relu, clip (alpha to beta), sigmoid, tanh, silu, hardswish, hardsigmoid (alpha x + beta), \
     leakyrelu (alpha), gelu or gelu_tanh; default none",
);
const ALPHA: AttributeDef = float("alpha", "first parameter of the activation; default 0");
const BETA: AttributeDef = float("beta", "second parameter of the activation; default 0");
const DILATIONS: AttributeDef = ints(
    "dilations",
    "distance between elements of the kernel; default 1s",
);
const PADS: AttributeDef = ints(
    "pads",
    "padding before each spatial dimension, then after each; default 0s",
);
const AUTO_PAD: AttributeDef = string(
    "auto_pad",
    "NOTSET (explicit pads), VALID, SAME_UPPER or SAME_LOWER, where the padding depends on the size; default NOTSET",
);
const STRIDES: AttributeDef = ints("strides", "distance between windows; default 1s");
const KERNEL_SHAPE: AttributeDef = must(ints("kernel_shape", "height and width of a window"));
const CEIL_MODE: AttributeDef = int(
    "ceil_mode",
    "1: the last window may extend beyond the padding; default 0",
);

const GROUP: AttributeDef = int("group", "groups of channels; default 1");
const TRANS_B: AttributeDef = int(
    "trans_b",
    "1: the last two dimensions of B are swapped; default 0",
);

const X: OperandDef = required("X", FLOATS);
const Y: OperandDef = required("Y", FLOATS);
const Y_SCALE: OperandDef = optional("y_scale", F32);
const Y_ZERO: OperandDef = optional("y_zero_point", BYTES);
const ADDEND: OperandDef = optional("Z", BYTES_OR_F32);
const Z_SCALE: OperandDef = optional("z_scale", F32);
const Z_ZERO: OperandDef = optional("z_zero_point", BYTES);
const S_SCALE: OperandDef = optional("s_scale", F32);
const S_ZERO: OperandDef = optional("s_zero_point", BYTES);
const FLOATS_OR_BYTES: Types = Types::Only(&[
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::U8,
    DataType::I8,
]);
const SMALL_INTEGERS: Types = Types::Only(&[
    DataType::U8,
    DataType::I8,
    DataType::U4,
    DataType::I4,
    DataType::U2,
    DataType::I2,
]);
/// Quantized, or the sums themselves.
const BYTES_OR_F32: Types = Types::Only(&[DataType::U8, DataType::I8, DataType::F32]);

operators! { "tenon"
    /// Convolution with epilogue: X [N, spatial..., C] of one to three spatial dimensions,
    /// W [M, C/group, kernel...], B [M], Z [N, output..., M]; Y = activation(conv(X, W) + B + Z), of Z's
    /// shape. All have one type, or W is f16 or bf16 and the others are f32; then a product may round X to the type of
    /// W.
    Compute "tenon.Conv" (X, required("W", FLOATS), optional("B", FLOATS), optional("Z", FLOATS))
        -> (Y)
        [
            ACTIVATION, ALPHA, AUTO_PAD, BETA, DILATIONS,
            GROUP, PADS, STRIDES,
        ] conv;
    /// Transposed convolution with epilogue: X [N, spatial..., C] of one to three spatial dimensions,
    /// W [C, M/group, kernel...], B [M], Z [N, output..., M];
    /// Y = activation(conv_transpose(X, W) + B + Z), of Z's shape.
    Compute "tenon.ConvTranspose"
        (X, required("W", FLOATS), optional("B", FLOATS), optional("Z", FLOATS))
        -> (Y)
        [
            ACTIVATION, ALPHA, BETA, DILATIONS, GROUP,
            ints("output_padding", "elements added after each spatial dimension; default 0s"),
            PADS, STRIDES,
        ] conv_transpose;
    /// Matmul with epilogue: A [.., M, K], B [.., K, N], bias [N], Z of the
    /// result's shape; Y = activation(scale A' B' + bias + Z). Leading dimensions are broadcast. All have one type, or
    /// B is f16 or bf16 and the others are f32; then a product may round A to the type of B.
    Compute "tenon.MatMul"
        (required("A", FLOATS), required("B", FLOATS), optional("bias", FLOATS),
         optional("Z", FLOATS))
        -> (Y)
        [
            ACTIVATION, ALPHA, BETA,
            float("scale", "factor of the product; default 1"),
            int("trans_a", "1: the last two dimensions of A are swapped; default 0"),
            TRANS_B,
        ] matmul;
    /// Convolution of quantized tensors with epilogue: X [N, spatial..., C] of one to three spatial dimensions,
    /// W [M, C/group, kernel...], B [M], Z [N, output..., M]. Scales and zero points are scalars, those of W also
    /// [M]; an omitted zero point is 0. With S = conv(dequantize(X), dequantize(W)) + B, where padding is 0,
    /// Y = quantize(activation(S + dequantize(Z))), of the type of y_zero_point, or u8; without y_scale Y is f32 and
    /// is not quantized. Z without z_scale is f32. With s_scale S is quantized to the type of s_zero_point, or u8, and
    /// dequantized before Z is added.
    Compute "tenon.QuantizedConv"
        (required("X", BYTES), required("x_scale", F32), optional("x_zero_point", BYTES),
         required("W", BYTES), required("w_scale", F32), optional("w_zero_point", BYTES),
         optional("B", F32), Y_SCALE, Y_ZERO, ADDEND, Z_SCALE, Z_ZERO, S_SCALE, S_ZERO)
        -> (required("Y", BYTES_OR_F32))
        [
            ACTIVATION, ALPHA, AUTO_PAD, BETA, DILATIONS, GROUP, PADS, STRIDES,
        ] quantized_conv;
    /// Matmul of quantized tensors with epilogue: A [.., M, K], B [.., K, N], bias [N], Z of the result's shape;
    /// leading dimensions are broadcast. Scales and zero points are scalars, those of B also [N]; an omitted zero
    /// point is 0. With S = dequantize(A) dequantize(B') + bias, Y = quantize(activation(S + dequantize(Z))), of the
    /// type of y_zero_point, or u8; without y_scale Y is f32 and is not quantized. Z without z_scale is f32. With s_scale
    /// S is quantized to the type of s_zero_point, or u8, and dequantized before Z is added.
    Compute "tenon.QuantizedMatMul"
        (required("A", BYTES), required("a_scale", F32), optional("a_zero_point", BYTES),
         required("B", BYTES), required("b_scale", F32), optional("b_zero_point", BYTES),
         optional("bias", F32), Y_SCALE, Y_ZERO, ADDEND, Z_SCALE, Z_ZERO, S_SCALE, S_ZERO)
        -> (required("Y", BYTES_OR_F32))
        [ACTIVATION, ALPHA, BETA, TRANS_B] quantized_matmul;
    /// Matmul with quantized weights (weight-only quantization): A [.., M, K], B [K, N], bias [N], Z of the result's
    /// shape. b_scale and b_zero_point are a scalar, or [N], or with `block_size` of the shape of B with a value for each
    /// block along K; an omitted zero point is 0. Y = activation(A dequantize(B') + bias + Z).
    Compute "tenon.WeightOnlyMatMul"
        (required("A", FLOATS), required("B", SMALL_INTEGERS), required("b_scale", FLOATS),
         optional("b_zero_point", SMALL_INTEGERS), optional("bias", FLOATS), optional("Z", FLOATS))
        -> (Y)
        [
            ACTIVATION, ALPHA, BETA,
            int("block_size", "elements along K that share a scale; 0: all; default 0"),
            TRANS_B,
        ] weight_only_matmul;
    /// MaxPool of X [N, H, W, C].
    Compute "tenon.MaxPool" (required("X", FLOATS_OR_BYTES)) -> (required("Y", FLOATS_OR_BYTES))
        [AUTO_PAD, CEIL_MODE, DILATIONS, KERNEL_SHAPE, PADS, STRIDES] pool;
    /// AveragePool of X [N, H, W, C].
    Compute "tenon.AveragePool" (X) -> (Y)
        [
            AUTO_PAD, CEIL_MODE,
            int("count_include_pad", "1: padding counts as elements of value 0; default 0"),
            DILATIONS, KERNEL_SHAPE, PADS, STRIDES,
        ] pool;
    /// softmax(scale Q K' + mask) V for each head: Q [B, S, H, D], K [B, T, H, D], V [B, T, H, Dv],
    /// mask is broadcast to [B, H, S, T]; Y [B, S, H, Dv]. A query whose scores are all minus infinity
    /// gives 0.
    Compute "tenon.Attention"
        (required("Q", FLOATS), required("K", FLOATS), required("V", FLOATS),
         optional("mask", FLOATS))
        -> (Y) [float("scale", "factor of the scores; default 1")] attention;
    /// A program of elementwise operators, applied one after the other to the elements of the inputs,
    /// which are broadcast. Every result has the output's shape. f16 and bf16 may be computed in f32,
    /// rounded once at the end.
    Compute "tenon.Elementwise" (variadic("X", PLAIN)) -> (required("Y", PLAIN))
        [
            must(strings(
                "program",
                "an operator applied to inputs (%0, %1, ...) and earlier results in each text, such as \
                 \"%a = Mul(%0, %1)\"; the output is the last result",
            )),
        ] elementwise;
    /// A substitution of several nodes by a backend, which alone knows its semantics. Its constants, such
    /// as a compiled program, are inputs.
    Compute "tenon.Precompiled" (variadic("X", ANY)) -> (variadic("Y", ANY))
        [
            must(string("backend", "the backend that made it")),
            must(string("name", "what that backend calls it")),
            must(strings("outputs", "the types of the outputs, such as f32[1, 10]")),
        ] precompiled;
}

fn planes(kernel: &[usize], node: &Inference<'_>) -> Result<Window> {
    let x = node.input(0)?.shape();
    Window::sliding(node.attributes, &x[1..x.len() - 1], kernel)
}

fn conv(node: &Inference<'_>) -> Inferred {
    convolution(node, false)
}

fn conv_transpose(node: &Inference<'_>) -> Inferred {
    convolution(node, true)
}

fn convolution(node: &Inference<'_>, transposed: bool) -> Inferred {
    let names = ["X", "W", "B", "Z"];
    let dtype = if transposed {
        same_dtype(node, &names)?
    } else {
        dtype_beside_weights(node, &names, 1)?
    };
    let shape = convolution_shape(node, 1, transposed)?;
    expect_optional_shape(node, 2, "B", &shape[shape.len() - 1..])?;
    expect_optional_shape(node, 3, "Z", &shape)?;
    one(dtype, shape)
}

fn quantized_conv(node: &Inference<'_>) -> Inferred {
    let shape = convolution_shape(node, 3, false)?;
    let names = ["x_scale", "x_zero_point", "w_scale", "w_zero_point", "B"];
    quantized(node, shape, names)
}

/// The output of an operator on quantized tensors: input 0 has one scale, input 3 one or one for each position of the
/// last dimension of `shape`. `names` are those of their parameters.
fn quantized(node: &Inference<'_>, shape: Vec<usize>, names: [&str; 5]) -> Inferred {
    let [x_scale, x_zero, w_scale, w_zero, bias] = names;
    for (index, zero, name) in [(0, 2, x_zero), (3, 5, w_zero)] {
        if let Some(ty) = node.optional(zero) {
            expect_dtype(ty, name, node.input(index)?.dtype())?;
        }
    }
    let scalars = [
        (1, x_scale),
        (2, x_zero),
        (7, "y_scale"),
        (8, "y_zero_point"),
        (10, "z_scale"),
        (11, "z_zero_point"),
        (12, "s_scale"),
        (13, "s_zero_point"),
    ];
    for (index, name) in scalars {
        expect_scalar(node, index, name)?;
    }
    let last = &shape[shape.len() - 1..];
    one_or_each(node, 4, w_scale, last[0])?;
    one_or_each(node, 5, w_zero, last[0])?;
    expect_optional_shape(node, 6, bias, last)?;
    let names = [(1, x_scale), (4, w_scale)];
    for divisor in [(7, "y_scale"), (12, "s_scale")] {
        expect_scales_of_product(node, [names[0], names[1], divisor])?;
    }
    addend(node, &shape)?;
    let dtype = match (node.optional(7), node.optional(8)) {
        (None, None) => DataType::F32,
        (Some(_), None) => DataType::U8,
        (Some(_), Some(zero)) => zero.dtype(),
        (None, Some(_)) => {
            return Err(invalid("input 'y_zero_point' is present without 'y_scale'"));
        }
    };
    one(dtype, shape)
}

/// Checks the addend of [`quantized`], which has the shape of the output, and its parameters.
fn addend(node: &Inference<'_>, shape: &[usize]) -> Result<()> {
    for (index, name, required, required_name) in [
        (10, "z_scale", 9, "Z"),
        (11, "z_zero_point", 10, "z_scale"),
        (12, "s_scale", 9, "Z"),
        (13, "s_zero_point", 12, "s_scale"),
    ] {
        if node.optional(index).is_some() && node.optional(required).is_none() {
            let message = format!("input '{name}' is present without '{required_name}'");
            return Err(invalid(message));
        }
    }
    let Some(z) = node.optional(9) else {
        return Ok(());
    };
    expect_shape(z, "Z", shape)?;
    expect_finite_quotient(node, (12, "s_scale"), (7, "y_scale"))?;
    if node.optional(10).is_none() {
        return expect_dtype(z, "Z", DataType::F32);
    }
    if z.dtype() == DataType::F32 {
        return Err(invalid("input 'Z' is f32 and has a scale"));
    }
    if let Some(zero) = node.optional(11) {
        expect_dtype(zero, "z_zero_point", z.dtype())?;
    }
    expect_scales(node, 10, "z_scale", ScaleUse::Factor)?;
    expect_finite_quotient(node, (10, "z_scale"), (7, "y_scale"))
}

/// The shape of the output of a convolution with the weights input `weights`.
fn convolution_shape(node: &Inference<'_>, weights: usize, transposed: bool) -> Result<Vec<usize>> {
    choice(node, "activation", "none", ACTIVATIONS)?;
    let (x, w) = (node.input(0)?, node.input(weights)?);
    let dims = rank(x, "X", 3..=5)?;
    rank(w, "W", dims..=dims)?;
    let group = positive(node.attributes.int("group", 1)?, "attribute 'group'")?;
    let (x_shape, kernel) = (x.shape(), &w.shape()[2..]);
    let size = &x_shape[1..dims - 1];
    let all = product(w.shape()[1], group, "the number of channels")?;
    let (channels, filters, window) = if transposed {
        let window = Window::transposed(node.attributes, size, kernel)?;
        (w.shape()[0], all, window)
    } else {
        let window = Window::sliding(node.attributes, size, kernel)?;
        (all, w.shape()[0], window)
    };
    let fits = channels == x_shape[dims - 1]
        && channels.is_multiple_of(group)
        && filters.is_multiple_of(group);
    if !fits {
        return Err(invalid("input 'W' has the wrong number of channels")
            .expected(format_args!("{} in {group} groups", x_shape[dims - 1]))
            .found(w.shape()));
    }
    Ok([&x_shape[..1], &window.output, &[filters]].concat())
}

fn matmul(node: &Inference<'_>) -> Inferred {
    let dtype = dtype_beside_weights(node, &["A", "B", "bias", "Z"], 1)?;
    let shape = matmul_shape(node, 1)?;
    expect_optional_shape(node, 2, "bias", &shape[shape.len() - 1..])?;
    expect_optional_shape(node, 3, "Z", &shape)?;
    one(dtype, shape)
}

fn quantized_matmul(node: &Inference<'_>) -> Inferred {
    let shape = matmul_shape(node, 3)?;
    let names = ["a_scale", "a_zero_point", "b_scale", "b_zero_point", "bias"];
    quantized(node, shape, names)
}

fn weight_only_matmul(node: &Inference<'_>) -> Inferred {
    let dtype = node.input(0)?.dtype();
    for (index, name) in [(2, "b_scale"), (4, "bias"), (5, "Z")] {
        if let Some(ty) = node.optional(index) {
            expect_dtype(ty, name, dtype)?;
        }
    }
    let (b, scale) = (node.input(1)?, node.input(2)?);
    rank(b, "B", 2..=2)?;
    let shape = matmul_shape(node, 1)?;
    let columns = &shape[shape.len() - 1..];
    let block = extent(
        node.attributes.int("block_size", 0)?,
        "attribute 'block_size'",
    )?;
    if block == 0 {
        one_or_each(node, 2, "b_scale", columns[0])?;
    } else {
        let mut blocks = b.shape().to_vec();
        let along = usize::from(node.attributes.flag("trans_b", false)?);
        blocks[along] = blocks[along].div_ceil(block);
        expect_shape(scale, "b_scale", &blocks)?;
    }
    if let Some(zero) = node.optional(3) {
        expect_dtype(zero, "b_zero_point", b.dtype())?;
        if zero.elements() != 1 || scale.elements() != 1 {
            expect_shape(zero, "b_zero_point", scale.shape())?;
        }
    }
    let scale_use = match block {
        0 => ScaleUse::Factor,
        _ => ScaleUse::BlockFactor,
    };
    expect_scales(node, 2, "b_scale", scale_use)?;
    expect_optional_shape(node, 4, "bias", columns)?;
    expect_optional_shape(node, 5, "Z", &shape)?;
    one(dtype, shape)
}

/// The shape of the product of input 0 and input `right`.
fn matmul_shape(node: &Inference<'_>, right: usize) -> Result<Vec<usize>> {
    choice(node, "activation", "none", ACTIVATIONS)?;
    let side = |index: usize, name: &str, flag: &str| -> Result<TensorType> {
        let ty = node.input(index)?;
        let dims = rank(ty, name, 2..=usize::MAX)?;
        let mut shape = ty.shape().to_vec();
        if node.attributes.flag(flag, false)? {
            shape.swap(dims - 1, dims - 2);
        }
        TensorType::new(ty.dtype(), shape)
    };
    product_shape(
        &side(0, "A", "trans_a")?,
        &side(right, "B", "trans_b")?,
        ["A", "B"],
    )
}

fn pool(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    rank(x, "X", 4..=4)?;
    let kernel = node.attributes.ints("kernel_shape")?.unwrap_or_default();
    let kernel = kernel
        .iter()
        .map(|&value| positive(value, "attribute 'kernel_shape'"))
        .collect::<Result<Vec<_>>>()?;
    let window = planes(&kernel, node)?;
    one(
        x.dtype(),
        [
            x.shape()[0],
            window.output[0],
            window.output[1],
            x.shape()[3],
        ],
    )
}

fn attention(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["Q", "K", "V", "mask"])?;
    let (q, k, v) = (node.input(0)?, node.input(1)?, node.input(2)?);
    rank(q, "Q", 4..=4)?;
    rank(k, "K", 4..=4)?;
    rank(v, "V", 4..=4)?;
    let (batch, queries, heads) = (q.shape()[0], q.shape()[1], q.shape()[2]);
    let keys = k.shape()[1];
    expect_shape(k, "K", &[batch, keys, heads, q.shape()[3]])?;
    expect_shape(v, "V", &[batch, keys, heads, v.shape()[3]])?;
    if let Some(mask) = node.optional(3) {
        broadcasts_to(mask, "mask", &[batch, heads, queries, keys])?;
    }
    one(dtype, [batch, queries, heads, v.shape()[3]])
}

fn elementwise(node: &Inference<'_>) -> Inferred {
    let program = Program::of(node.attributes);
    let results = program.and_then(|program| program.infer(node.inputs));
    let results = results.map_err(|error| error.at(Location::field("program")))?;
    Ok(results.into_iter().next_back().into_iter().collect())
}

fn precompiled(node: &Inference<'_>) -> Inferred {
    let types = node.attributes.strings("outputs")?.unwrap_or_default();
    if types.len() != node.outputs {
        return Err(
            invalid("attribute 'outputs' does not have a type for each output")
                .expected(node.outputs)
                .found(types.len()),
        );
    }
    types.iter().map(|text| text.parse()).collect()
}
