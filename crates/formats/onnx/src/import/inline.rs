//! Inlining of functions and of branches with constant conditions.

use super::{Import, invalid};
use crate::proto::{FunctionProto, GraphProto, NodeProto};
use crate::scope::{Opsets, Scope};
use std::collections::HashMap;
use std::rc::Rc;
use tenon_base::Result;
use tenon_graph::ValueId;
use tenon_tensor::DataType;

/// The limit of nested functions and branches; exporters nest by modules, about ten deep.
const DEPTH: usize = 48;

impl<'m> Import<'m> {
    /// Inlines a call of a function of the model.
    pub(super) fn call(
        &mut self,
        function: &'m FunctionProto,
        node: &'m NodeProto,
        inputs: Vec<Option<ValueId>>,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        if self
            .calls
            .iter()
            .any(|active| std::ptr::eq(*active, function))
        {
            return Err(invalid(format!(
                "function '{}' calls itself",
                function.name
            )));
        }
        let excess = |given: usize, listed: usize| given > listed;
        if excess(inputs.len(), function.input.len())
            || excess(node.output.len(), function.output.len())
        {
            return Err(invalid(format!(
                "a call that does not fit function '{}'",
                function.name
            ))
            .expected(format_args!(
                "at most {} inputs and {} outputs",
                function.input.len(),
                function.output.len()
            ))
            .found(format_args!("{} and {}", inputs.len(), node.output.len())));
        }
        let mut inner = self.function_scope(function, node, &inputs, label, scope)?;
        self.calls.push(function);
        let done = self.nested(|import| import.nodes(&function.node, &mut inner));
        self.calls.pop();
        done?;
        self.bind_outputs(
            node,
            function.output.iter().map(String::as_str),
            inner,
            scope,
        )
    }

    /// Inlines the nodes of a function or branch, one level deeper; beyond the limit it is an error.
    pub(super) fn nested(&mut self, nodes: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.depth >= DEPTH {
            let message = format!("functions and branches are nested more than {DEPTH} deep");
            return Err(invalid(message));
        }
        self.depth += 1;
        let done = nodes(self);
        self.depth -= 1;
        done
    }

    /// The scope of a function in one call.
    fn function_scope(
        &mut self,
        function: &'m FunctionProto,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<Scope<'m, 'm>> {
        let defaults = function.attribute_proto.iter();
        let mut attributes: HashMap<_, _> = defaults
            .map(|attribute| (attribute.name.as_str(), attribute))
            .collect();
        for attribute in &node.attribute {
            if let Some(value) = scope.resolve(attribute)? {
                attributes.insert(&attribute.name, value);
            }
        }
        let opsets = match function.opset_import.as_slice() {
            [] => scope.opsets.clone(),
            imports => Rc::new(Opsets::new(imports)?),
        };
        let input = |(index, name): (usize, &'m String)| {
            (name.as_str(), inputs.get(index).copied().flatten())
        };
        Ok(Scope {
            outer: None,
            values: function.input.iter().enumerate().map(input).collect(),
            renamed: self.renamed(node, function.output.iter().map(String::as_str), scope),
            prefix: format!("{label}/"),
            attributes: Rc::new(attributes),
            opsets,
            declared: HashMap::new(),
        })
    }

    /// The names in the graph of the outputs `inner` of the nodes that replace a node.
    fn renamed(
        &mut self,
        node: &'m NodeProto,
        inner: impl Iterator<Item = &'m str>,
        scope: &mut Scope<'m, '_>,
    ) -> HashMap<&'m str, String> {
        let pairs = inner
            .zip(&node.output)
            .filter(|(_, outer)| !outer.is_empty());
        pairs
            .map(|(inner, outer)| (inner, self.name(outer, scope)))
            .collect()
    }

    /// Binds the outputs of the node to the values `names` of `inner`.
    fn bind_outputs(
        &mut self,
        node: &'m NodeProto,
        names: impl Iterator<Item = &'m str>,
        inner: Scope<'m, '_>,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let mut missing = Vec::new();
        for (name, outer) in names
            .zip(&node.output)
            .filter(|(_, outer)| !outer.is_empty())
        {
            match inner.value(name) {
                Some(value) => drop(scope.values.insert(outer, value)),
                None => missing.push(name),
            }
        }
        match missing.as_slice() {
            [] => Ok(()),
            names => Err(invalid(format!(
                "the body of this node does not define its output '{}'",
                names.join("', '")
            ))),
        }
    }

    /// The branch of an If; `None` when its condition is not constant.
    pub(super) fn branch(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        scope: &Scope<'m, '_>,
    ) -> Result<Option<&'m GraphProto>> {
        let Some(condition) = self.known(inputs.first().copied().flatten()) else {
            return Ok(None);
        };
        let truth = match (condition.dtype(), condition.bytes()) {
            (DataType::Bool, [truth]) => *truth != 0,
            _ => {
                return Err(invalid("the condition of an If")
                    .expected("one truth value")
                    .found(condition.ty()));
            }
        };
        let name = if truth { "then_branch" } else { "else_branch" };
        branch_graph(node, scope, name).map(Some)
    }

    /// Inlines the branch of an If.
    pub(super) fn inline_branch(
        &mut self,
        graph: &'m GraphProto,
        node: &'m NodeProto,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        if !graph.input.is_empty() || graph.output.len() < node.output.len() {
            return Err(invalid("a branch of an If")
                .expected(format_args!("no inputs and {} outputs", node.output.len()))
                .found(format_args!(
                    "{} and {}",
                    graph.input.len(),
                    graph.output.len()
                )));
        }
        let outputs = || graph.output.iter().map(|output| output.name.as_str());
        let renamed = self.renamed(node, outputs(), scope);
        let mut values = Vec::new();
        {
            let mut inner = Scope::of_subgraph(graph, scope, format!("{label}/"));
            inner.renamed = renamed;
            self.initialisers(graph, |_| None, &mut inner)?;
            self.nested(|import| import.nodes(&graph.node, &mut inner))?;
            values.extend(outputs().map(|name| inner.value(name)));
        }
        for (outer, value) in node
            .output
            .iter()
            .zip(values)
            .filter(|(outer, _)| !outer.is_empty())
        {
            let Some(value) = value else {
                return Err(invalid("a branch of an If does not define all its outputs"));
            };
            scope.values.insert(outer, value);
        }
        Ok(())
    }
}

/// A branch of an If.
pub(super) fn branch_graph<'m>(
    node: &'m NodeProto,
    scope: &Scope<'m, '_>,
    name: &str,
) -> Result<&'m GraphProto> {
    let mut attributes = node.attribute.iter();
    let attribute = attributes.find(|attribute| attribute.name == name);
    let attribute = attribute
        .map(|attribute| scope.resolve(attribute))
        .transpose()?
        .flatten();
    let graph = attribute.and_then(|attribute| attribute.g.as_deref());
    graph.ok_or_else(|| invalid(format!("attribute '{name}' is missing")))
}
