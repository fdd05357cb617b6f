//! From the decoded model to a graph: constants, inputs, nodes in order, outputs.

use crate::draft::{Draft, DraftNode, Known, Origin};
use crate::external::ExternalFiles;
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto};
use crate::scope::{Opsets, Scope, domain};
use crate::signature::{Signature, initialiser};
use crate::unsupported::Unsupported;
use crate::{ImportOptions, attribute, dimension, order, resolve, tensor, upgrade};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Attribute, Attributes, Graph, ValueId};
use tenon_tensor::Tensor;

/// Problems that are listed; more are counted.
const PROBLEMS: usize = 64;

/// Memory that inlined copies of functions may take in all, as [`Import::spend`] counts it.
const INLINED: usize = 128 << 20;

/// The graph of `model`; see [`crate::Model::graph`].
pub(crate) fn graph(
    model: &ModelProto,
    graph: &GraphProto,
    signature: &Signature,
    options: &ImportOptions,
    files: &ExternalFiles,
    control: &Control,
) -> Result<Graph> {
    let mut scope = Scope::of_model(graph, Opsets::new(&model.opset_import)?);
    let mut import = Import::new(model, graph, files, control);
    import.draft.graph.metadata = signature.metadata.clone();
    import.inputs(graph, signature, options, &mut scope);
    import.initialisers(graph, &options.constants, &mut scope)?;
    import.nodes(&graph.node, &mut scope)?;
    import.outputs(graph, &mut scope);
    import.finish()
}

/// An import under way. Problems are gathered; what a function answers as an error ends it.
pub(crate) struct Import<'m> {
    pub draft: Draft,
    /// Functions that are being inlined, outermost first.
    pub calls: Vec<&'m FunctionProto>,
    functions: HashMap<[&'m str; 3], &'m FunctionProto>,
    unsupported: Unsupported,
    errors: Vec<Error>,
    files: &'m ExternalFiles,
    control: &'m Control,
    /// Constant tensors of functions, read once for all calls.
    shared: HashMap<*const TensorProto, Tensor>,
    inlined: usize,
    read: u64,
    not_listed: usize,
}

impl<'m> Import<'m> {
    fn new(
        model: &'m ModelProto,
        graph: &'m GraphProto,
        files: &'m ExternalFiles,
        control: &'m Control,
    ) -> Self {
        let mut draft = Draft::new(&graph.name);
        // Inlined values must not take a name that the model's own graph has.
        let inputs = graph.input.iter().map(|input| &input.name);
        let tensors = graph.initializer.iter().map(|tensor| &tensor.name);
        let outputs = graph.node.iter().flat_map(|node| &node.output);
        for name in inputs.chain(tensors).chain(outputs) {
            draft.value_names.take(name);
        }
        let key = |f: &'m FunctionProto| [domain(&f.domain), f.name.as_str(), f.overload.as_str()];
        Self {
            draft,
            unsupported: Unsupported::default(),
            errors: Vec::new(),
            functions: model
                .functions
                .iter()
                .map(|function| (key(function), function))
                .collect(),
            calls: Vec::new(),
            files,
            control,
            shared: HashMap::new(),
            inlined: 0,
            read: 0,
            not_listed: 0,
        }
    }

    /// Adds the inputs that have no initialiser, and constants for those that the caller gives.
    fn inputs(
        &mut self,
        graph: &'m GraphProto,
        signature: &Signature,
        options: &ImportOptions,
        scope: &mut Scope<'m, '_>,
    ) {
        self.unknown_constants(graph, options);
        let types = dimension::input_types(&signature.inputs, options);
        let types = types.unwrap_or_else(|error| {
            // Go on without types, to report what else is wrong.
            self.report(error);
            Vec::new()
        });
        let mut types = types.into_iter();
        let given: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        let inputs = graph
            .input
            .iter()
            .filter(|input| !given.contains(input.name.as_str()));
        for (input, declared) in inputs.zip(&signature.inputs) {
            let name = input.name.clone();
            let ty = types.next();
            let value = match options.constants.get(&name) {
                Some(constant) => self.draft.add_constant(name, constant.clone()),
                None => {
                    let rank = declared.shape.as_ref().map(Vec::len);
                    let value = self.draft.add_value(
                        name,
                        Known {
                            dtype: declared.dtype,
                            rank,
                        },
                    );
                    self.draft.graph.value_mut(value).ty = ty;
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

    /// Reports constants that the caller gives but that are no inputs.
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

    /// Adds the constant tensors of a graph; those that the caller gives replace the model's.
    pub fn initialisers(
        &mut self,
        graph: &'m GraphProto,
        given: &BTreeMap<String, Tensor>,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        for tensor in &graph.initializer {
            let place = || Location::field(initialiser(&tensor.name));
            let read = match given.get(&tensor.name) {
                Some(constant) => Ok(constant.clone()),
                None => self.tensor(tensor, scope),
            };
            let value = match read {
                Ok(tensor_read) => {
                    let name = self.name(&tensor.name, scope);
                    self.draft.add_constant(name, tensor_read)
                }
                Err(error) if is_stop(&error) => return Err(error),
                Err(error) => {
                    self.report(error.at(place()));
                    let name = self.name(&tensor.name, scope);
                    self.draft.add_value(name, Known::default())
                }
            };
            if tensor.name.is_empty() || scope.values.insert(&tensor.name, Some(value)).is_some() {
                self.report(invalid("an initialiser whose name is empty or taken").at(place()));
            }
        }
        if !graph.sparse_initializer.is_empty() {
            let count = graph.sparse_initializer.len();
            let message = format!("sparse initialisers ({count}) are not supported");
            self.report(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Adds nodes, sorted so that each stands after those that make what it uses.
    pub fn nodes(&mut self, nodes: &'m [NodeProto], scope: &mut Scope<'m, '_>) -> Result<()> {
        let given = |name: &str| scope.values.contains_key(name);
        let outer = |name: &str| scope.value(name).is_some();
        let order = match order::execution_order(nodes, given, outer) {
            Ok(order) => order,
            Err(errors) => {
                errors.into_iter().for_each(|error| self.report(error));
                return Ok(());
            }
        };
        for (done, index) in order.into_iter().enumerate() {
            if done % 1024 == 0 {
                self.control.check()?;
            }
            let Some(node) = nodes.get(index) else {
                continue;
            };
            let label = format!("{}{}", scope.prefix, order::label(node, index));
            if let Err(error) = self.node(node, &label, scope) {
                if is_stop(&error) {
                    return Err(error);
                }
                self.report(error.at(Location::node(&label)));
                // The node's outputs are there, so that its users are not reported too.
                self.missing_outputs(node, scope);
            }
        }
        Ok(())
    }

    /// Adds one node: a constant, an inlined function or branch, or an operator.
    fn node(&mut self, node: &'m NodeProto, label: &str, scope: &mut Scope<'m, '_>) -> Result<()> {
        if !scope.prefix.is_empty() {
            let names = (node.output.len() + 1) * (scope.prefix.len() + 64);
            let lists: usize = node.attribute.iter().map(attribute::weight).sum();
            self.spend(names + lists + (node.input.len() + node.output.len()) * 8 + 256)?;
        }
        let input = |name: &String| {
            if name.is_empty() {
                None
            } else {
                scope.value(name).flatten()
            }
        };
        let inputs: Vec<Option<ValueId>> = node.input.iter().map(input).collect();
        let domain = domain(&node.domain);
        let key = [domain, node.op_type.as_str(), node.overload.as_str()];
        if let Some(&function) = self.functions.get(&key) {
            return self.call(function, node, inputs, label, scope);
        }
        match (domain, node.op_type.as_str()) {
            ("", "Constant") => return self.constant(node, scope),
            ("", "If") => {
                if let Some(branch) = self.branch(node, &inputs, scope)? {
                    return self.inline_branch(branch, node, label, scope);
                }
            }
            _ => {}
        }
        self.operator(node, domain, inputs, label, scope)
    }

    /// Adds an operator in its newest form.
    fn operator(
        &mut self,
        node: &'m NodeProto,
        domain: &str,
        inputs: Vec<Option<ValueId>>,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let version = scope.version(domain)?;
        let name = self.draft.node_names.unique(label);
        let origin = Rc::new(Origin::new(domain, &node.op_type, version, &name));
        let attributes = self.attributes(node, scope);
        let outputs = self.outputs_of(node, scope);
        let attributes = match attributes {
            Ok(attributes) => attributes,
            Err(error) => return self.refuse(&origin, error),
        };
        let node = DraftNode {
            name,
            origin: origin.clone(),
            domain: domain.to_owned(),
            operator: node.op_type.clone(),
            version,
            attributes,
            inputs,
            outputs,
        };
        match upgrade::newest(&mut self.draft, node) {
            Ok(node) => self.draft.emit(node),
            Err(error) => self.refuse(&origin, error)?,
        }
        Ok(())
    }

    /// Reports why a node cannot be used, or passes on an error that is not about support.
    fn refuse(&mut self, origin: &Origin, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Unsupported {
            return Err(error);
        }
        let place = error.location().field.as_ref();
        let reason = match place {
            Some(place) => format!("unsupported value of {place}: {}", error.message()),
            None => error.message().to_owned(),
        };
        self.unsupported.add(origin, reason);
        Ok(())
    }

    /// The attributes of a node, references resolved.
    fn attributes(&mut self, node: &'m NodeProto, scope: &Scope<'m, '_>) -> Result<Attributes> {
        let mut attributes = Attributes::new();
        for proto in &node.attribute {
            let Some(value) = scope.resolve(proto)? else {
                continue;
            };
            let converted = attribute::convert(value, |tensor| self.tensor(tensor, scope));
            let value = converted.map_err(|error| error.at(attribute::place(&proto.name)))?;
            if attributes.value(&proto.name).is_some() {
                return Err(
                    invalid("an attribute that is given twice").at(attribute::place(&proto.name))
                );
            }
            attributes.set(&proto.name, value);
        }
        Ok(attributes)
    }

    /// Adds the value of a Constant node as a constant of the graph.
    fn constant(&mut self, node: &'m NodeProto, scope: &mut Scope<'m, '_>) -> Result<()> {
        let attributes = self.attributes(node, scope)?;
        let mut given = attributes.iter();
        let (Some((name, value)), None) = (given.next(), given.next()) else {
            return Err(invalid("a Constant with more than one value, or none"));
        };
        let tensor = match (name, value) {
            ("value", Attribute::Tensor(tensor)) => tensor.clone(),
            ("value_float", Attribute::Float(number)) => Tensor::scalar(*number)?,
            ("value_int", Attribute::Int(number)) => Tensor::scalar(*number)?,
            ("value_floats", Attribute::Floats(list)) => Tensor::from_slice([list.len()], list)?,
            ("value_ints", Attribute::Ints(list)) => Tensor::from_slice([list.len()], list)?,
            ("value_string", _) | ("value_strings", _) => {
                return Err(Error::new(ErrorKind::Unsupported, "a constant of strings"));
            }
            _ => return Err(invalid("an unknown form of Constant").at(attribute::place(name))),
        };
        let [output] = node.output.as_slice() else {
            return Err(invalid("a Constant must have one output").found(node.output.len()));
        };
        let name = self.name(output, scope);
        let value = self.draft.add_constant(name, tensor);
        scope.values.insert(output, Some(value));
        Ok(())
    }

    /// Adds the values that a node makes.
    fn outputs_of(
        &mut self,
        node: &'m NodeProto,
        scope: &mut Scope<'m, '_>,
    ) -> Vec<Option<ValueId>> {
        let mut outputs = Vec::with_capacity(node.output.len());
        for name in &node.output {
            if name.is_empty() {
                outputs.push(None);
                continue;
            }
            let known = scope.known.get(name.as_str()).copied().unwrap_or_default();
            let unique = self.name(name, scope);
            let value = self.draft.add_value(unique, known);
            scope.values.insert(name, Some(value));
            outputs.push(Some(value));
        }
        outputs
    }

    /// Adds those outputs of a failed node that are not there yet.
    fn missing_outputs(&mut self, node: &'m NodeProto, scope: &mut Scope<'m, '_>) {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if !scope.values.contains_key(name.as_str()) {
                let unique = self.name(name, scope);
                let value = self.draft.add_value(unique, Known::default());
                scope.values.insert(name, Some(value));
            }
        }
    }

    /// Makes the model's outputs those of the graph.
    fn outputs(&mut self, graph: &'m GraphProto, scope: &mut Scope<'m, '_>) {
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
                // When nodes could not be ordered, the reason is reported already.
                None if !self.errors.is_empty() => {}
                None => self.report(invalid("an output that nothing makes").at(place())),
            }
        }
    }

    /// A value equal to `value` whose name is `name`: the value itself, unless a function hands on
    /// a value that has another name.
    fn under_name(&mut self, value: ValueId, name: &str) -> ValueId {
        if self.draft.graph.value(value).name == name {
            return value;
        }
        let copy = self
            .draft
            .add_value(name.to_owned(), self.draft.known(value));
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

    /// A constant tensor; one of a function is read once for all calls.
    fn tensor(&mut self, proto: &TensorProto, scope: &Scope<'m, '_>) -> Result<Tensor> {
        let key = std::ptr::from_ref(proto);
        if let Some(tensor) = self.shared.get(&key) {
            return Ok(tensor.clone());
        }
        self.control.progress("read weights", self.read, 0)?;
        let tensor = tensor::read(proto, self.files)?;
        self.read += tensor.bytes().len() as u64;
        if !scope.prefix.is_empty() {
            self.shared.insert(key, tensor.clone());
        }
        Ok(tensor)
    }

    /// The name in the graph of a local name; a name given by the caller is used once.
    pub fn name(&mut self, local: &'m str, scope: &mut Scope<'m, '_>) -> String {
        if let Some(name) = scope.renamed.remove(local) {
            return name;
        }
        if scope.prefix.is_empty() {
            return local.to_owned();
        }
        self.draft
            .value_names
            .unique(&format!("{}{local}", scope.prefix))
    }

    /// Counts memory that inlining takes; an error when it is too much.
    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.inlined = self.inlined.saturating_add(bytes);
        if self.inlined > INLINED {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the model's functions, inlined, take more than {INLINED} bytes"),
            ));
        }
        Ok(())
    }

    /// Keeps a problem, unless there are too many already.
    pub fn report(&mut self, error: Error) {
        if self.errors.len() < PROBLEMS {
            self.errors.push(error);
        } else {
            self.not_listed += 1;
        }
    }

    /// The graph, or all problems.
    fn finish(self) -> Result<Graph> {
        let Self {
            draft,
            mut errors,
            mut unsupported,
            not_listed,
            ..
        } = self;
        let (graph, more) = resolve::graph(draft, &mut unsupported);
        errors.extend(more);
        errors.extend(unsupported.errors());
        if not_listed > 0 {
            errors.push(invalid(format!(
                "{not_listed} more problems are not listed"
            )));
        }
        match Error::from_all(errors) {
            Some(error) => Err(error),
            None => Ok(graph),
        }
    }
}

/// Whether an error ends the import: the caller wants it to end, or memory is used up.
pub(crate) fn is_stop(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded | ErrorKind::OutOfMemory
    )
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}
