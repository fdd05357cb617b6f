//! Import: from the decoded model to a graph.

mod constant;
mod control;
mod cpu_node;
mod inline;
mod interface;
mod known;
mod scan_batches;
mod sequence_map;
mod unroll;

use self::cpu_node::CpuNodes;
use self::inline::branch_graph;
use self::known::EvaluatedValues;
pub use self::known::Evaluator;
use crate::draft::{Draft, DraftNode, Origin, ValueInfo};
use crate::files::ModelFiles;
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto};
use crate::scope::{Opsets, Scope, domain};
use crate::signature::{Signature, ValueSignature};
use crate::unsupported::Unsupported;
use crate::{ImportOptions, PartitionedGraph, attribute, order, resolve, upgrade};
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

/// The maximum number of listed problems; further ones are counted.
const PROBLEMS: usize = 64;

/// The limit of memory for inlined copies of functions, as [`Import::spend`] counts it.
const INLINED: usize = 128 << 20;

/// The graph of `model`; see [`crate::Model::graph`].
pub(crate) fn graph(
    model: &ModelProto,
    graph: &GraphProto,
    signature: &Signature,
    options: &ImportOptions,
    files: &ModelFiles,
    control: &Control,
) -> Result<PartitionedGraph> {
    let mut scope = Scope::of_model(graph, Opsets::new(&model.opset_import)?);
    let mut import = Import::new(model, graph, files, control);
    import.draft.graph.metadata = signature.metadata.clone();
    import.cpu_nodes = CpuNodes::new(graph, options);
    import.evaluated.evaluator.clone_from(&options.evaluator);
    import.inputs(graph, signature, options, &mut scope);
    let given = |name: &str| options.constants.get(name).or_else(|| files.weight(name));
    import.initialisers(graph, given, &mut scope)?;
    import.nodes(&graph.node, &mut scope)?;
    import.outputs(graph, &mut scope);
    import.cut_cpu_nodes();
    import.finish()
}

/// The state of an import. Problems are collected; an error returned by a function ends it.
pub(crate) struct Import<'m> {
    draft: Draft,
    /// The stack of inlined functions, outermost first.
    calls: Vec<&'m FunctionProto>,
    /// The nesting depth of functions and branches.
    depth: usize,
    functions: HashMap<[&'m str; 3], &'m FunctionProto>,
    cpu_nodes: CpuNodes<'m>,
    evaluated: EvaluatedValues,
    unsupported: Unsupported,
    errors: Vec<Error>,
    files: &'m ModelFiles,
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
        files: &'m ModelFiles,
        control: &'m Control,
    ) -> Self {
        let mut draft = Draft::new(&graph.name);
        draft.channel_block = upgrade::block_length(graph);
        // Inlined values must not have the name of a value of the model's graph.
        let inputs = graph.input.iter().map(|input| &input.name);
        let tensors = graph.initializer.iter().map(|tensor| &tensor.name);
        let outputs = graph.node.iter().flat_map(|node| &node.output);
        for name in inputs.chain(tensors).chain(outputs) {
            draft.value_names.reserve(name);
        }
        let mut errors = Vec::new();
        let mut functions = HashMap::new();
        for function in &model.functions {
            let FunctionProto {
                domain: set,
                name,
                overload,
                ..
            } = function;
            if functions
                .insert([domain(set), name, overload], function)
                .is_some()
            {
                errors.push(invalid(format!("function '{name}' is defined twice")));
            }
        }
        Self {
            draft,
            unsupported: Unsupported::default(),
            errors,
            functions,
            cpu_nodes: CpuNodes::default(),
            evaluated: EvaluatedValues::default(),
            calls: Vec::new(),
            depth: 0,
            files,
            control,
            shared: HashMap::new(),
            inlined: 0,
            read: 0,
            not_listed: 0,
        }
    }

    /// Adds nodes in topological order.
    fn nodes(&mut self, nodes: &'m [NodeProto], scope: &mut Scope<'m, '_>) -> Result<()> {
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
                // The outputs are defined, so that consumers are not reported.
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
        if self.cpu_nodes.contains(label) {
            return self.cpu_node(node, &inputs, label, scope);
        }
        let domain = domain(&node.domain);
        let key = [domain, node.op_type.as_str(), node.overload.as_str()];
        if let Some(&function) = self.functions.get(&key) {
            return self.call(function, node, inputs, label, scope);
        }
        match (domain, node.op_type.as_str()) {
            ("", "Constant") => return self.constant(node, scope),
            ("", "Loop" | "Scan") => {
                self.unroll(node, &inputs, label, scope)?;
                // Consumers of a refused node are not reported.
                self.missing_outputs(node, scope);
                return Ok(());
            }
            ("", "SequenceMap") => {
                self.sequence_map(node, &inputs, label, scope)?;
                self.missing_outputs(node, scope);
                return Ok(());
            }
            ("", "If") => {
                if let Some(branch) = self.branch(node, &inputs, scope)? {
                    return self.inline_branch(branch, node, label, scope);
                }
                if let Some(condition) = inputs.first().copied().flatten() {
                    let then = branch_graph(node, scope, "then_branch")?;
                    let branches = [then, branch_graph(node, scope, "else_branch")?];
                    return self.run_time_branch(branches, node, condition, label, scope);
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

    /// Reports an unsupported node; other errors are returned.
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

    /// The attributes of a node after resolution of references.
    fn attributes(&mut self, node: &'m NodeProto, scope: &Scope<'m, '_>) -> Result<Attributes> {
        let mut attributes = Attributes::new();
        for proto in &node.attribute {
            let Some(value) = scope.resolve(proto)? else {
                continue;
            };
            if let Some(ty) = &value.tp {
                // The type of an absent optional value.
                let declared = ValueSignature::of_type(ty);
                if let Some(dtype) = declared.dtype.filter(|_| declared.other.is_none()) {
                    let text = |text: &str| Attribute::String(text.to_owned());
                    let kind = declared.kind.optional().to_string();
                    attributes.set("kind", text(&kind));
                    attributes.set("dtype", text(dtype.name()));
                    continue;
                }
            }
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

    /// Adds the outputs of a node.
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
            let info = scope
                .declared
                .get(name.as_str())
                .copied()
                .unwrap_or_default();
            let unique = self.name(name, scope);
            let value = self.draft.add_value(unique, info);
            scope.values.insert(name, Some(value));
            outputs.push(Some(value));
        }
        outputs
    }

    /// Defines the missing outputs of a failed node.
    fn missing_outputs(&mut self, node: &'m NodeProto, scope: &mut Scope<'m, '_>) {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if !scope.values.contains_key(name.as_str()) {
                let unique = self.name(name, scope);
                let value = self.draft.add_value(unique, ValueInfo::default());
                scope.values.insert(name, Some(value));
            }
        }
    }

    /// The name in the graph of a local name; the name of an output of the call is used once.
    fn name(&mut self, local: &'m str, scope: &mut Scope<'m, '_>) -> String {
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

    /// Counts the memory of inlined copies; beyond the limit it is an error.
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

    /// Records a problem, up to the limit.
    fn report(&mut self, error: Error) {
        if self.errors.len() < PROBLEMS {
            self.errors.push(error);
        } else {
            self.not_listed += 1;
        }
    }

    /// The graph, or all problems.
    fn finish(self) -> Result<PartitionedGraph> {
        let Self {
            draft,
            mut errors,
            mut unsupported,
            not_listed,
            cpu_nodes,
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
            None => Ok(PartitionedGraph {
                graph,
                calls: cpu_nodes.calls,
            }),
        }
    }
}

/// Whether an error ends the import: cancellation, deadline or exhausted memory.
pub(crate) fn is_stop(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded | ErrorKind::OutOfMemory
    )
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}
