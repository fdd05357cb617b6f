//! Values that pass from one backend to another.

use super::{Placement, Target};
use std::collections::{BTreeMap, BTreeSet};
use tenon_graph::{Graph, TensorType, ValueId};

/// Counts values that one backend makes and another uses, once a user, with their bytes. Views and
/// data movement pass on who made what they show or move.
pub(super) fn count(graph: &Graph, placement: &mut Placement) {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    // For each value the backends that made its bytes, a bit each; more than 64 share the last.
    let mut makers: Vec<u64> = vec![0; graph.values.len()];
    let mut crossed: BTreeSet<(ValueId, u32)> = BTreeSet::new();
    for (node, placed) in graph.nodes.iter().zip(&placement.nodes) {
        let inputs = || node.inputs.iter().flatten();
        let made = match &placed.target {
            Target::View | Target::Dma => {
                inputs().fold(0, |all, input| all | makers[input.index()])
            }
            Target::Backend(id) => {
                let next = (numbers.len() as u32).min(63);
                let number = *numbers.entry(id.as_str()).or_insert(next);
                let own = 1 << number;
                for input in inputs().filter(|input| makers[input.index()] & !own != 0) {
                    crossed.insert((*input, number));
                }
                own
            }
        };
        for output in node.outputs.iter().flatten() {
            makers[output.index()] = made;
        }
    }
    let bytes = |id: ValueId| graph.value(id).ty.as_ref().map_or(0, TensorType::bytes) as u64;
    placement.crossings = crossed.len() as u64;
    placement.crossing_bytes = crossed.iter().map(|(id, _)| bytes(*id)).sum();
}
