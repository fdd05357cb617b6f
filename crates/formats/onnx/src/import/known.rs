//! Constant evaluation at import: elements and types of values on which a branch or a trip count
//! depends.

use super::Import;
use crate::draft::{Draft, DraftNode};
use crate::resolve;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use tenon_base::{Control, Result};
use tenon_graph::{Graph, List, Node, TensorType, Value, ValueId};
use tenon_tensor::Tensor;

/// A function that infers the types of a graph's values and folds constants. The importer has no kernels:
/// the caller provides it.
#[derive(Clone)]
pub struct Evaluator(Arc<Evaluate>);

type Evaluate = dyn Fn(&mut Graph, &Control) -> Result<()> + Send + Sync;

impl Evaluator {
    /// An evaluator that calls `evaluate`.
    pub fn new<F>(evaluate: F) -> Self
    where
        F: Fn(&mut Graph, &Control) -> Result<()> + Send + Sync + 'static,
    {
        Self(Arc::new(evaluate))
    }
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Evaluator")
    }
}

/// All evaluated values, so that no node is evaluated twice.
#[derive(Default)]
pub(super) struct EvaluatedValues {
    pub evaluator: Option<Evaluator>,
    found: HashMap<ValueId, Value>,
}

impl Import<'_> {
    /// The elements of a value, when it is a constant or computed from constants alone.
    pub(super) fn known(&mut self, value: Option<ValueId>) -> Option<Tensor> {
        if let Some(constant) = self.draft.constant(value) {
            return Some(constant.clone());
        }
        self.find(value?)?.constant
    }

    /// The type of a value, when the inputs determine it and no extent is symbolic.
    pub(super) fn known_type(&mut self, value: ValueId) -> Option<TensorType> {
        let known = self.draft.graph.value(value);
        let known = match known.ty {
            Some(_) => known.clone(),
            None => self.find(value)?,
        };
        let mut extents = known.extents.iter().flatten();
        let fixed = extents.all(|extent| extent.constant().is_some());
        known.ty.filter(|_| fixed)
    }

    fn find(&mut self, value: ValueId) -> Option<Value> {
        if let Some(found) = self.evaluated.found.get(&value) {
            return Some(found.clone());
        }
        let Evaluator(evaluate) = self.evaluated.evaluator.clone()?;
        let found = &mut self.evaluated.found;
        let mut evaluation = EvaluationGraph::before(&self.draft, found, value)?;
        // A failure is reported at the node that requires the value.
        evaluate(&mut evaluation.graph, &self.control.without_listener()).ok()?;
        evaluation.record(found);
        found.get(&value).cloned()
    }
}

/// The nodes on which a value depends, as a separate graph.
struct EvaluationGraph {
    graph: Graph,
    /// The values of this graph for values of the draft.
    values: HashMap<ValueId, ValueId>,
}

impl EvaluationGraph {
    /// The nodes that compute `value` from constants, inputs and known values; `None` when one is not
    /// supported.
    fn before(draft: &Draft, found: &HashMap<ValueId, Value>, value: ValueId) -> Option<Self> {
        let nodes = nodes_before(draft, found, value)?;
        let mut evaluation = Self {
            graph: Graph::new("known"),
            values: HashMap::new(),
        };
        evaluation.graph.symbols = draft.graph.symbols.clone();
        evaluation.graph.example_sizes = draft.graph.example_sizes.clone();
        let inputs = nodes.iter().flat_map(|node| node.inputs.iter().flatten());
        let used: HashSet<ValueId> = inputs.copied().chain([value]).collect();
        for node in nodes {
            let node = resolve::known(draft, node, &used)?;
            evaluation.add(draft, found, node);
        }
        let output = evaluation.local_value(draft, found, value);
        evaluation.graph.outputs.push(output);
        Some(evaluation)
    }

    fn add(&mut self, draft: &Draft, found: &HashMap<ValueId, Value>, mut node: Node) {
        for operand in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *operand = self.local_value(draft, found, *operand);
        }
        self.graph.nodes.push(node);
    }

    /// The value of this graph; one without a producer becomes a constant or an input.
    fn local_value(
        &mut self,
        draft: &Draft,
        found: &HashMap<ValueId, Value>,
        id: ValueId,
    ) -> ValueId {
        if let Some(local) = self.values.get(&id) {
            return *local;
        }
        let value = draft.graph.value(id);
        let known = found.get(&id).unwrap_or(value);
        let local = self.graph.add_value(value.name.clone(), known.ty.clone());
        let own = self.graph.value_mut(local);
        own.constant.clone_from(&known.constant);
        own.extents.clone_from(&known.extents);
        own.sizes.clone_from(&known.sizes);
        // The tensors of a list are values of the draft.
        let list = value.list.as_ref().map(|list| list.ty.clone());
        own.list = list.map(List::of_type);
        let computed = own.known().is_some() || (!found.contains_key(&id) && !is_input(draft, id));
        if !computed {
            self.graph.inputs.push(local);
        }
        self.values.insert(id, local);
        local
    }

    /// Records the evaluated values.
    fn record(self, found: &mut HashMap<ValueId, Value>) {
        for (id, local) in self.values {
            let value = self.graph.value(local);
            let constant = value.constant.as_ref().map(Tensor::ty);
            if let Some(ty) = value.ty.as_ref().or(constant) {
                let ty = Some(ty.clone());
                let value = value.clone();
                found.insert(id, Value { ty, ..value });
            }
        }
    }
}

fn is_input(draft: &Draft, id: ValueId) -> bool {
    draft.graph.inputs.contains(&id)
}

/// The nodes on which `value` depends and that are not evaluated yet, in topological order.
fn nodes_before(
    draft: &Draft,
    found: &HashMap<ValueId, Value>,
    value: ValueId,
) -> Option<Vec<DraftNode>> {
    let is_known = |id: ValueId| {
        draft.constant(Some(id)).is_some() || found.contains_key(&id) || is_input(draft, id)
    };
    let mut missing = HashSet::from([value]);
    let mut nodes = Vec::new();
    // In topological order, reversed.
    for node in draft.nodes.iter().rev() {
        if missing.is_empty() {
            break;
        }
        let mut makes = false;
        for output in node.outputs.iter().flatten() {
            makes |= missing.remove(output);
        }
        if makes {
            let inputs = node.inputs.iter().flatten().copied();
            missing.extend(inputs.filter(|&input| !is_known(input)));
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    missing.is_empty().then_some(nodes)
}
