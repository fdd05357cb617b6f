//! Functions and constant branches, written out where they are used.

use super::{Import, invalid};
use crate::proto::{FunctionProto, GraphProto, NodeProto};
use crate::scope::{Opsets, Scope};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use tenon_base::Result;
use tenon_graph::ValueId;
use tenon_tensor::DataType;

/// Functions and branches inside each other; exporters nest by the model's modules, ten deep or so.
const DEPTH: usize = 48;

impl<'m> Import<'m> {
    /// Writes out a call of one of the model's functions.
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
        let done = self.deeper(|import| import.nodes(&function.node, &mut inner));
        self.calls.pop();
        done?;
        self.hand_on(
            node,
            function.output.iter().map(String::as_str),
            inner,
            scope,
        )
    }

    /// Writes out what stands inside a function or branch; an error when that is too deep.
    pub(super) fn deeper(&mut self, nodes: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.depth >= DEPTH {
            let message = format!("functions and branches are nested more than {DEPTH} deep");
            return Err(invalid(message));
        }
        self.depth += 1;
        let done = nodes(self);
        self.depth -= 1;
        done
    }

    /// The scope of a function's nodes in one call.
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
            known: HashMap::new(),
        })
    }

    /// The names in the graph of the outputs `inner` of what stands in a node's place.
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

    /// Makes the values `names` of `inner` those of the node's outputs.
    fn hand_on(
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
                "what stands in the place of this node does not make its output '{}'",
                names.join("', '")
            ))),
        }
    }

    /// The branch that an If takes; `None` when its condition is not known.
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
        let attribute = node
            .attribute
            .iter()
            .find(|attribute| attribute.name == name);
        let attribute = attribute
            .map(|attribute| scope.resolve(attribute))
            .transpose()?
            .flatten();
        match attribute.and_then(|attribute| attribute.g.as_deref()) {
            Some(graph) => Ok(Some(graph)),
            None => Err(invalid(format!("attribute '{name}' is missing"))),
        }
    }

    /// Writes out the branch of an If.
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
            self.initialisers(graph, &BTreeMap::new(), &mut inner)?;
            self.deeper(|import| import.nodes(&graph.node, &mut inner))?;
            values.extend(outputs().map(|name| inner.value(name)));
        }
        for (outer, value) in node
            .output
            .iter()
            .zip(values)
            .filter(|(outer, _)| !outer.is_empty())
        {
            let Some(value) = value else {
                return Err(invalid("a branch of an If does not make all its outputs"));
            };
            scope.values.insert(outer, value);
        }
        Ok(())
    }
}
