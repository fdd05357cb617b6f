//! Scopes: the values, attributes and operator sets to which a list of nodes can refer.

use crate::draft::ValueInfo;
use crate::proto::{AttributeProto, GraphProto, OperatorSetIdProto, ValueInfoProto};
use crate::signature::{Dimension, ValueSignature};
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::ValueId;

/// Versions of operator sets, by domain; that of ONNX is empty.
pub(crate) struct Opsets<'m>(HashMap<&'m str, i64>);

impl<'m> Opsets<'m> {
    /// An error for an unsupported version of ONNX's set.
    pub fn new(imports: &'m [OperatorSetIdProto]) -> Result<Self> {
        let row = |set: &'m OperatorSetIdProto| (domain(&set.domain), set.version);
        let sets: HashMap<_, _> = imports.iter().map(row).collect();
        if let Some(&version) = sets.get("")
            && !(1..=crate::upgrade::NEWEST).contains(&version)
        {
            return Err(
                Error::new(ErrorKind::UnsupportedVersion, "operator set ai.onnx")
                    .expected(format_args!("version 1 to {}", crate::upgrade::NEWEST))
                    .found(version)
                    .help("the converter of the Python package onnx can change it"),
            );
        }
        Ok(Self(sets))
    }

    /// The version of a domain's set, if the model declares it.
    pub fn version(&self, domain: &str) -> Option<i64> {
        self.0.get(domain).copied()
    }
}

/// The canonical name of a domain; that of ONNX is empty.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The scope of one graph or function.
pub(crate) struct Scope<'m, 's> {
    /// The enclosing scope.
    pub outer: Option<&'s Scope<'m, 's>>,
    /// Values by local name; `None` for an omitted optional input of the call.
    pub values: HashMap<&'m str, Option<ValueId>>,
    /// The names in the graph of values that are outputs of the call.
    pub renamed: HashMap<&'m str, String>,
    /// The prefix of inlined values and nodes; empty in the model's graph.
    pub prefix: String,
    /// Attributes of the function call, by name.
    pub attributes: Rc<HashMap<&'m str, &'m AttributeProto>>,
    /// Operator sets.
    pub opsets: Rc<Opsets<'m>>,
    /// Declared types of the graph's values.
    pub declared: HashMap<&'m str, ValueInfo>,
}

impl<'m, 's> Scope<'m, 's> {
    /// The scope of the model's graph.
    pub fn of_model(graph: &'m GraphProto, opsets: Opsets<'m>) -> Self {
        Self {
            outer: None,
            values: HashMap::new(),
            renamed: HashMap::new(),
            prefix: String::new(),
            attributes: Rc::default(),
            opsets: Rc::new(opsets),
            declared: declared_types(graph),
        }
    }

    /// The scope of a subgraph in `outer`.
    pub fn of_subgraph(graph: &'m GraphProto, outer: &'s Scope<'m, 's>, prefix: String) -> Self {
        Self {
            outer: Some(outer),
            values: HashMap::new(),
            renamed: HashMap::new(),
            prefix,
            attributes: outer.attributes.clone(),
            opsets: outer.opsets.clone(),
            declared: declared_types(graph),
        }
    }

    /// The value of a name in this or an enclosing scope; the outer `None` for an unknown name.
    pub fn value(&self, name: &str) -> Option<Option<ValueId>> {
        match self.values.get(name) {
            Some(value) => Some(*value),
            None => self.outer?.value(name),
        }
    }

    /// An attribute after resolution of references to attributes of the function; `None` for a
    /// reference to one that the call omits.
    pub fn resolve(&self, attribute: &'m AttributeProto) -> Result<Option<&'m AttributeProto>> {
        if attribute.ref_attr_name.is_empty() {
            return Ok(Some(attribute));
        }
        if self.prefix.is_empty() {
            let message = format!("refers to '{}' outside a function", attribute.ref_attr_name);
            return Err(Error::new(ErrorKind::InvalidModel, message)
                .at(crate::attribute::place(&attribute.name)));
        }
        Ok(self
            .attributes
            .get(attribute.ref_attr_name.as_str())
            .copied())
    }

    /// The version of a domain's operator set; a missing version of ONNX's is an error.
    pub fn version(&self, domain: &str) -> Result<i64> {
        match self.opsets.version(domain) {
            Some(version) => Ok(version),
            // Some tools omit the versions of custom domains.
            None if !domain.is_empty() => Ok(1),
            None => Err(Error::new(
                ErrorKind::InvalidModel,
                "the model does not say which version of operator set ai.onnx it uses",
            )
            .at(Location::field("opset_import"))),
        }
    }
}

/// The declared types of a graph's values.
fn declared_types(graph: &GraphProto) -> HashMap<&str, ValueInfo> {
    let declared = |info: &ValueInfoProto| {
        let signature = ValueSignature::new(info);
        // Sequences have no rank.
        if !signature.kind.is_tensor() {
            return ValueInfo::default();
        }
        ValueInfo {
            dtype: signature.dtype,
            rank: signature.shape.as_deref().map(<[Dimension]>::len),
        }
    };
    let infos = graph.value_info.iter().chain(&graph.output);
    infos
        .map(|info| (info.name.as_str(), declared(info)))
        .collect()
}
