//! Temporal graphs: the connected components of graphs whose ops read each other; their graphs run
//! concurrently (netlist 6.5).

use crate::netlist::{Graph, Netlist};
use std::collections::HashMap;

/// The temporal graphs of a netlist, in the order of the file; most have one graph.
pub fn temporal_graphs(netlist: &Netlist) -> Vec<Vec<&Graph>> {
    let ops = |graph: &'_ Graph, index: usize| -> Vec<(String, usize)> {
        graph
            .ops
            .iter()
            .map(|op| (op.name.value.clone(), index))
            .collect()
    };
    let graphs = netlist.graphs.iter().enumerate();
    let graph_of: HashMap<String, usize> = graphs
        .flat_map(|(index, graph)| ops(graph, index))
        .collect();
    // The label of a component is the smallest index of its graphs.
    let mut group: Vec<usize> = (0..netlist.graphs.len()).collect();
    for (index, graph) in netlist.graphs.iter().enumerate() {
        for input in graph.ops.iter().flat_map(|op| &op.inputs) {
            let Some(&other) = graph_of.get(&input.name.value) else {
                continue;
            };
            let (from, to) = (
                group[other].max(group[index]),
                group[other].min(group[index]),
            );
            if from != to {
                group
                    .iter_mut()
                    .filter(|number| **number == from)
                    .for_each(|number| *number = to);
            }
        }
    }
    let members = |first: usize| {
        let all = netlist.graphs.iter().zip(&group);
        all.filter(|(_, number)| **number == first)
            .map(|(graph, _)| graph)
            .collect()
    };
    (0..group.len())
        .filter(|&index| group[index] == index)
        .map(members)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    #[test]
    fn graphs_that_read_each_others_ops_are_one_temporal_graph() {
        let op = |name: &str, input: &str| {
            format!(
                "    {name}: {{type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [{input}], in_df: [Float16], \
                 out_df: Float16, intermed_df: Float16, math_fidelity: LoFi, buf_size_mb: 2, ublock_order: r, \
                 t: 1, mblock: [1, 1], ublock: [1, 1]}}\n"
            )
        };
        let graph = |name: &str, op: String| {
            format!("  {name}:\n    target_device: 0\n    input_count: 1\n{op}")
        };
        let graphs = [
            graph("a", op("x", "q")),
            graph("b", op("y", "q")),
            graph("c", op("z", "x")),
        ];
        let text = format!("devices: {{arch: grayskull}}\ngraphs:\n{}", graphs.concat());
        let netlist = read(&Source::new("n.yaml", text)).netlist;
        let groups = temporal_graphs(&netlist);
        let names = |group: &Vec<&Graph>| {
            group
                .iter()
                .map(|graph| graph.name.value.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            groups.iter().map(names).collect::<Vec<_>>(),
            [vec!["a", "c"], vec!["b"]]
        );
    }
}
