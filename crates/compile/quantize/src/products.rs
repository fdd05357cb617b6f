//! The nodes that can be quantised: convolutions and matrix products with constant weights.

use crate::index::{Index, float, integer, is_standard};
use tenon_onnx::proto::{NodeProto, TensorProto, data_type};

/// A convolution or matrix product with constant weights.
pub(crate) struct Product<'a> {
    pub(crate) node: &'a NodeProto,
    pub(crate) input: &'a str,
    pub(crate) weights: &'a str,
    pub(crate) bias: Option<&'a str>,
    /// The axis of the weights with the output channels.
    pub(crate) channel_axis: usize,
    /// The axis of the weights that is summed over; `None` where there are several.
    pub(crate) inner_axis: Option<usize>,
}

/// The product that a node computes, or why it cannot be quantised; `None` for other operators and products of two
/// activations.
pub(crate) fn product<'a>(
    index: &Index<'a>,
    node: &'a NodeProto,
) -> Option<Result<Product<'a>, String>> {
    let operator = node.op_type.as_str();
    let is_product = is_standard(node) && matches!(operator, "Conv" | "MatMul" | "Gemm");
    let weights = index.constant(node.input.get(1).filter(|_| is_product)?)?;
    Some(quantizable(index, node, weights))
}

fn quantizable<'a>(
    index: &Index<'a>,
    node: &'a NodeProto,
    constant: &TensorProto,
) -> Result<Product<'a>, String> {
    let operand = |at: usize| {
        let name = node.input.get(at).map_or("", String::as_str);
        Some(name).filter(|name| !name.is_empty())
    };
    let (Some(input), Some(weights)) = (operand(0), operand(1)) else {
        return Err("an operand is missing".into());
    };
    if index.constant(input).is_some() {
        return Err("its input is constant".into());
    }
    if constant.data_type != data_type::FLOAT {
        return Err("its weights are not f32".into());
    }
    if constant.dims.iter().any(|&dim| dim < 1) {
        return Err("its weights are empty".into());
    }
    let rank = constant.dims.len();
    let (channel_axis, inner_axis) = match node.op_type.as_str() {
        "Conv" if rank >= 3 => (0, None),
        "MatMul" if rank == 2 => (1, Some(0)),
        "Gemm" if rank == 2 => {
            let plain = float(node, "alpha", 1.0) == 1.0
                && float(node, "beta", 1.0) == 1.0
                && integer(node, "transA", 0) == 0;
            if !plain {
                return Err("alpha, beta or transA of Gemm is not the default".into());
            }
            match integer(node, "transB", 0) {
                0 => (1, Some(0)),
                _ => (0, Some(1)),
            }
        }
        _ => return Err(format!("its weights are of rank {rank}")),
    };
    let bias = operand(2);
    if let Some(bias) = bias {
        let bias_constant = index.constant(bias);
        let bias_constant = bias_constant.ok_or("its bias is not constant")?;
        let bias_dims = bias_constant.dims.iter();
        let elements = bias_dims.fold(1i64, |all, &dim| all.saturating_mul(dim));
        if bias_constant.data_type != data_type::FLOAT || elements != constant.dims[channel_axis] {
            return Err("its bias is not one f32 for each output channel".into());
        }
    }
    Ok(Product {
        node,
        input,
        weights,
        bias,
        channel_axis,
        inner_axis,
    })
}

/// The name of a node; of one without a name that of its first output.
pub(crate) fn node_name(node: &NodeProto) -> &str {
    match node.name.as_str() {
        "" => node.output.first().map_or("", String::as_str),
        name => name,
    }
}
