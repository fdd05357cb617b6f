//! Constant evaluation at import: elements and types of values on which a branch or a trip count
//! depends.

use super::Import;
use crate::draft::{Draft, DraftNode};
use crate::resolve;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use tenon_base::{Control, Result};
use tenon_graph::{Graph, Node, TensorType, ValueId};
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

/// The elements or the type of a value.
#[derive(Clone)]
pub(super) enum EvaluatedValue {
    Elements(Tensor),
    Type(TensorType),
}

/// All evaluated values, so that no node is evaluated twice.
#[derive(Default)]
pub(super) struct EvaluatedValues {
    pub evaluator: Option<Evaluator>,
    found: HashMap<ValueId, EvaluatedValue>,
}

impl Import<'_> {
    /// The elements of a value, when it is a constant or computed from constants alone.
    pub(super) fn known(&mut self, value: Option<ValueId>) -> Option<Tensor> {
        if let Some(constant) = self.draft.constant(value) {
            return Some(constant.clone());
        }
        match self.find(value?)? {
            EvaluatedValue::Elements(tensor) => Some(tensor),
            EvaluatedValue::Type(_) => None,
        }
    }

    /// The type of a value, when the inputs determine it.
    pub(super) fn known_type(&mut self, value: ValueId) -> Option<TensorType> {
        if let Some(ty) = &self.draft.graph.value(value).ty {
            return Some(ty.clone());
        }
        match self.find(value)? {
            EvaluatedValue::Elements(tensor) => Some(tensor.ty().clone()),
            EvaluatedValue::Type(ty) => Some(ty),
        }
    }

    fn find(&mut self, value: ValueId) -> Option<EvaluatedValue> {
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
    fn before(
        draft: &Draft,
        found: &HashMap<ValueId, EvaluatedValue>,
        value: ValueId,
    ) -> Option<Self> {
        let nodes = nodes_before(draft, found, value)?;
        let mut evaluation = Self {
            graph: Graph::new("known"),
            values: HashMap::new(),
        };
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

    fn add(&mut self, draft: &Draft, found: &HashMap<ValueId, EvaluatedValue>, mut node: Node) {
        for operand in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *operand = self.local_value(draft, found, *operand);
        }
        self.graph.nodes.push(node);
    }

    /// The value of this graph; one without a producer becomes a constant or an input.
    fn local_value(
        &mut self,
        draft: &Draft,
        found: &HashMap<ValueId, EvaluatedValue>,
        id: ValueId,
    ) -> ValueId {
        if let Some(local) = self.values.get(&id) {
            return *local;
        }
        let value = draft.graph.value(id);
        let constant = value.constant.as_ref();
        let local = match (constant, found.get(&id), is_input(draft, id)) {
            (Some(tensor), ..) | (None, Some(EvaluatedValue::Elements(tensor)), _) => {
                self.graph.add_constant(value.name.clone(), tensor.clone())
            }
            (None, Some(EvaluatedValue::Type(ty)), _) => self.input(&value.name, Some(ty.clone())),
            (None, None, true) => self.input(&value.name, value.ty.clone()),
            (None, None, false) => self.graph.add_value(value.name.clone(), None),
        };
        self.values.insert(id, local);
        local
    }

    fn input(&mut self, name: &str, ty: Option<TensorType>) -> ValueId {
        let local = self.graph.add_value(name.to_owned(), ty);
        self.graph.inputs.push(local);
        local
    }

    /// Records the evaluated values.
    fn record(self, found: &mut HashMap<ValueId, EvaluatedValue>) {
        for (id, local) in self.values {
            let value = self.graph.value(local);
            let known = match (&value.constant, &value.ty) {
                (Some(tensor), _) => EvaluatedValue::Elements(tensor.clone()),
                (None, Some(ty)) => EvaluatedValue::Type(ty.clone()),
                (None, None) => continue,
            };
            found.insert(id, known);
        }
    }
}

fn is_input(draft: &Draft, id: ValueId) -> bool {
    draft.graph.inputs.contains(&id)
}

/// The nodes on which `value` depends and that are not evaluated yet, in topological order.
fn nodes_before(
    draft: &Draft,
    found: &HashMap<ValueId, EvaluatedValue>,
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
