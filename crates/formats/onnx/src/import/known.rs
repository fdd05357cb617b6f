//! What is known of values when importing: nodes between constants, and types, are computed as far as
//! a branch or a number of steps depends on them.

use super::Import;
use crate::draft::{Draft, DraftNode};
use crate::resolve;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use tenon_base::{Control, Result};
use tenon_graph::{Graph, Node, TensorType, ValueId};
use tenon_tensor::Tensor;

/// Gives the values of a graph their types, and those that follow from constants their elements.
/// Importing knows operators but cannot compute them: whoever can lends this.
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

/// What was found out about a value.
#[derive(Clone)]
pub(super) enum Found {
    Elements(Tensor),
    Type(TensorType),
}

/// All that was found out, so that no node is computed twice.
#[derive(Default)]
pub(super) struct Findings {
    pub evaluator: Option<Evaluator>,
    found: HashMap<ValueId, Found>,
}

impl Import<'_> {
    /// The elements of a value, when it is a constant or computed from constants alone.
    pub(super) fn known(&mut self, value: Option<ValueId>) -> Option<Tensor> {
        if let Some(constant) = self.draft.constant(value) {
            return Some(constant.clone());
        }
        match self.find(value?)? {
            Found::Elements(tensor) => Some(tensor),
            Found::Type(_) => None,
        }
    }

    /// The type of a value, when it follows from the inputs'.
    pub(super) fn known_type(&mut self, value: ValueId) -> Option<TensorType> {
        if let Some(ty) = &self.draft.graph.value(value).ty {
            return Some(ty.clone());
        }
        match self.find(value)? {
            Found::Elements(tensor) => Some(tensor.ty().clone()),
            Found::Type(ty) => Some(ty),
        }
    }

    fn find(&mut self, value: ValueId) -> Option<Found> {
        if let Some(found) = self.findings.found.get(&value) {
            return Some(found.clone());
        }
        let Evaluator(evaluate) = self.findings.evaluator.clone()?;
        let found = &mut self.findings.found;
        let mut part = Part::before(&self.draft, found, value)?;
        // What does not work, or comes too late, is told where the value is needed.
        evaluate(&mut part.graph, &self.control.without_listener()).ok()?;
        part.tell(found);
        found.get(&value).cloned()
    }
}

/// The nodes that a value depends on, as a graph of its own.
struct Part {
    graph: Graph,
    /// The values of the draft there.
    places: HashMap<ValueId, ValueId>,
}

impl Part {
    /// What makes `value` out of constants, inputs and what was found out before; `None` when a node
    /// is not known.
    fn before(draft: &Draft, found: &HashMap<ValueId, Found>, value: ValueId) -> Option<Self> {
        let nodes = nodes_before(draft, found, value)?;
        let mut part = Self {
            graph: Graph::new("known"),
            places: HashMap::new(),
        };
        let inputs = nodes.iter().flat_map(|node| node.inputs.iter().flatten());
        let used: HashSet<ValueId> = inputs.copied().chain([value]).collect();
        for node in nodes {
            let node = resolve::known(draft, node, &used)?;
            part.add(draft, found, node);
        }
        let output = part.place(draft, found, value);
        part.graph.outputs.push(output);
        Some(part)
    }

    fn add(&mut self, draft: &Draft, found: &HashMap<ValueId, Found>, mut node: Node) {
        for operand in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *operand = self.place(draft, found, *operand);
        }
        self.graph.nodes.push(node);
    }

    /// The value's place here; one that no node here makes is a constant or an input.
    fn place(&mut self, draft: &Draft, found: &HashMap<ValueId, Found>, id: ValueId) -> ValueId {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let value = draft.graph.value(id);
        let constant = value.constant.as_ref();
        let place = match (constant, found.get(&id), is_input(draft, id)) {
            (Some(tensor), ..) | (None, Some(Found::Elements(tensor)), _) => {
                self.graph.add_constant(value.name.clone(), tensor.clone())
            }
            (None, Some(Found::Type(ty)), _) => self.input(&value.name, Some(ty.clone())),
            (None, None, true) => self.input(&value.name, value.ty.clone()),
            (None, None, false) => self.graph.add_value(value.name.clone(), None),
        };
        self.places.insert(id, place);
        place
    }

    fn input(&mut self, name: &str, ty: Option<TensorType>) -> ValueId {
        let place = self.graph.add_value(name.to_owned(), ty);
        self.graph.inputs.push(place);
        place
    }

    /// Keeps what is known now.
    fn tell(self, found: &mut HashMap<ValueId, Found>) {
        for (id, place) in self.places {
            let value = self.graph.value(place);
            let told = match (&value.constant, &value.ty) {
                (Some(tensor), _) => Found::Elements(tensor.clone()),
                (None, Some(ty)) => Found::Type(ty.clone()),
                (None, None) => continue,
            };
            found.insert(id, told);
        }
    }
}

fn is_input(draft: &Draft, id: ValueId) -> bool {
    draft.graph.inputs.contains(&id)
}

/// The nodes that `value` depends on and about which nothing was found out yet, in order.
fn nodes_before(
    draft: &Draft,
    found: &HashMap<ValueId, Found>,
    value: ValueId,
) -> Option<Vec<DraftNode>> {
    let is_known = |id: ValueId| {
        draft.constant(Some(id)).is_some() || found.contains_key(&id) || is_input(draft, id)
    };
    let mut wanted = HashSet::from([value]);
    let mut nodes = Vec::new();
    // Makers stand before users.
    for node in draft.nodes.iter().rev() {
        if wanted.is_empty() {
            break;
        }
        let mut makes = false;
        for output in node.outputs.iter().flatten() {
            makes |= wanted.remove(output);
        }
        if makes {
            let inputs = node.inputs.iter().flatten().copied();
            wanted.extend(inputs.filter(|&input| !is_known(input)));
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    wanted.is_empty().then_some(nodes)
}
