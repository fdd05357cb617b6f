//! The names of a graph's outputs, which passes may exchange for other values.

use crate::rewrite::operator_of;
use std::collections::{BTreeSet, HashMap};
use tenon_base::Result;
use tenon_graph::{Attributes, Graph, Node, ValueId};

/// The names of the outputs, in order.
pub(crate) fn names(graph: &Graph) -> Vec<String> {
    graph
        .outputs
        .iter()
        .map(|&id| graph.value(id).name.clone())
        .collect()
}

/// Makes every output a distinct value that a node produces, and restores its name.
pub(crate) fn restore(graph: &mut Graph, names: &[String]) -> Result<()> {
    let producers = graph.producers();
    let mut seen = BTreeSet::new();
    for index in 0..graph.outputs.len() {
        let id = graph.outputs[index];
        if producers[id.index()].is_none() || !seen.insert(id) {
            graph.outputs[index] = copy(graph, id)?;
        }
    }
    let mut by_name: HashMap<String, usize> = graph
        .values
        .iter()
        .enumerate()
        .map(|(id, value)| (value.name.clone(), id))
        .collect();
    for (&output, name) in graph.outputs.clone().iter().zip(names) {
        let old = graph.value(output).name.clone();
        if old == *name {
            continue;
        }
        // An input that is also an output keeps the name; the output's variable gets a number.
        if let Some(&holder) = by_name.get(name) {
            if graph.inputs.contains(&ValueId(holder as u32)) {
                continue;
            }
            graph.values[holder].name.clone_from(&old);
            by_name.insert(old, holder);
        }
        graph.value_mut(output).name.clone_from(name);
        by_name.insert(name.clone(), output.index());
    }
    Ok(())
}

fn copy(graph: &mut Graph, id: ValueId) -> Result<ValueId> {
    let value = graph.value(id);
    let (base, ty) = (format!("{}.output", value.name), value.ty.clone());
    let mut name = base.clone();
    let mut number = 1;
    while graph.values.iter().any(|value| value.name == name)
        || graph.nodes.iter().any(|node| node.name == name)
    {
        number += 1;
        name = format!("{base}.{number}");
    }
    let output = graph.add_value(name.clone(), ty);
    graph.nodes.push(Node {
        name,
        op: operator_of("Identity")?,
        attributes: Attributes::new(),
        inputs: vec![Some(id)],
        outputs: vec![Some(output)],
    });
    Ok(output)
}
