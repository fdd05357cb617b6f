//! Inputs and outputs of the graph.

use super::{Import, invalid};
use crate::dimension::InputTypes;
use crate::draft::{DraftNode, Origin, ValueInfo};
use crate::proto::GraphProto;
use crate::scope::Scope;
use crate::signature::{Dimension, Signature, ValueSignature};
use crate::{ImportOptions, dimension, upgrade};
use std::collections::HashSet;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Attributes, ElementShape, List, ListType, ValueId};

impl<'m> Import<'m> {
    /// Adds the inputs without initialiser, and the constants of the options.
    pub(super) fn inputs(
        &mut self,
        graph: &'m GraphProto,
        signature: &Signature,
        options: &ImportOptions,
        scope: &mut Scope<'m, '_>,
    ) {
        self.unknown_constants(graph, options);
        let types = dimension::input_types(&signature.inputs, options);
        let InputTypes {
            types,
            symbols,
            example_sizes,
            mut extents,
            fixed,
        } = types.unwrap_or_else(|error| {
            // Continue without types, to report further problems.
            self.report(error);
            InputTypes::default()
        });
        self.draft.graph.symbols = symbols;
        self.draft.graph.example_sizes = example_sizes;
        let known = |dimension: &Dimension| match dimension {
            Dimension::Named(name) => fixed.get(name).map(|&extent| Dimension::Fixed(extent)),
            _ => None,
        };
        self.draft.declared = signature
            .inputs
            .iter()
            .chain(&signature.outputs)
            .filter_map(|value| {
                let dimensions = value.shape.as_ref()?.iter();
                let dimensions = dimensions.map(|it| known(it).unwrap_or_else(|| it.clone()));
                Some((value.name.clone(), dimensions.collect()))
            })
            .collect();
        for (input, ty) in signature.inputs.iter().zip(&types) {
            self.cpu_nodes.size_dimensions(input, ty);
        }
        let mut types = types.into_iter();
        let lists = |name: &String| {
            let mut inputs = signature.inputs.iter();
            inputs.any(|input| !input.kind.is_tensor() && input.name == *name)
        };
        if let Some(name) = options.constants.keys().find(|name| lists(name)) {
            let text = "a sequence or an optional value cannot be given as a constant";
            let error = Error::new(ErrorKind::InvalidArgument, text);
            self.report(error.at(Location::field(dimension::place(name))));
        }
        let given: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        let inputs = graph
            .input
            .iter()
            .filter(|input| !given.contains(input.name.as_str()));
        for (input, declared) in inputs.zip(&signature.inputs) {
            let name = input.name.clone();
            let ty = declared.kind.is_tensor().then(|| types.next()).flatten();
            let value = match options.constants.get(&name) {
                Some(constant) => self.draft.add_constant(name, constant.clone()),
                None => {
                    let rank = declared.shape.as_ref().map(Vec::len);
                    let info = ValueInfo {
                        dtype: declared.dtype,
                        rank,
                    };
                    let is_tensor = declared.kind.is_tensor();
                    let info = if is_tensor {
                        info
                    } else {
                        ValueInfo::default()
                    };
                    let value = self.draft.add_value(name, info);
                    let list = list_type(declared).unwrap_or_else(|error| {
                        let place = dimension::place(&input.name);
                        self.report(error.at(Location::field(place)));
                        None
                    });
                    let added = self.draft.graph.value_mut(value);
                    added.ty = ty;
                    added.list = list.map(List::of_type);
                    added.extents = extents.remove(&declared.name);
                    self.draft.graph.inputs.push(value);
                    value
                }
            };
            if input.name.is_empty() || scope.values.insert(&input.name, Some(value)).is_some() {
                let error = invalid("an input whose name is empty or taken");
                self.report(error.at(Location::field(dimension::place(&input.name))));
            }
        }
    }

    /// Reports constants of the options that are not inputs.
    fn unknown_constants(&mut self, graph: &GraphProto, options: &ImportOptions) {
        let names: HashSet<&str> = graph
            .input
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        for name in options
            .constants
            .keys()
            .filter(|name| !names.contains(name.as_str()))
        {
            let mut names: Vec<_> = names.iter().copied().collect();
            names.sort_unstable();
            self.report(
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("the model has no input '{name}' to be given as a constant"),
                )
                .help(format!("it has {}", names.join(", "))),
            );
        }
    }

    /// Makes the model's outputs those of the graph.
    pub(super) fn outputs(&mut self, graph: &'m GraphProto, scope: &mut Scope<'m, '_>) {
        let mut seen = HashSet::new();
        if graph.output.is_empty() {
            self.report(invalid("the graph has no outputs"));
        }
        for output in &graph.output {
            let place = || Location::field(format!("output '{}'", output.name));
            if !seen.insert(&output.name) {
                self.report(invalid("an output that is named twice").at(place()));
                continue;
            }
            match scope.value(&output.name).flatten() {
                Some(value) => {
                    let value = self.under_name(value, &output.name);
                    self.draft.graph.outputs.push(value);
                }
                // Nodes without a topological order are reported already.
                None if !self.errors.is_empty() => {}
                None => self.report(invalid("an output that nothing makes").at(place())),
            }
        }
    }

    /// A value equal to `value` with this name: the value itself, or an Identity of it when an inlined
    /// function returns a value of another name.
    fn under_name(&mut self, value: ValueId, name: &str) -> ValueId {
        if self.draft.graph.value(value).name == name {
            return value;
        }
        let copy = self
            .draft
            .add_value(name.to_owned(), self.draft.info(value));
        let node = self.draft.node_names.unique(&format!("{name}/Identity"));
        let origin = Rc::new(Origin::new("", "Identity", upgrade::NEWEST, &node));
        self.draft.emit(DraftNode {
            name: node,
            origin,
            domain: String::new(),
            operator: "Identity".into(),
            version: upgrade::NEWEST,
            attributes: Attributes::new(),
            inputs: vec![Some(value)],
            outputs: vec![Some(copy)],
        });
        copy
    }
}

/// The type of a sequence or optional value; `None` for a tensor. Symbolic dimensions may differ between its tensors.
pub(super) fn list_type(declared: &ValueSignature) -> Result<Option<ListType>> {
    if declared.kind.is_tensor() {
        return Ok(None);
    }
    if let Some(other) = &declared.other {
        return Err(Error::new(ErrorKind::Unsupported, other.clone()));
    }
    let dtype = declared.dtype.ok_or_else(|| {
        invalid(format!(
            "the model does not say the data type of a value of kind {}",
            declared.kind
        ))
    })?;
    let extent = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => Some((*size as i64).into()),
        Dimension::Named(_) | Dimension::Unnamed => None,
    };
    let elements = match &declared.shape {
        Some(shape) => ElementShape::Extents(shape.iter().map(extent).collect()),
        None => ElementShape::Any,
    };
    Ok(Some(ListType {
        kind: declared.kind,
        dtype,
        elements,
    }))
}
