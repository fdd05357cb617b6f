//! Models whose floating-point values are f16, between inputs and outputs of f32.
//!
//! Constants are converted, and the attributes that give a type. All other values follow by the types of the operators.
//! Operands that an operator requires in f32, and those of nodes that stay in f32, are converted around the node.

use crate::edit::int_attribute;
use crate::index::{Index, is_standard, subgraphs};
use bytes::Bytes;
use half::f16;
use std::collections::{BTreeSet, HashMap, HashSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeValue, ValueInfoProto,
    attribute_type, data_type,
};

/// The model in f16; the nodes of the main graph at positions `kept` stay in f32.
///
/// # Errors
/// Quantised models, models with functions, and operators without f16; all together.
pub(crate) fn model(model: &ModelProto, kept: &BTreeSet<usize>) -> Result<ModelProto> {
    let mut model = model.clone();
    let mut problems = Vec::new();
    if !model.functions.is_empty() {
        problems.push(unsupported("functions of the model"));
    }
    if let Some(graph) = model.graph.as_deref_mut() {
        let other = graph.input.iter().chain(&graph.output).filter(|value| {
            let ty = value.r#type.as_deref().and_then(|ty| ty.value.as_ref());
            !matches!(ty, Some(TypeValue::Tensor(_)) | None)
        });
        let place = |value: &ValueInfoProto| Location::field(format!("value '{}'", value.name));
        problems
            .extend(other.map(|value| unsupported("a value that is no tensor").at(place(value))));
        check(graph, &mut problems);
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    if let Some(graph) = model.graph.as_deref_mut() {
        let names = Names::new(graph);
        main_graph(graph, kept, &names)?;
    }
    Ok(model)
}

fn unsupported(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a model cannot be converted to f16 with {what}"),
    )
}

/// Collects the nodes that cannot be converted.
fn check(graph: &GraphProto, problems: &mut Vec<Error>) {
    let index = Index::new(graph);
    for node in &graph.node {
        let is_quantised = ["Quantize", "Dequantize", "QLinear", "Integer"]
            .iter()
            .any(|part| node.op_type.contains(part));
        let of_floats = |name: &String| {
            index
                .constant(name)
                .is_some_and(|it| it.data_type == data_type::FLOAT)
        };
        let what = if is_quantised {
            "quantised operators"
        } else if node.domain == "ai.onnx.ml" {
            "operators of ai.onnx.ml"
        } else if node.op_type == "Range" && node.input.iter().any(of_floats) {
            "a Range of f32"
        } else {
            subgraphs(node).for_each(|subgraph| check(subgraph, problems));
            continue;
        };
        problems.push(unsupported(what).at(Location::node(&node.name)));
    }
}

/// New names of the inputs and outputs of the main graph, whose own names are those of f32, and all names.
struct Names {
    new: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Names {
    fn new(graph: &GraphProto) -> Self {
        let index = Index::new(graph);
        let mut names = Self {
            new: HashMap::new(),
            taken: index.names().map(str::to_owned).collect(),
        };
        let is_constant = |name: &str| graph.initializer.iter().any(|it| it.name == name);
        let inputs = graph.input.iter().filter(|value| !is_constant(&value.name));
        let values = inputs.chain(&graph.output).filter(|value| is_float(value));
        for value in values {
            let name = names.free(format!("{}_f16", value.name));
            names.new.insert(value.name.clone(), name);
        }
        names
    }

    /// The name, or a longer one that no value of the model has.
    fn free(&self, mut name: String) -> String {
        while self.taken.contains(&name) {
            name.push('_');
        }
        name
    }

    fn rename(&self, name: &mut String) {
        if let Some(new) = self.new.get(name) {
            name.clone_from(new);
        }
    }
}

/// Whether a value is declared as a tensor of f32.
fn is_float(value: &ValueInfoProto) -> bool {
    let ty = value.r#type.as_deref().and_then(|ty| ty.value.as_ref());
    matches!(ty, Some(TypeValue::Tensor(tensor)) if tensor.elem_type == data_type::FLOAT)
}

fn main_graph(graph: &mut GraphProto, kept: &BTreeSet<usize>, names: &Names) -> Result<()> {
    let is_constant = |name: &str| graph.initializer.iter().any(|it| it.name == name);
    let inputs = graph
        .input
        .iter()
        .filter(|value| is_float(value) && !is_constant(&value.name));
    let inputs: Vec<String> = inputs.map(|value| value.name.clone()).collect();
    let outputs = graph
        .output
        .iter()
        .filter(|value| is_float(value) && !inputs.contains(&value.name));
    let outputs: Vec<String> = outputs.map(|value| value.name.clone()).collect();
    convert(graph, kept, names)?;
    let half = |name: &String| names.new.get(name).cloned().unwrap_or_default();
    let enter = inputs
        .iter()
        .map(|name| cast(name, &half(name), data_type::FLOAT16));
    let nodes: Vec<NodeProto> = enter.collect();
    graph.node.splice(..0, nodes);
    let leave = outputs
        .iter()
        .map(|name| cast(&half(name), name, data_type::FLOAT));
    graph.node.extend(leave);
    Ok(())
}

/// Converts the constants and nodes of a graph and of its subgraphs.
fn convert(graph: &mut GraphProto, kept: &BTreeSet<usize>, names: &Names) -> Result<()> {
    // Types of values follow from those of constants.
    graph.value_info.clear();
    let floats = graph
        .initializer
        .iter()
        .filter(|it| it.data_type == data_type::FLOAT);
    let mut floats: HashMap<String, TensorProto> = floats
        .map(|constant| (constant.name.clone(), constant.clone()))
        .collect();
    for constant in &mut graph.initializer {
        to_half(constant)?;
        names.rename(&mut constant.name);
    }
    let constants = graph
        .input
        .iter_mut()
        .filter(|it| floats.contains_key(&it.name));
    constants.for_each(set_half);
    let mut nodes = Vec::with_capacity(graph.node.len());
    for (position, mut node) in std::mem::take(&mut graph.node).into_iter().enumerate() {
        let is_kept = kept.contains(&position);
        if let ("Constant", Some(output)) = (node.op_type.as_str(), node.output.first()) {
            let values = node
                .attribute
                .iter()
                .filter_map(|attribute| attribute.t.as_deref());
            let values = values.filter(|value| value.data_type == data_type::FLOAT);
            floats.extend(values.map(|value| (output.clone(), value.clone())));
        }
        let operands = float_operands(&node, is_kept);
        convert_attributes(&mut node, names)?;
        let label = node.output.first().cloned().unwrap_or_default();
        for (at, input) in node.input.iter_mut().enumerate() {
            let original = input.clone();
            names.rename(input);
            if input.is_empty() || !operands.contains(&at) {
                continue;
            }
            let float = names.free(format!("{label}_operand_{at}_f32"));
            match floats.get(&original) {
                Some(constant) => graph.initializer.push(TensorProto {
                    name: float.clone(),
                    ..constant.clone()
                }),
                None => nodes.push(cast(input, &float, data_type::FLOAT)),
            }
            *input = float;
        }
        let mut after = Vec::new();
        for output in node.output.iter_mut().filter(|output| !output.is_empty()) {
            names.rename(output);
            if is_kept {
                let float = names.free(format!("{output}_result_f32"));
                after.push(cast(&float, output, data_type::FLOAT16));
                *output = float;
            }
        }
        nodes.push(node);
        nodes.extend(after);
    }
    graph.node = nodes;
    Ok(())
}

/// Positions of the operands that are f32.
fn float_operands(node: &NodeProto, is_kept: bool) -> Vec<usize> {
    match node.op_type.as_str() {
        _ if is_kept => (0..node.input.len()).collect(),
        _ if !is_standard(node) => Vec::new(),
        "Resize" => vec![1, 2],
        "Upsample" => vec![1],
        "NonMaxSuppression" => vec![0, 1, 3, 4],
        _ => Vec::new(),
    }
}

/// Converts the attributes of a node that have tensors, types or subgraphs, and adds a type that would be f32.
fn convert_attributes(node: &mut NodeProto, names: &Names) -> Result<()> {
    let ty = match node.op_type.as_str() {
        "Cast" => "to",
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => "output_datatype",
        _ => "dtype",
    };
    let is_random = matches!(node.op_type.as_str(), "RandomNormal" | "RandomUniform");
    let has_default = is_random || ty == "output_datatype";
    if has_default && node.attribute.iter().all(|attribute| attribute.name != ty) {
        node.attribute
            .push(int_attribute(ty, data_type::FLOAT.into()));
    }
    if node.op_type == "ConstantOfShape" && node.attribute.is_empty() {
        node.attribute.push(tensor_attribute(&[1], vec![0.0]));
    }
    for attribute in &mut node.attribute {
        if attribute.name == ty && attribute.i == Some(data_type::FLOAT.into()) {
            attribute.i = Some(data_type::FLOAT16.into());
        }
        match (node.op_type.as_str(), attribute.name.as_str(), attribute.f) {
            ("Constant", "value_float", Some(value)) => {
                *attribute = tensor_attribute(&[], vec![value])
            }
            ("Constant", "value_floats", _) => {
                let count = attribute.floats.len() as i64;
                *attribute = tensor_attribute(&[count], std::mem::take(&mut attribute.floats));
            }
            _ => {}
        }
        if let Some(tensor) = attribute.t.as_deref_mut() {
            to_half(tensor)?;
        }
        if let Some(graph) = attribute.g.as_deref_mut() {
            graph
                .input
                .iter_mut()
                .chain(&mut graph.output)
                .for_each(|value| {
                    set_half(value);
                    names.rename(&mut value.name);
                });
            convert(graph, &BTreeSet::new(), names)?;
        }
    }
    Ok(())
}

/// The attribute `value` with a tensor of f32.
fn tensor_attribute(dims: &[i64], elements: Vec<f32>) -> AttributeProto {
    AttributeProto {
        name: "value".into(),
        r#type: attribute_type::TENSOR,
        t: Some(Box::new(TensorProto {
            dims: dims.to_vec(),
            data_type: data_type::FLOAT,
            float_data: elements,
            ..TensorProto::default()
        })),
        ..AttributeProto::default()
    }
}

/// Converts the elements of a tensor of f32; those beyond the range of f16 become its greatest values, among them
/// infinities and the masks of attention.
fn to_half(tensor: &mut TensorProto) -> Result<()> {
    if tensor.data_type != data_type::FLOAT {
        return Ok(());
    }
    let name = tensor.name.clone();
    let here = |error: Error| error.at(Location::field(format!("constant '{name}'")));
    let read = tenon_onnx::tensor(tensor).map_err(here)?;
    let elements = read.as_slice::<f32>().unwrap_or_default().iter();
    let bytes = elements.flat_map(|element| {
        let limit = f16::MAX.to_f32();
        f16::from_f32(element.clamp(-limit, limit)).to_le_bytes()
    });
    *tensor = TensorProto {
        name: tensor.name.clone(),
        dims: tensor.dims.clone(),
        data_type: data_type::FLOAT16,
        raw_data: Some(Bytes::from_iter(bytes)),
        ..TensorProto::default()
    };
    Ok(())
}

/// Declares a value of f32 as f16.
fn set_half(value: &mut ValueInfoProto) {
    let ty = value.r#type.as_deref_mut().and_then(|ty| ty.value.as_mut());
    if let Some(TypeValue::Tensor(tensor)) = ty
        && tensor.elem_type == data_type::FLOAT
    {
        tensor.elem_type = data_type::FLOAT16;
    }
}

fn cast(input: &str, output: &str, to: i32) -> NodeProto {
    NodeProto {
        name: format!("{output}_cast"),
        op_type: "Cast".into(),
        input: vec![input.into()],
        output: vec![output.into()],
        attribute: vec![int_attribute("to", to.into())],
        ..NodeProto::default()
    }
}
