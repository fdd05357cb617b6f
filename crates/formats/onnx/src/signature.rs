//! What a model says of itself: inputs, outputs, operator sets, counts.

use crate::dtype::data_type;
use crate::proto::{
    DimensionValue, GraphProto, ModelProto, NodeProto, TensorTypeProto, TypeValue, ValueInfoProto,
};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{DataType, TensorType};

/// What a model says of itself, read without looking at its nodes' operators.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// Name of the graph.
    pub name: String,
    /// Version of the file format.
    pub ir_version: i64,
    /// The program that wrote the file, with its version.
    pub producer: String,
    /// The model's own domain (a reversed internet name, as a rule).
    pub domain: String,
    /// The model's own version.
    pub model_version: i64,
    /// Operator sets: domain (ONNX's own is `ai.onnx`) and version.
    pub opsets: BTreeMap<String, i64>,
    /// What the caller gives: inputs without an initialiser.
    pub inputs: Vec<ValueSignature>,
    /// What the caller gets.
    pub outputs: Vec<ValueSignature>,
    /// Constant tensors by name, in the file's order.
    pub initialisers: Vec<(String, TensorType)>,
    /// Number of nodes, those of subgraphs and functions not counted.
    pub nodes: usize,
    /// Nodes by operator, with the domain where it is not ONNX's own.
    pub operators: BTreeMap<String, usize>,
    /// Names of the model's own functions, with their domain.
    pub functions: Vec<String>,
    /// Free text that travels with the model.
    pub metadata: BTreeMap<String, String>,
}

/// An input or output as the model declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSignature {
    /// Its name.
    pub name: String,
    /// The type of its elements; `None` when it is not a tensor or the model does not say.
    pub dtype: Option<DataType>,
    /// Its dimensions; `None` when the model does not say how many.
    pub shape: Option<Vec<Dimension>>,
    /// What it is when it is no tensor of a known type ("a sequence").
    pub other: Option<String>,
}

/// An extent that a model declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// Given by the model.
    Fixed(usize),
    /// Given by the caller under this name; equal names are equal extents.
    Named(String),
    /// Given by the caller; the model has no name for it.
    Unnamed,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dimension::Fixed(extent) => write!(f, "{extent}"),
            Dimension::Named(name) => f.write_str(name),
            Dimension::Unnamed => f.write_str("?"),
        }
    }
}

impl fmt::Display for ValueSignature {
    /// `f32[batch, 3, 224, 224]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(other) = &self.other {
            return f.write_str(other);
        }
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("?")?,
        }
        let Some(shape) = &self.shape else {
            return f.write_str("[...]");
        };
        f.write_str("[")?;
        for (axis, dimension) in shape.iter().enumerate() {
            let comma = if axis == 0 { "" } else { ", " };
            write!(f, "{comma}{dimension}")?;
        }
        f.write_str("]")
    }
}

impl Signature {
    /// The signature of `model`, whose graph is `graph`; an error names every constant tensor
    /// whose type cannot be.
    pub(crate) fn new(model: &ModelProto, graph: &GraphProto) -> Result<Self> {
        let mut errors = Vec::new();
        let mut initialisers = Vec::new();
        for tensor in &graph.initializer {
            match crate::tensor::tensor_type(tensor) {
                Ok(ty) => initialisers.push((tensor.name.clone(), ty)),
                // What only Tenon lacks is reported when the graph is asked for.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => errors.push(error.at(Location::field(initialiser(&tensor.name)))),
            }
        }
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        let given: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        let inputs = graph
            .input
            .iter()
            .filter(|input| !given.contains(input.name.as_str()));
        Ok(Self {
            name: graph.name.clone(),
            ir_version: model.ir_version,
            producer: format!("{} {}", model.producer_name, model.producer_version)
                .trim()
                .into(),
            domain: model.domain.clone(),
            model_version: model.model_version,
            opsets: opsets(model),
            inputs: inputs.map(ValueSignature::new).collect(),
            outputs: graph.output.iter().map(ValueSignature::new).collect(),
            initialisers,
            nodes: graph.node.len(),
            operators: operators(&graph.node),
            functions: model
                .functions
                .iter()
                .map(|f| qualified(&f.domain, &f.name))
                .collect(),
            metadata: metadata(model),
        })
    }

    /// Bytes of all constant tensors.
    pub fn initialiser_bytes(&self) -> u64 {
        self.initialisers
            .iter()
            .map(|(_, ty)| ty.bytes() as u64)
            .sum()
    }
}

impl ValueSignature {
    pub(crate) fn new(info: &ValueInfoProto) -> Self {
        let mut signature = Self {
            name: info.name.clone(),
            dtype: None,
            shape: None,
            other: None,
        };
        let other = |signature: Self, what: &str| Self {
            other: Some(what.into()),
            ..signature
        };
        match info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
            None => signature,
            Some(TypeValue::Tensor(ty)) => {
                match data_type(ty.elem_type.into()) {
                    Ok(dtype) => signature.dtype = Some(dtype),
                    Err(error) if ty.elem_type != 0 => {
                        return other(signature, &format!("a tensor whose {}", error.message()));
                    }
                    Err(_) => {}
                }
                signature.shape = dimensions(ty);
                signature
            }
            Some(TypeValue::Sequence(_)) => other(signature, "a sequence"),
            Some(TypeValue::Map(_)) => other(signature, "a map"),
            Some(TypeValue::Opaque(_)) => other(signature, "an opaque value"),
            Some(TypeValue::SparseTensor(_)) => other(signature, "a sparse tensor"),
            Some(TypeValue::Optional(_)) => other(signature, "an optional value"),
        }
    }
}

fn dimensions(ty: &TensorTypeProto) -> Option<Vec<Dimension>> {
    let shape = ty.shape.as_ref()?;
    let dimension = |value: &Option<DimensionValue>| match value {
        // Some writers say -1 for what they do not know.
        Some(DimensionValue::Value(extent)) => {
            usize::try_from(*extent).map_or(Dimension::Unnamed, Dimension::Fixed)
        }
        // Some writers call all that they do not know by this one name: it says of no two that
        // they are equal.
        Some(DimensionValue::Parameter(name)) if !matches!(name.trim(), "" | "?") => {
            Dimension::Named(name.clone())
        }
        _ => Dimension::Unnamed,
    };
    Some(shape.dim.iter().map(|dim| dimension(&dim.value)).collect())
}

fn opsets(model: &ModelProto) -> BTreeMap<String, i64> {
    let name = |domain: &str| if domain.is_empty() { "ai.onnx" } else { domain }.to_owned();
    model
        .opset_import
        .iter()
        .map(|set| (name(&set.domain), set.version))
        .collect()
}

fn operators(nodes: &[NodeProto]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts
            .entry(qualified(&node.domain, &node.op_type))
            .or_default() += 1;
    }
    counts
}

fn metadata(model: &ModelProto) -> BTreeMap<String, String> {
    model
        .metadata_props
        .iter()
        .map(|p| (p.key.clone(), p.value.clone()))
        .collect()
}

/// The place of a constant tensor in an error.
pub(crate) fn initialiser(name: &str) -> String {
    format!("initialiser '{name}'")
}

/// An operator's or function's name, with the domain where it is not ONNX's own.
pub(crate) fn qualified(domain: &str, name: &str) -> String {
    if matches!(domain, "" | "ai.onnx") {
        name.to_owned()
    } else {
        format!("{domain}.{name}")
    }
}
