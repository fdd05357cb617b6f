//! A small builder of models.

use prost::Message;
use tenon_base::Control;
use tenon_graph::Graph;
use tenon_onnx::proto::*;
use tenon_onnx::{ImportOptions, Model};

/// A model under construction.
#[derive(Clone)]
pub struct Build(pub ModelProto);

/// A model of one opset without nodes.
pub fn model(opset: i64) -> Build {
    let graph = GraphProto {
        name: "test".into(),
        ..Default::default()
    };
    Build(ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: opset,
        }],
        graph: Some(Box::new(graph)),
        ..Default::default()
    })
}

impl Build {
    pub fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().unwrap()
    }

    /// An input of f32; dimensions are extents or names.
    pub fn input(self, name: &str, dims: &[&str]) -> Self {
        self.typed_input(name, data_type::FLOAT, dims)
    }

    pub fn typed_input(mut self, name: &str, dtype: i32, dims: &[&str]) -> Self {
        self.graph().input.push(info(name, dtype, dims));
        self
    }

    pub fn output(mut self, name: &str) -> Self {
        let info = ValueInfoProto {
            name: name.into(),
            r#type: None,
        };
        self.graph().output.push(info);
        self
    }

    pub fn node(mut self, node: NodeProto) -> Self {
        self.graph().node.push(node);
        self
    }

    pub fn floats(mut self, name: &str, dims: &[i64], data: &[f32]) -> Self {
        self.graph().initializer.push(floats(name, dims, data));
        self
    }

    pub fn opset(mut self, domain: &str, version: i64) -> Self {
        self.0.opset_import.push(OperatorSetIdProto {
            domain: domain.into(),
            version,
        });
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    /// The graph, without options.
    pub fn import(&self) -> Result<Graph, String> {
        self.import_with(&ImportOptions::default())
    }

    pub fn import_with(&self, options: &ImportOptions) -> Result<Graph, String> {
        let control = Control::new();
        Model::from_bytes(self.bytes(), &control)
            .and_then(|model| model.graph(options, &control))
            .map_err(|error| error.to_string())
    }

    /// The graph's text form, without its first and last line and the types.
    pub fn text(&self) -> String {
        body(&self.import().unwrap())
    }

    /// The errors of the import.
    pub fn error(&self) -> String {
        self.import().unwrap_err()
    }
}

/// The statements of a graph's text form, each without leading spaces.
pub fn body(graph: &Graph) -> String {
    let text = graph.to_string();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines[1..lines.len() - 1].join("\n")
}

pub fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[AttributeProto],
) -> NodeProto {
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    NodeProto {
        op_type: op.into(),
        input: texts(inputs),
        output: texts(outputs),
        attribute: attributes.to_vec(),
        ..Default::default()
    }
}

pub fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto {
        name: name.into(),
        ..node
    }
}

pub fn within(domain: &str, node: NodeProto) -> NodeProto {
    NodeProto {
        domain: domain.into(),
        ..node
    }
}

fn attribute(name: &str, r#type: i32) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type,
        ..Default::default()
    }
}

pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: Some(value),
        ..attribute(name, attribute_type::INT)
    }
}

pub fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        ..attribute(name, attribute_type::FLOAT)
    }
}

pub fn string(name: &str, value: &str) -> AttributeProto {
    let s = Some(value.as_bytes().to_vec().into());
    AttributeProto {
        s,
        ..attribute(name, attribute_type::STRING)
    }
}

pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: values.to_vec(),
        ..attribute(name, attribute_type::INTS)
    }
}

pub fn float_list(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        floats: values.to_vec(),
        ..attribute(name, attribute_type::FLOATS)
    }
}

pub fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto {
        t: Some(Box::new(value)),
        ..attribute(name, attribute_type::TENSOR)
    }
}

pub fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto {
        g: Some(Box::new(value)),
        ..attribute(name, attribute_type::GRAPH)
    }
}

/// An attribute that takes its value from the function's attribute `from`.
pub fn reference(name: &str, kind: i32, from: &str) -> AttributeProto {
    AttributeProto {
        ref_attr_name: from.into(),
        ..attribute(name, kind)
    }
}

pub fn floats(name: &str, dims: &[i64], data: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        float_data: data.to_vec(),
        ..Default::default()
    }
}

pub fn bools(name: &str, dims: &[i64], data: &[i32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::BOOL,
        int32_data: data.to_vec(),
        ..Default::default()
    }
}

pub fn info(name: &str, dtype: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = |text: &&str| DimensionProto {
        value: match text.parse() {
            Ok(extent) => Some(DimensionValue::Value(extent)),
            Err(_) if text.is_empty() => None,
            Err(_) => Some(DimensionValue::Parameter((*text).into())),
        },
    };
    let shape = TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
    };
    let tensor = TensorTypeProto {
        elem_type: dtype,
        shape: Some(shape),
    };
    let value = Some(TypeValue::Tensor(tensor));
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(TypeProto { value })),
    }
}
