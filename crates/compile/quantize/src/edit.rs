//! New nodes and constants of a graph, with names that are free.

use crate::index::Index;
use bytes::Bytes;
use std::collections::HashSet;
use tenon_onnx::proto::{AttributeProto, NodeProto, TensorProto, attribute_type, data_type};

/// The nodes of a graph under construction, and its new constants.
pub(crate) struct Edit<'a> {
    pub(crate) index: &'a Index<'a>,
    taken: HashSet<String>,
    pub(crate) nodes: Vec<NodeProto>,
    pub(crate) constants: Vec<TensorProto>,
}

/// Quantised weights.
pub(crate) struct QuantizedWeights {
    /// Of the codes and the zero points.
    pub(crate) data_type: i32,
    pub(crate) dims: Vec<i64>,
    pub(crate) codes: Vec<u8>,
    /// Of the scales and the zero points.
    pub(crate) parameter_dims: Vec<i64>,
    pub(crate) scales: Vec<f32>,
    pub(crate) zero_points: Vec<u8>,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(index: &'a Index<'a>) -> Self {
        Self {
            index,
            taken: HashSet::new(),
            nodes: Vec::new(),
            constants: Vec::new(),
        }
    }

    /// A name that no other value has.
    pub(crate) fn name(&mut self, of: &str, suffix: &str) -> String {
        let mut name = format!("{of}_{suffix}");
        let mut count = 1;
        while self.index.contains(&name) || self.taken.contains(&name) {
            count += 1;
            name = format!("{of}_{suffix}_{count}");
        }
        self.taken.insert(name.clone());
        name
    }

    /// Adds a constant and returns its name.
    pub(crate) fn constant(
        &mut self,
        name: String,
        data_type: i32,
        dims: Vec<i64>,
        data: Vec<u8>,
    ) -> String {
        self.constants.push(TensorProto {
            name: name.clone(),
            data_type,
            dims,
            raw_data: Some(Bytes::from(data)),
            ..TensorProto::default()
        });
        name
    }

    /// Adds quantised weights, their scales and zero points as constants, and their DequantizeLinear; returns the name of
    /// its output.
    pub(crate) fn dequantized(
        &mut self,
        name: &str,
        weights: QuantizedWeights,
        attributes: &[(&str, i64)],
    ) -> String {
        let QuantizedWeights {
            data_type,
            dims,
            codes,
            parameter_dims,
            scales,
            zero_points,
        } = weights;
        let (quantized, scale, zero) = (
            self.name(name, "quantized"),
            self.name(name, "scale"),
            self.name(name, "zero_point"),
        );
        let quantized = self.constant(quantized, data_type, dims, codes);
        let scales = f32_bytes(scales);
        let scale = self.constant(scale, data_type::FLOAT, parameter_dims.clone(), scales);
        let zero = self.constant(zero, data_type, parameter_dims, zero_points);
        let output = self.name(name, "dequantized");
        let inputs = [quantized.as_str(), &scale, &zero];
        self.node("DequantizeLinear", &inputs, &output, attributes);
        output
    }

    /// Adds a node of one output, which gives it its name.
    pub(crate) fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, i64)],
    ) {
        let attributes = attributes.iter();
        self.nodes.push(NodeProto {
            name: output.into(),
            op_type: operator.into(),
            input: inputs.iter().map(|&input| input.into()).collect(),
            output: vec![output.into()],
            attribute: attributes
                .map(|&(name, value)| int_attribute(name, value))
                .collect(),
            ..NodeProto::default()
        });
    }
}

/// An attribute of an integer.
pub(crate) fn int_attribute(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::INT,
        i: Some(value),
        ..AttributeProto::default()
    }
}

/// The little-endian bytes of f32 elements.
pub(crate) fn f32_bytes(elements: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let bytes = elements.into_iter().map(f32::to_le_bytes);
    bytes.flatten().collect()
}
