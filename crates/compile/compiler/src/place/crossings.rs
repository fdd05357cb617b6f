//! Values that pass from one backend to another.

use super::{BackendSelector, Placement, Target};
use std::collections::{BTreeMap, BTreeSet};
use tenon_backend::{BackendId, CrossingKind, HandleFactory};
use tenon_graph::{Graph, TensorType, ValueId};

/// A value that one backend produces and another consumes; one for each consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The value's name.
    pub value: String,
    /// The backends that produced its bytes; several where data movement joined them.
    pub producers: Vec<BackendId>,
    /// The backend that reads it.
    pub consumer: BackendId,
    /// How the consumer accesses it.
    pub kind: CrossingKind,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A backend with nodes in the graph.
struct PlacedBackend {
    id: BackendId,
    factories: Vec<HandleFactory>,
}

/// The producers of a value, and its memory.
#[derive(Clone, Copy, Default)]
struct Origin {
    /// The backends that produced its bytes, one bit each; backends from the 64th on share the last.
    producers: u64,
    /// The backend whose memory holds it; `None` for plain memory.
    holder: Option<usize>,
}

/// Finds the values that one backend produces and another consumes. Views and data movement keep the
/// producers of their inputs; data movement writes plain memory.
pub(super) fn find(graph: &Graph, placement: &mut Placement, selector: &BackendSelector<'_>) {
    let mut backends: Vec<PlacedBackend> = Vec::new();
    let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
    let mut origins = vec![Origin::default(); graph.values.len()];
    let mut seen: BTreeSet<(ValueId, usize)> = BTreeSet::new();
    let mut crossings = Vec::new();
    for (node, placed) in graph.nodes.iter().zip(&placement.nodes) {
        let inputs = || node.inputs.iter().flatten().copied();
        let joined = || inputs().fold(0, |all, input| all | origins[input.index()].producers);
        let origin = match &placed.target {
            Target::View => Origin {
                producers: joined(),
                holder: inputs()
                    .next()
                    .and_then(|input| origins[input.index()].holder),
            },
            Target::Dma => Origin {
                producers: joined(),
                holder: None,
            },
            Target::Backend(id) => {
                let index = *indices.entry(id.as_str()).or_insert_with(|| {
                    let factories = selector.find(id).map(|backend| backend.handle_factories());
                    backends.push(PlacedBackend {
                        id: id.clone(),
                        factories: factories.unwrap_or_default(),
                    });
                    backends.len() - 1
                });
                for input in inputs() {
                    let origin = origins[input.index()];
                    if origin.producers & !bit(index) != 0 && seen.insert((input, index)) {
                        crossings.push(crossing(graph, input, origin, index, &backends));
                    }
                }
                Origin {
                    producers: bit(index),
                    holder: Some(index),
                }
            }
        };
        for output in node.outputs.iter().flatten() {
            origins[output.index()] = origin;
        }
    }
    placement.crossings = crossings;
}

fn bit(index: usize) -> u64 {
    1 << index.min(63)
}

fn crossing(
    graph: &Graph,
    id: ValueId,
    origin: Origin,
    consumer: usize,
    backends: &[PlacedBackend],
) -> Crossing {
    let value = graph.value(id);
    let holder = origin
        .holder
        .map_or(&[][..], |holder| &backends[holder].factories);
    let producers = backends
        .iter()
        .enumerate()
        .filter(|&(index, _)| index != consumer && origin.producers & bit(index) != 0);
    Crossing {
        value: value.name.clone(),
        producers: producers.map(|(_, backend)| backend.id.clone()).collect(),
        consumer: backends[consumer].id.clone(),
        kind: CrossingKind::between(holder, &backends[consumer].factories),
        bytes: value.ty.as_ref().map_or(0, TensorType::bytes) as u64,
    }
}
