//! Weights and biases in 8 and 32 bits, and activations in 8.

use crate::edit::{Edit, QuantizedWeights, f32_bytes};
use crate::parameters::{Parameters, symmetric, symmetric_scale};
use crate::products::Product;
use crate::weights::{Weights, elements};
use std::collections::HashMap;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The greatest absolute element of a bias in i32: its sum with products stays in range.
const GREATEST_BIAS: f64 = (1 << 30) as f64;

/// Quantised weights that several nodes may share: by name, axis and bits of the scales.
#[derive(Default)]
pub(crate) struct SharedWeights(HashMap<(String, usize, Vec<u32>), String>);

/// Adds DequantizeLinear of the weights and the bias of a product whose input has `input`; returns the names of both
/// results.
pub(crate) fn dequantized_weights(
    edit: &mut Edit<'_>,
    product: &Product<'_>,
    input: Parameters,
    shared: &mut SharedWeights,
) -> Result<(String, Option<String>)> {
    let weights = Weights::read(edit.index, product)?;
    let bias = match product.bias {
        Some(bias) => Some(elements(edit.index, bias)?),
        None => None,
    };
    let mut scales: Vec<f32> = weights.greatest().map(symmetric_scale).collect();
    for (scale, &bias) in scales.iter_mut().zip(bias.iter().flatten()) {
        // A large bias of small weights: coarser weights change the sum less than a clipped bias.
        let least = f64::from(bias).abs() / f64::from(input.scale) / GREATEST_BIAS;
        *scale = scale.max(least as f32);
    }
    let bits: Vec<u32> = scales.iter().map(|scale| scale.to_bits()).collect();
    let key = (product.weights.to_owned(), product.channel_axis, bits);
    let dequantized = match shared.0.get(&key) {
        Some(name) => name.clone(),
        None => {
            let name = quantize_weights(edit, product, &weights, &scales);
            shared.0.insert(key, name.clone());
            name
        }
    };
    let (Some(name), Some(bias)) = (product.bias, bias) else {
        return Ok((dequantized, None));
    };
    let steps: Vec<f32> = scales.iter().map(|scale| scale * input.scale).collect();
    let codes = bias.iter().zip(&steps).flat_map(|(&bias, &step)| {
        let code = (f64::from(bias) / f64::from(step)).round_ties_even();
        // The conversion saturates.
        (code as i32).to_le_bytes()
    });
    let channels = vec![steps.len() as i64];
    let (quantized, scale) = (edit.name(name, "quantized"), edit.name(name, "scale"));
    let quantized = edit.constant(
        quantized,
        data_type::INT32,
        channels.clone(),
        codes.collect(),
    );
    let scale = edit.constant(scale, data_type::FLOAT, channels, f32_bytes(steps));
    let output = edit.name(name, "dequantized");
    edit.node(
        "DequantizeLinear",
        &[&quantized, &scale],
        &output,
        &[("axis", 0)],
    );
    Ok((dequantized, Some(output)))
}

fn quantize_weights(
    edit: &mut Edit<'_>,
    product: &Product<'_>,
    weights: &Weights,
    scales: &[f32],
) -> String {
    let codes = weights.elements.iter().enumerate().map(|(at, &element)| {
        let scale = scales[weights.channel(at)];
        symmetric(element, scale).cast_unsigned()
    });
    let weights = QuantizedWeights {
        data_type: data_type::INT8,
        codes: codes.collect(),
        dims: weights.dims.clone(),
        parameter_dims: vec![scales.len() as i64],
        scales: scales.to_vec(),
        zero_points: vec![0; scales.len()],
    };
    let axis = [("axis", product.channel_axis as i64)];
    edit.dequantized(product.weights, weights, &axis)
}

/// Adds QuantizeLinear and DequantizeLinear of an activation, whose constants have the name of its group; returns the
/// name of the result.
pub(crate) fn quantize_activation(
    edit: &mut Edit<'_>,
    activation: &str,
    constants: &(String, String),
) -> String {
    let (scale, zero) = constants;
    let (quantized, output) = (
        edit.name(activation, "quantized"),
        edit.name(activation, "dequantized"),
    );
    edit.node(
        "QuantizeLinear",
        &[activation, scale, zero],
        &quantized,
        &[],
    );
    edit.node("DequantizeLinear", &[&quantized, scale, zero], &output, &[]);
    output
}

/// Adds the scale and the zero point of a group of activations; returns their names.
pub(crate) fn parameter_constants(
    edit: &mut Edit<'_>,
    group: &str,
    parameters: Parameters,
) -> (String, String) {
    let Parameters { scale, zero_point } = parameters;
    let (scale_name, zero_name) = (edit.name(group, "scale"), edit.name(group, "zero_point"));
    let scale = f32_bytes([scale]);
    (
        edit.constant(scale_name, data_type::FLOAT, Vec::new(), scale),
        edit.constant(zero_name, data_type::UINT8, Vec::new(), vec![zero_point]),
    )
}
