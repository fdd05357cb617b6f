//! Messages of ONNX: attributes, constants and types.

use bytes::Bytes;
use tenon_onnx::proto::*;

/// The versions of ONNX's operator set and of its files that have an operator: other tools that read quantised models support
/// old ones longer.
pub(crate) fn versions(operator: &str) -> (i64, i64) {
    match operator {
        "BitCast" => (26, 13),
        "TensorScatter" => (24, 12),
        _ => (23, 11),
    }
}

pub(crate) type Attributes = Vec<AttributeProto>;

fn attribute(name: &str, r#type: i32) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type,
        ..Default::default()
    }
}

pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: Some(value),
        ..attribute(name, attribute_type::INT)
    }
}

pub(crate) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        ..attribute(name, attribute_type::FLOAT)
    }
}

pub(crate) fn text(name: &str, value: &'static str) -> AttributeProto {
    AttributeProto {
        s: Some(Bytes::from_static(value.as_bytes())),
        ..attribute(name, attribute_type::STRING)
    }
}

pub(crate) fn ints(name: &str, values: impl Into<Vec<i64>>) -> AttributeProto {
    AttributeProto {
        ints: values.into(),
        ..attribute(name, attribute_type::INTS)
    }
}

pub(crate) fn texts(name: &str, values: &[&'static str]) -> AttributeProto {
    let values = values.iter().map(|value| value.as_bytes());
    AttributeProto {
        strings: values.map(Bytes::from_static).collect(),
        ..attribute(name, attribute_type::STRINGS)
    }
}

pub(crate) fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        floats: values.to_vec(),
        ..attribute(name, attribute_type::FLOATS)
    }
}

pub(crate) fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto {
        g: Some(Box::new(value)),
        ..attribute(name, attribute_type::GRAPH)
    }
}

/// A constant with its elements as little-endian bytes.
pub(crate) fn constant(data_type: i32, dims: &[i64], data: Bytes) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type,
        raw_data: Some(data),
        ..Default::default()
    }
}

pub(crate) fn i64s(dims: &[i64], values: &[i64]) -> TensorProto {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    constant(data_type::INT64, dims, bytes.into())
}

pub(crate) fn f32s(dims: &[i64], values: &[f32]) -> TensorProto {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    constant(data_type::FLOAT, dims, bytes.into())
}

/// A declared tensor; an extent below 0 is symbolic.
pub(crate) fn value(name: &str, data_type: i32, shape: Option<&[i64]>) -> ValueInfoProto {
    let dimension = |&extent: &i64| DimensionProto {
        value: (extent >= 0).then_some(DimensionValue::Value(extent)),
    };
    let shape = shape.map(|shape| TensorShapeProto {
        dim: shape.iter().map(dimension).collect(),
    });
    let tensor = TensorTypeProto {
        elem_type: data_type,
        shape,
    };
    let value = Some(TypeValue::Tensor(tensor));
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(TypeProto { value })),
    }
}
