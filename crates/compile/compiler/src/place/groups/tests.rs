//! The quotient graph of groups is acyclic, and no two groups can be merged.

use super::*;
use proptest::prelude::*;
use tenon_graph::{Attributes, DataType, Node, TensorType, ValueId, operator::operator};

/// A graph of additions: each node uses one or two earlier values.
fn graph(inputs: &[(u32, u32)]) -> Graph {
    let mut graph = Graph::new("g");
    let ty = TensorType::new(DataType::F32, [1]).unwrap();
    graph.add_input("x", ty.clone());
    for (index, &(a, b)) in inputs.iter().enumerate() {
        let output = graph.add_value(format!("v{index}"), Some(ty.clone()));
        graph.add_node(Node {
            name: format!("n{index}"),
            op: operator("Add").unwrap(),
            attributes: Attributes::new(),
            inputs: vec![Some(ValueId(a)), Some(ValueId(b))],
            outputs: vec![Some(output)],
        });
    }
    graph
}

fn indices(groups: &[Vec<NodeId>]) -> Vec<Vec<u32>> {
    let of = |group: &Vec<NodeId>| group.iter().map(|id| id.0).collect();
    groups.iter().map(of).collect()
}

#[test]
fn a_chain_of_one_owner_is_one_group() {
    let graph = graph(&[(0, 0), (1, 1), (2, 2)]);
    assert_eq!(indices(&groups(&graph, &[7, 7, 7])), [[0, 1, 2]]);
    assert_eq!(
        indices(&groups(&graph, &[0, 1, 0])),
        [vec![0], vec![1], vec![2]]
    );
}

#[test]
fn a_node_is_merged_into_a_later_group_of_its_owner() {
    // Node k produces value k + 1: node 2 adds those of node 0 (owner 0) and node 1 (owner 1). Phases
    // alone would separate nodes 0 and 2.
    let graph = graph(&[(0, 0), (0, 0), (1, 2)]);
    assert_eq!(indices(&groups(&graph, &[0, 1, 0])), [vec![1], vec![0, 2]]);
}

#[test]
fn groups_with_a_second_path_between_them_stay_separate() {
    // Node 0 reaches node 2 directly, and through node 1 of another owner.
    let graph = graph(&[(0, 0), (1, 1), (1, 2)]);
    assert_eq!(
        indices(&groups(&graph, &[0, 1, 0])),
        [vec![0], vec![1], vec![2]]
    );
}

/// Checks owners, topological order and, with `maximal`, that no two connected groups can be merged.
fn check(graph: &Graph, owners: &[u32], found: &[Vec<NodeId>], maximal: bool) {
    let mut group = vec![usize::MAX; owners.len()];
    for (index, nodes) in found.iter().enumerate() {
        for node in nodes {
            assert_eq!(group[node.index()], usize::MAX, "{node} is in two groups");
            group[node.index()] = index;
            assert_eq!(owners[node.index()], owners[nodes[0].index()]);
        }
    }
    let edges: Vec<(usize, usize)> = edges(graph)
        .into_iter()
        .map(|(from, to)| (group[from as usize], group[to as usize]))
        .filter(|(from, to)| from != to)
        .collect();
    assert!(
        edges.iter().all(|(from, to)| from < to),
        "groups are not in order"
    );
    let count = found.len();
    let mut way = vec![vec![false; count]; count];
    for from in (0..count).rev() {
        for &(a, b) in edges.iter().filter(|(a, _)| *a == from) {
            way[a][b] = true;
            let further = way[b].clone();
            for (to, further) in way[a].iter_mut().zip(further) {
                *to |= further;
            }
        }
    }
    for &(from, to) in edges.iter().filter(|_| maximal) {
        let owner = |index: usize| owners[found[index][0].index()];
        let round = (from + 1..to).any(|by| way[from][by] && way[by][to]);
        assert!(
            owner(from) != owner(to) || round,
            "groups {from} and {to} could be one"
        );
    }
}

proptest! {
    #[test]
    fn groups_are_maximal_and_make_no_cycle(
        nodes in proptest::collection::vec((any::<u32>(), any::<u32>(), 0u32..3), 1..40),
    ) {
        let inputs: Vec<(u32, u32)> = (1u32..)
            .zip(&nodes)
            .map(|(count, (a, b, _))| (a % count, b % count))
            .collect();
        let owners: Vec<u32> = nodes.iter().map(|(_, _, owner)| *owner).collect();
        let graph = graph(&inputs);
        let found = groups(&graph, &owners);
        check(&graph, &owners, &found, true);
    }
}

#[test]
fn a_large_graph_without_order_keeps_its_rules() {
    let mut state = 1u64;
    let mut next = |below: u32| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % u64::from(below)) as u32
    };
    let inputs: Vec<(u32, u32)> = (1..5000)
        .map(|count: u32| {
            let near = |value: u32| count - 1 - value.min(count - 1);
            (near(next(30)), near(next(30)))
        })
        .collect();
    let owners: Vec<u32> = (0..inputs.len()).map(|_| next(3)).collect();
    let graph = graph(&inputs);
    let found = groups(&graph, &owners);
    check(&graph, &owners, &found, false);
}
