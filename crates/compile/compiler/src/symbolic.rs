//! Graphs with sizes that are known only when the model runs. Passes work on the types for example sizes; what they
//! made is checked for other sizes afterwards.

use crate::infer::infer_node;
use tenon_base::Result;
use tenon_graph::{Graph, ValueId, check_sizes, infer_symbolic, shape_for};
use tenon_tensor::size::Symbol;

/// Whether an optimised graph computes outputs of the same shapes as before, for other sizes than the examples:
/// false if a pass used an example size as if it were fixed. Sizes that the graph before refuses do not count.
pub(crate) fn holds_for_all_sizes(optimised: &Graph, before: &Graph) -> bool {
    let sizes = other_sizes(before);
    let mut sizes = sizes
        .iter()
        .filter(|sizes| check_sizes(before, sizes).is_ok());
    sizes.all(|sizes| {
        let shapes = |graph: &Graph| -> Option<Vec<Vec<usize>>> {
            let extents = graph.outputs.iter().map(|&id| {
                let value = graph.value(id);
                match (&value.extents, &value.ty) {
                    (Some(extents), _) => shape_for(extents, sizes).ok(),
                    (None, Some(ty)) => Some(ty.shape().to_vec()),
                    (None, None) => None,
                }
            });
            extents.collect()
        };
        check_sizes(optimised, sizes).is_ok() && shapes(optimised) == shapes(before)
    })
}

/// Sizes other than the examples, each in its range: larger and smaller ones of the same kind, sizes beyond limits such
/// as the largest number of results, and the smallest.
fn other_sizes(graph: &Graph) -> Vec<Vec<i64>> {
    let symbols = || graph.symbols.iter().zip(&graph.example_sizes).enumerate();
    let shifted = |step: i64| {
        let size = move |(index, ((_, symbol), &example)): (usize, ((_, &Symbol), &i64))| {
            let size = example + step * (2 * index as i64 + 3);
            size.clamp(symbol.min as i64, symbol.max as i64)
        };
        symbols().map(size).collect::<Vec<i64>>()
    };
    let smallest = symbols().map(|(_, ((_, symbol), _))| symbol.min as i64);
    vec![shifted(32), shifted(-32), shifted(1024), smallest.collect()]
}

/// Infers the extents of values that passes after specialisation added.
pub(crate) fn complete_extents(graph: &mut Graph) -> Result<()> {
    if graph.symbols.is_empty() {
        return Ok(());
    }
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let outputs = node.outputs.iter().flatten();
        let known = |id: &ValueId| graph.value(*id).extents.is_some();
        if outputs.into_iter().all(known) {
            continue;
        }
        let types = infer_node(graph, node, node.outputs.len())?;
        let inferred = infer_symbolic(graph, node, &types)?;
        let ids = node.outputs.clone();
        for (id, output) in ids.into_iter().zip(inferred) {
            if let Some(id) = id {
                graph.value_mut(id).extents = Some(output.extents);
            }
        }
    }
    Ok(())
}
