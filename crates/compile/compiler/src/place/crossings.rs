//! Values that pass from one backend to another.

use super::{BackendSelector, Placement, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tenon_backend::{BackendId, EdgeStrategy, HandleFactory, edge_strategy};
use tenon_graph::{Graph, TensorType, ValueId};

/// A value that one backend makes and another uses, once a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The value's name.
    pub value: String,
    /// Who made its bytes; several where data movement put them together.
    pub producers: Vec<BackendId>,
    /// Who uses it.
    pub consumer: BackendId,
    /// How it passes.
    pub kind: CrossingKind,
    /// Its bytes.
    pub bytes: u64,
}

/// How a value passes from where it is made to who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrossingKind {
    /// The user reads it where it lies.
    Shared,
    /// The user's tensor is made of the maker's memory.
    Import,
    /// The CPU copies it, or both sides do by way of plain memory.
    Copy,
}

impl CrossingKind {
    fn between(maker: &[HandleFactory], user: &[HandleFactory]) -> Self {
        match edge_strategy(maker, user) {
            Some(EdgeStrategy::Direct) => CrossingKind::Shared,
            // Plain memory is not made of anything: exported tensors are read where they lie.
            Some(EdgeStrategy::Export) if user.is_empty() => CrossingKind::Shared,
            Some(EdgeStrategy::Export) => CrossingKind::Import,
            Some(EdgeStrategy::Copy) | None => CrossingKind::Copy,
        }
    }
}

impl fmt::Display for CrossingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CrossingKind::Shared => "shared",
            CrossingKind::Import => "import",
            CrossingKind::Copy => "copy",
        })
    }
}

/// A backend that has nodes.
struct Side {
    id: BackendId,
    factories: Vec<HandleFactory>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Default)]
struct Origin {
    /// The backends that made its bytes, a bit each; more than 64 share the last.
    makers: u64,
    /// The one in whose memory it lies; `None` for plain memory.
    holder: Option<usize>,
}

/// Finds the values that one backend makes and another uses, once a user. Views and data movement
/// pass on who made what they show or move; what is moved lies in plain memory.
pub(super) fn find(graph: &Graph, placement: &mut Placement, selector: &BackendSelector<'_>) {
    let mut sides: Vec<Side> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut origins = vec![Origin::default(); graph.values.len()];
    let mut seen: BTreeSet<(ValueId, usize)> = BTreeSet::new();
    let mut crossings = Vec::new();
    for (node, placed) in graph.nodes.iter().zip(&placement.nodes) {
        let inputs = || node.inputs.iter().flatten().copied();
        let joined = || inputs().fold(0, |all, input| all | origins[input.index()].makers);
        let made = match &placed.target {
            Target::View => Origin {
                makers: joined(),
                holder: inputs()
                    .next()
                    .and_then(|input| origins[input.index()].holder),
            },
            Target::Dma => Origin {
                makers: joined(),
                holder: None,
            },
            Target::Backend(id) => {
                let own = *numbers.entry(id.as_str()).or_insert_with(|| {
                    let factories = selector.find(id).map(|backend| backend.handle_factories());
                    sides.push(Side {
                        id: id.clone(),
                        factories: factories.unwrap_or_default(),
                    });
                    sides.len() - 1
                });
                for input in inputs() {
                    let origin = origins[input.index()];
                    if origin.makers & !bit(own) != 0 && seen.insert((input, own)) {
                        crossings.push(crossing(graph, input, origin, own, &sides));
                    }
                }
                Origin {
                    makers: bit(own),
                    holder: Some(own),
                }
            }
        };
        for output in node.outputs.iter().flatten() {
            origins[output.index()] = made;
        }
    }
    placement.crossings = crossings;
}

fn bit(number: usize) -> u64 {
    1 << number.min(63)
}

fn crossing(graph: &Graph, id: ValueId, origin: Origin, user: usize, sides: &[Side]) -> Crossing {
    let value = graph.value(id);
    let holder = origin
        .holder
        .map_or(&[][..], |holder| &sides[holder].factories);
    let producers = sides
        .iter()
        .enumerate()
        .filter(|&(number, _)| number != user && origin.makers & bit(number) != 0);
    Crossing {
        value: value.name.clone(),
        producers: producers.map(|(_, side)| side.id.clone()).collect(),
        consumer: sides[user].id.clone(),
        kind: CrossingKind::between(holder, &sides[user].factories),
        bytes: value.ty.as_ref().map_or(0, TensorType::bytes) as u64,
    }
}
