//! Names in force: the values, attributes and operator sets that a list of nodes can refer to.

use crate::draft::Known;
use crate::proto::{AttributeProto, GraphProto, OperatorSetIdProto, ValueInfoProto};
use crate::signature::{Dimension, ValueSignature};
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::ValueId;

/// Versions of the operator sets in force, by domain; ONNX's own is the empty one.
pub(crate) struct Opsets<'m>(HashMap<&'m str, i64>);

impl<'m> Opsets<'m> {
    /// An error when ONNX's own set has a version that the importer does not know.
    pub fn new(imports: &'m [OperatorSetIdProto]) -> Result<Self> {
        let row = |set: &'m OperatorSetIdProto| (domain(&set.domain), set.version);
        let sets: HashMap<_, _> = imports.iter().map(row).collect();
        if let Some(&version) = sets.get("")
            && !(crate::upgrade::OLDEST..=crate::upgrade::NEWEST).contains(&version)
        {
            return Err(
                Error::new(ErrorKind::UnsupportedVersion, "operator set ai.onnx")
                    .expected(format_args!(
                        "version {} to {}",
                        crate::upgrade::OLDEST,
                        crate::upgrade::NEWEST
                    ))
                    .found(version)
                    .help("the converter of the Python package onnx can change it"),
            );
        }
        Ok(Self(sets))
    }

    /// The version of a domain's set, when the model names it.
    pub fn version(&self, domain: &str) -> Option<i64> {
        self.0.get(domain).copied()
    }
}

/// A domain's name, that of ONNX's own operators in its short form.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// What the nodes of one graph or function can refer to.
pub(crate) struct Scope<'m, 's> {
    /// The graph around this one.
    pub outer: Option<&'s Scope<'m, 's>>,
    /// Values made so far, by local name; `None` for an optional input that the caller left out.
    pub values: HashMap<&'m str, Option<ValueId>>,
    /// The names in the graph of those values that the caller has names for.
    pub renamed: HashMap<&'m str, String>,
    /// What the names of inlined values and nodes begin with; empty in the model's own graph.
    pub prefix: String,
    /// Attributes of the function call, by the function's names.
    pub attributes: Rc<HashMap<&'m str, &'m AttributeProto>>,
    /// Operator sets in force.
    pub opsets: Rc<Opsets<'m>>,
    /// What the graph says of its values.
    pub known: HashMap<&'m str, Known>,
}

impl<'m, 's> Scope<'m, 's> {
    /// The scope of the model's own graph.
    pub fn of_model(graph: &'m GraphProto, opsets: Opsets<'m>) -> Self {
        Self {
            outer: None,
            values: HashMap::new(),
            renamed: HashMap::new(),
            prefix: String::new(),
            attributes: Rc::default(),
            opsets: Rc::new(opsets),
            known: known(graph),
        }
    }

    /// The scope of a graph inside the one of `outer`.
    pub fn of_subgraph(graph: &'m GraphProto, outer: &'s Scope<'m, 's>, prefix: String) -> Self {
        Self {
            outer: Some(outer),
            values: HashMap::new(),
            renamed: HashMap::new(),
            prefix,
            attributes: outer.attributes.clone(),
            opsets: outer.opsets.clone(),
            known: known(graph),
        }
    }

    /// The value of a name, here or around; the outer `None` when there is none.
    pub fn value(&self, name: &str) -> Option<Option<ValueId>> {
        match self.values.get(name) {
            Some(value) => Some(*value),
            None => self.outer?.value(name),
        }
    }

    /// An attribute's value, references to the function's attributes followed; `None` when it
    /// refers to one that the caller left out.
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

    /// The version of ONNX's own operator set or of another domain's; an error where ONNX's is
    /// missing.
    pub fn version(&self, domain: &str) -> Result<i64> {
        match self.opsets.version(domain) {
            Some(version) => Ok(version),
            // Files of other tools leave out the version of their own domains.
            None if !domain.is_empty() => Ok(1),
            None => Err(Error::new(
                ErrorKind::InvalidModel,
                "the model does not say which version of operator set ai.onnx it uses",
            )
            .at(Location::field("opset_import"))),
        }
    }
}

/// What a graph says of its values.
fn known(graph: &GraphProto) -> HashMap<&str, Known> {
    let known = |info: &ValueInfoProto| {
        let signature = ValueSignature::new(info);
        Known {
            dtype: signature.dtype,
            rank: signature.shape.as_deref().map(<[Dimension]>::len),
        }
    };
    let infos = graph.value_info.iter().chain(&graph.output);
    infos
        .map(|info| (info.name.as_str(), known(info)))
        .collect()
}
