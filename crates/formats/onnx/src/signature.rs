//! The signature of a model: inputs, outputs, operator sets, counts.

use crate::dtype::data_type;
use crate::maps;
use crate::proto::{
    DimensionValue, GraphProto, MapTypeProto, ModelProto, NodeProto, TensorTypeProto, TypeProto,
    TypeValue, ValueInfoProto,
};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{DataType, TensorType, ValueKind};

/// The declarations of a model, read without its operators.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// Name of the graph.
    pub name: String,
    /// Version of the file format.
    pub ir_version: i64,
    /// The program that wrote the file, with its version.
    pub producer: String,
    /// The domain of the model (a reversed internet name by convention).
    pub domain: String,
    /// The version of the model.
    pub model_version: i64,
    /// Operator sets: domain (`ai.onnx` for ONNX's) and version.
    pub opsets: BTreeMap<String, i64>,
    /// Inputs without an initialiser.
    pub inputs: Vec<ValueSignature>,
    /// Outputs.
    pub outputs: Vec<ValueSignature>,
    /// Constant tensors by name, in the file's order.
    pub initialisers: Vec<(String, TensorType)>,
    /// Number of nodes, without those of subgraphs and functions.
    pub nodes: usize,
    /// Number of nodes of each operator, with the domain if that is not ONNX's.
    pub operators: BTreeMap<String, usize>,
    /// Names of the functions of the model, with their domain.
    pub functions: Vec<String>,
    /// Metadata of the model.
    pub metadata: BTreeMap<String, String>,
}

/// A declared input or output.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSignature {
    /// Its name.
    pub name: String,
    /// A tensor, a sequence or an optional value.
    pub kind: ValueKind,
    /// The element type of the tensor or tensors; `None` when it is undeclared.
    pub dtype: Option<DataType>,
    /// The dimensions of the tensor, or what those of the tensors have in common; `None` for an undeclared rank.
    pub shape: Option<Vec<Dimension>>,
    /// The type of the keys of a map, or of the maps of a sequence; `dtype` is that of their values.
    pub keys: Option<DataType>,
    /// A description when it is of no supported type ("a sparse tensor").
    pub other: Option<String>,
}

/// A declared extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// Fixed.
    Fixed(usize),
    /// Symbolic; equal names are equal extents.
    Named(String),
    /// Unknown, without a name.
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
        if !self.kind.is_tensor() {
            write!(f, "{} of ", self.kind)?;
        }
        if self.keys.is_some() {
            f.write_str("map of ")?;
        }
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("?")?,
        }
        if let Some(keys) = self.keys {
            return write!(f, " by {keys}");
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
    /// with an invalid type.
    pub(crate) fn new(model: &ModelProto, graph: &GraphProto) -> Result<Self> {
        let mut errors = Vec::new();
        let mut initialisers = Vec::new();
        for tensor in &graph.initializer {
            match crate::tensor::tensor_type(tensor) {
                Ok(ty) => initialisers.push((tensor.name.clone(), ty)),
                // Types that Tenon does not support are reported by the import of the graph.
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
        let mut inputs: Vec<ValueSignature> = inputs.map(ValueSignature::new).collect();
        let mut metadata = metadata(model);
        maps::describe(graph, &mut inputs, &mut metadata);
        Ok(Self {
            name: graph.name.clone(),
            ir_version: model.ir_version,
            producer: format!("{} {}", model.producer_name, model.producer_version)
                .trim()
                .into(),
            domain: model.domain.clone(),
            model_version: model.model_version,
            opsets: opsets(model),
            inputs,
            outputs: graph.output.iter().map(ValueSignature::new).collect(),
            initialisers,
            nodes: graph.node.len(),
            operators: operators(&graph.node),
            functions: model
                .functions
                .iter()
                .map(|f| qualified(&f.domain, &f.name))
                .collect(),
            metadata,
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
            kind: ValueKind::Tensor,
            dtype: None,
            shape: None,
            keys: None,
            other: None,
        };
        if let Some(ty) = &info.r#type
            && let Err(other) = signature.set_type(ty)
        {
            signature.other = Some(other);
        }
        signature
    }

    /// The signature of a type alone.
    pub(crate) fn of_type(ty: &TypeProto) -> Self {
        Self::new(&ValueInfoProto {
            name: String::new(),
            r#type: Some(Box::new(ty.clone())),
        })
    }

    /// Sets the type; the error is a description of one that is not supported.
    fn set_type(&mut self, ty: &TypeProto) -> std::result::Result<(), String> {
        let unsupported = |what: &str| Err(what.to_owned());
        let (kind, element) = match &ty.value {
            None => return Ok(()),
            Some(TypeValue::Tensor(ty)) => return self.set_tensor(ty),
            Some(TypeValue::Sequence(element)) => (ValueKind::Sequence, element),
            Some(TypeValue::Optional(element)) => (ValueKind::Optional, element),
            Some(TypeValue::Map(ty)) => return self.set_map(ty),
            Some(TypeValue::Opaque(_)) => return unsupported("an opaque value"),
            Some(TypeValue::SparseTensor(_)) => return unsupported("a sparse tensor"),
        };
        self.kind = match (self.kind, kind) {
            (ValueKind::Tensor, kind) => kind,
            (ValueKind::Optional, ValueKind::Sequence) => ValueKind::OptionalSequence,
            (ValueKind::Optional | ValueKind::OptionalSequence, _) => {
                return unsupported("an optional value of optional values");
            }
            (ValueKind::Sequence, _) => {
                return unsupported("a sequence of sequences or optional values");
            }
        };
        match &element.elem_type {
            Some(element) => self.set_type(element),
            None => Ok(()),
        }
    }

    fn set_map(&mut self, ty: &MapTypeProto) -> std::result::Result<(), String> {
        let value = ty.value_type.as_ref().and_then(|ty| ty.value.as_ref());
        let (Ok(keys), Some(TypeValue::Tensor(value))) = (data_type(ty.key_type.into()), value)
        else {
            return Err("a map without keys, or of other values than elements".to_owned());
        };
        if self.kind.is_optional() {
            return Err("an optional map".to_owned());
        }
        self.keys = Some(keys);
        self.set_tensor(value)
    }

    fn set_tensor(&mut self, ty: &TensorTypeProto) -> std::result::Result<(), String> {
        match data_type(ty.elem_type.into()) {
            Ok(dtype) => self.dtype = Some(dtype),
            Err(error) if ty.elem_type != 0 => {
                return Err(format!("a tensor whose {}", error.message()));
            }
            Err(_) => {}
        }
        self.shape = dimensions(ty);
        Ok(())
    }
}

fn dimensions(ty: &TensorTypeProto) -> Option<Vec<Dimension>> {
    let shape = ty.shape.as_ref()?;
    let dimension = |value: &Option<DimensionValue>| match value {
        // Some writers use -1 for unknown extents.
        Some(DimensionValue::Value(extent)) => {
            usize::try_from(*extent).map_or(Dimension::Unnamed, Dimension::Fixed)
        }
        // Some writers use this name for all unknown extents: it does not mean that two are equal.
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

/// The location of a constant tensor in errors.
pub(crate) fn initialiser(name: &str) -> String {
    format!("initialiser '{name}'")
}

/// The name of an operator or function, with the domain if that is not ONNX's.
pub(crate) fn qualified(domain: &str, name: &str) -> String {
    if matches!(domain, "" | "ai.onnx") {
        name.to_owned()
    } else {
        format!("{domain}.{name}")
    }
}
