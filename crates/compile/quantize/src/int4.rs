//! Weights of matrix products in blocks of 4 bits along the axis that is summed over.

use crate::edit::{Edit, QuantizedWeights};
use crate::products::Product;
use crate::weights::Weights;
use std::collections::HashMap;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The greatest code of 4 bits.
const GREATEST: f32 = 15.0;

/// Adds DequantizeLinear of the weights of a product, in blocks of `block` elements along `axis`, the one that is summed
/// over; returns the name of the result.
pub(crate) fn dequantized_weights(
    edit: &mut Edit<'_>,
    product: &Product<'_>,
    (axis, block): (usize, usize),
    shared: &mut HashMap<(String, usize), String>,
) -> Result<String> {
    let key = (product.weights.to_owned(), axis);
    if let Some(name) = shared.get(&key) {
        return Ok(name.clone());
    }
    let weights = Weights::read(edit.index, product)?;
    let mut dims = weights.dims.clone();
    let [rows, columns] = [dims[0] as usize, dims[1] as usize];
    dims[axis] = (dims[axis] as usize).div_ceil(block) as i64;
    let block_columns = dims[1] as usize;
    let block_of = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        match axis {
            0 => row / block * block_columns + column,
            _ => row * block_columns + column / block,
        }
    };
    let mut ranges = vec![[0.0f32; 2]; (dims[0] * dims[1]) as usize];
    for (at, &element) in weights.elements.iter().enumerate() {
        let [min, max] = &mut ranges[block_of(at)];
        (*min, *max) = (min.min(element), max.max(element));
    }
    let parameters: Vec<(f32, f32)> = ranges.into_iter().map(block_parameters).collect();
    let codes = (0..rows * columns).map(|at| {
        let (scale, zero) = parameters[block_of(at)];
        code(weights.elements[at] / scale + zero)
    });
    let weights = QuantizedWeights {
        data_type: data_type::UINT4,
        codes: packed(codes),
        dims: weights.dims,
        parameter_dims: dims,
        scales: parameters.iter().map(|&(scale, _)| scale).collect(),
        zero_points: packed(parameters.iter().map(|&(_, zero)| code(zero))),
    };
    let attributes = [("axis", axis as i64), ("block_size", block as i64)];
    let output = edit.dequantized(product.weights, weights, &attributes);
    shared.insert(key, output.clone());
    Ok(output)
}

/// Scale and zero point of a block whose range contains zero.
fn block_parameters([min, max]: [f32; 2]) -> (f32, f32) {
    let scale = ((f64::from(max) - f64::from(min)) / f64::from(GREATEST)) as f32;
    if scale > 0.0 && scale.is_finite() && scale.recip().is_finite() {
        (scale, (-min / scale).round_ties_even().clamp(0.0, GREATEST))
    } else {
        (1.0, 0.0)
    }
}

fn code(value: f32) -> u8 {
    value.round_ties_even().clamp(0.0, GREATEST) as u8
}

/// Two codes in a byte, the first one in the low half.
fn packed(codes: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, code) in codes.enumerate() {
        match bytes.last_mut() {
            Some(last) if at % 2 == 1 => *last |= code << 4,
            _ => bytes.push(code),
        }
    }
    bytes
}
