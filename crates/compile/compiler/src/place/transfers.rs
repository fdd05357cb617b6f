//! Transfer costs: a subgraph that receives its values from other memory and returns its results there stays
//! in that memory, on a backend that works in it, unless it computes enough to be worth the copies.

use super::selector::Operands;
use super::{BackendSelector, NodePlacement, NodeRefusal, QueryReason, Target, groups, owners};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, CrossingKind, HandleFactory, Reason};
use tenon_graph::{Cost, Graph, NodeId, TensorType, ValueId};

/// Arithmetic operations for each copied byte from which a subgraph is worth the copies: those that a CPU computes
/// (about 100 GFLOP/s) in the time that a byte takes between two memories (about 25 GB/s).
const OPERATIONS_PER_BYTE: u64 = 4;

/// The number of passes over the subgraphs: one that moves may join others to a larger one, which moves then.
const PASSES: usize = 4;

/// The backends of the graph by owner number ([`owners`]); absent for plain memory, as of data movement.
type Owners = BTreeMap<u32, PlacedBackend>;

#[derive(Clone)]
struct PlacedBackend {
    id: BackendId,
    factories: Vec<HandleFactory>,
}

/// Moves subgraphs to a backend that works in the memory around them. Nodes with a hint, and those that compute
/// in a wider type, remain.
pub(super) fn keep_in_memory(
    graph: &Graph,
    placed: &mut BTreeMap<String, NodePlacement>,
    selector: &BackendSelector<'_>,
) {
    // Without dedicated memory nothing is copied.
    let has_memory = |backend: &Arc<dyn Backend>| !backend.handle_factories().is_empty();
    if !selector.all().into_iter().any(has_memory) {
        return;
    }
    for _ in 0..PASSES {
        if !Transfers::new(graph, placed, selector).move_subgraphs(placed) {
            return;
        }
    }
}

struct Transfers<'a> {
    graph: &'a Graph,
    selector: &'a BackendSelector<'a>,
    /// The owner of each node, and the backends of owners.
    owners: Vec<u32>,
    backends: Owners,
    producers: Vec<Option<NodeId>>,
    consumers: Vec<Vec<NodeId>>,
}

/// The values of a subgraph that are copied, and the owners of the other nodes that produce or consume its values.
#[derive(Default)]
struct Border {
    copied_in: BTreeSet<ValueId>,
    copied_out: BTreeSet<ValueId>,
    neighbours: BTreeSet<u32>,
}

impl<'a> Transfers<'a> {
    fn new(
        graph: &'a Graph,
        placed: &BTreeMap<String, NodePlacement>,
        selector: &'a BackendSelector<'a>,
    ) -> Self {
        let targets: Vec<&Target> = graph
            .nodes
            .iter()
            .map(|node| {
                placed
                    .get(&node.name)
                    .map_or(&Target::View, |it| &it.target)
            })
            .collect();
        let owners = owners(graph, &targets);
        let mut backends = Owners::new();
        for (&owner, target) in owners.iter().zip(&targets) {
            if let Target::Backend(id) = target {
                backends.entry(owner).or_insert_with(|| PlacedBackend {
                    id: id.clone(),
                    factories: selector
                        .find(id)
                        .map_or_else(Vec::new, |backend| backend.handle_factories()),
                });
            }
        }
        let mut consumers = vec![Vec::new(); graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                consumers[input.index()].push(NodeId(index as u32));
            }
        }
        Self {
            graph,
            selector,
            owners,
            backends,
            producers: graph.producers(),
            consumers,
        }
    }

    /// Whether a subgraph moved.
    fn move_subgraphs(&mut self, placed: &mut BTreeMap<String, NodePlacement>) -> bool {
        let mut moved = false;
        for group in groups(self.graph, &self.owners) {
            let Some(from) = group.first().map(|node| self.owners[node.index()]) else {
                continue;
            };
            let placement = |node: &NodeId| placed.get(&self.graph.node(*node).name);
            let is_fixed = |node: &NodePlacement| node.hint.is_some() || node.converted.is_some();
            if from == 0 || group.iter().filter_map(placement).any(is_fixed) {
                continue;
            }
            let border = self.border(&group, from);
            if border.copied_in.is_empty() || border.copied_out.is_empty() {
                continue;
            }
            let copied = border.copied_in.iter().chain(&border.copied_out);
            let bytes = copied.map(|&value| self.bytes(value)).sum::<u64>();
            if self.operations(&group) >= bytes.saturating_mul(OPERATIONS_PER_BYTE) {
                continue;
            }
            if let Some(backend) = self.backend_around(&group, from, &border) {
                self.move_to(&group, backend, bytes, placed);
                moved = true;
            }
        }
        moved
    }

    fn border(&self, group: &[NodeId], from: u32) -> Border {
        let mut border = Border::default();
        for &node in group {
            let node = self.graph.node(node);
            for &input in node.inputs.iter().flatten() {
                let producer = self.producers[input.index()];
                let Some(producer) = producer.filter(|it| group.binary_search(it).is_err()) else {
                    continue;
                };
                let owner = self.owners[producer.index()];
                border.neighbours.insert(owner);
                if is_copied(self.factories(owner), self.factories(from)) {
                    border.copied_in.insert(input);
                }
            }
            for &output in node.outputs.iter().flatten() {
                for consumer in &self.consumers[output.index()] {
                    if group.binary_search(consumer).is_ok() {
                        continue;
                    }
                    let owner = self.owners[consumer.index()];
                    border.neighbours.insert(owner);
                    if is_copied(self.factories(from), self.factories(owner)) {
                        border.copied_out.insert(output);
                    }
                }
            }
        }
        border
    }

    /// The first other backend that supports all of a subgraph, and that exchanges values with the nodes around it
    /// without a copy.
    fn backend_around(&self, group: &[NodeId], from: u32, border: &Border) -> Option<BackendId> {
        let from = &self.backends.get(&from)?.id;
        let others = self
            .selector
            .all()
            .into_iter()
            .filter(|backend| backend.id() != *from);
        let mut reachable = others.filter(|backend| {
            let own = backend.handle_factories();
            border.neighbours.iter().all(|&owner| {
                let is_same = |placed: &PlacedBackend| placed.id == backend.id();
                let theirs = self.factories(owner);
                self.backends.get(&owner).is_some_and(is_same)
                    || !is_copied(theirs, &own) && !is_copied(&own, theirs)
            })
        });
        let supports = |node: &NodeId, backend: &dyn Backend| {
            let node = self.graph.node(*node);
            super::is_view(node.op.class)
                || Operands::of(self.graph, node).query(backend, node).is_ok()
        };
        let found = reachable.find(|backend| group.iter().all(|node| supports(node, &***backend)));
        found.map(|backend| backend.id())
    }

    fn factories(&self, owner: u32) -> &[HandleFactory] {
        let backend = self.backends.get(&owner);
        backend.map_or(&[], |backend| &backend.factories)
    }

    fn bytes(&self, value: ValueId) -> u64 {
        let ty = self.graph.value(value).ty.as_ref();
        ty.map_or(0, TensorType::bytes) as u64
    }

    fn operations(&self, group: &[NodeId]) -> u64 {
        let costs = group.iter();
        let costs = costs.map(|&node| Cost::of(self.graph, self.graph.node(node)).flops);
        costs.fold(0, u64::saturating_add)
    }

    fn move_to(
        &mut self,
        group: &[NodeId],
        backend: BackendId,
        bytes: u64,
        placed: &mut BTreeMap<String, NodePlacement>,
    ) {
        let known = self
            .backends
            .iter()
            .find(|(_, placed)| placed.id == backend);
        let to = match known {
            Some((&owner, _)) => owner,
            None => {
                let owner = self.backends.keys().max().map_or(1, |last| last + 1);
                let found = self.selector.find(&backend);
                let placed = PlacedBackend {
                    id: backend.clone(),
                    factories: found.map_or_else(Vec::new, |found| found.handle_factories()),
                };
                self.backends.insert(owner, placed);
                owner
            }
        };
        for &id in group {
            self.owners[id.index()] = to;
            let Some(placement) = placed.get_mut(&self.graph.node(id).name) else {
                continue;
            };
            let Target::Backend(from) = &placement.target else {
                continue;
            };
            let text = format!(
                "the values around its subgraph are in memory of {backend}: copying {bytes} bytes would take longer \
                 than the subgraph there"
            );
            placement.refusals.push(NodeRefusal {
                backend: from.clone(),
                refusal: Reason::Other { text }.into(),
                query: QueryReason::Transfer,
            });
            placement.target = Target::Backend(backend.clone());
        }
    }
}

/// Whether values pass between these memories by a copy.
fn is_copied(from: &[HandleFactory], to: &[HandleFactory]) -> bool {
    CrossingKind::between(from, to) == CrossingKind::Copy
}
