//! The topological order of nodes (Kahn's algorithm, 1962).

use crate::proto::{GraphProto, NodeProto};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use tenon_base::{Error, ErrorKind, Location};

/// The positions of `nodes` in topological order, stable. `given` is whether a name is an input or
/// initialiser of the graph, `outer` whether it is a name of an enclosing graph. All names with no or
/// several producers, and a cycle, are reported together.
pub(crate) fn execution_order(
    nodes: &[NodeProto],
    given: impl Fn(&str) -> bool,
    outer: impl Fn(&str) -> bool,
) -> Result<Vec<usize>, Vec<Error>> {
    let mut errors = Vec::new();
    let producers = producers(nodes, &given, &mut errors);
    let mut needs = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for name in uses(node) {
            match producers.get(name) {
                Some(&producer) => needs[index].push(producer),
                None if given(name) || outer(name) => {}
                None => errors.push(invalid(
                    format!("uses '{name}', which nothing makes"),
                    nodes,
                    index,
                )),
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let in_order = |(index, needs): (usize, &Vec<usize>)| needs.iter().all(|&need| need < index);
    if needs.iter().enumerate().all(in_order) {
        return Ok((0..nodes.len()).collect());
    }
    let order = topological_order(&needs);
    if order.len() < nodes.len() {
        return Err(vec![cycle(nodes, &needs, &order)]);
    }
    Ok(order)
}

/// The name of a node, or its operator and position.
pub(crate) fn label(node: &NodeProto, index: usize) -> String {
    if node.name.is_empty() {
        format!("{}_{index}", node.op_type)
    } else {
        node.name.clone()
    }
}

fn invalid(message: String, nodes: &[NodeProto], index: usize) -> Error {
    let name = nodes
        .get(index)
        .map_or_else(String::new, |node| label(node, index));
    Error::new(ErrorKind::InvalidModel, message).at(Location::node(name))
}

/// The producer of each name.
fn producers<'m>(
    nodes: &'m [NodeProto],
    given: &impl Fn(&str) -> bool,
    errors: &mut Vec<Error>,
) -> HashMap<&'m str, usize> {
    let mut producers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if given(name) {
                let message = format!("makes '{name}', which is also an input or initialiser");
                errors.push(invalid(message, nodes, index));
            }
            if let Some(other) = producers.insert(name.as_str(), index) {
                let other = label(&nodes[other], other);
                let message = format!("makes '{name}', which node '{other}' makes too");
                errors.push(invalid(message, nodes, index));
            }
        }
    }
    producers
}

/// The names that a node uses, including the free names of its subgraphs.
fn uses(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node
        .input
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    for graph in node
        .attribute
        .iter()
        .filter_map(|attribute| attribute.g.as_deref())
    {
        names.extend(free_names(graph));
    }
    names
}

/// The free names of a graph: used, but not defined in it.
fn free_names(graph: &GraphProto) -> Vec<&str> {
    let inputs = graph.input.iter().map(|input| input.name.as_str());
    let initialisers = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let outputs = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(String::as_str));
    let own: HashSet<&str> = inputs.chain(initialisers).chain(outputs).collect();
    let used = graph.node.iter().flat_map(uses);
    let results = graph.output.iter().map(|output| output.name.as_str());
    used.chain(results)
        .filter(|name| !own.contains(name))
        .collect()
}

/// Kahn's algorithm with the first ready node of the file next; nodes of cycles and their dependents are
/// missing.
fn topological_order(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut users = vec![Vec::new(); needs.len()];
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    for (index, needs) in needs.iter().enumerate() {
        for &need in needs {
            users[need].push(index);
        }
    }
    let ready = missing
        .iter()
        .enumerate()
        .filter(|&(_, &missing)| missing == 0);
    let mut ready: BinaryHeap<_> = ready.map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    order
}

/// The error about a cycle among the nodes that are missing in `order`.
fn cycle(nodes: &[NodeProto], needs: &[Vec<usize>], order: &[usize]) -> Error {
    let mut ordered = vec![false; nodes.len()];
    order.iter().for_each(|&index| ordered[index] = true);
    let mut at = ordered.iter().position(|done| !done).unwrap_or(0);
    let mut path = Vec::new();
    let mut place = HashMap::new();
    // Each remaining node depends on a remaining node, so that the path returns to a visited node.
    let start = loop {
        if let Some(&start) = place.get(&at) {
            break start;
        }
        place.insert(at, path.len());
        path.push(at);
        at = needs[at]
            .iter()
            .copied()
            .find(|&need| !ordered[need])
            .unwrap_or(at);
    };
    let around: &[usize] = &path[start..];
    let names: Vec<_> = around
        .iter()
        .rev()
        .take(8)
        .map(|&n| format!("'{}'", label(&nodes[n], n)))
        .collect();
    let rest = if around.len() > 8 {
        format!(" and {} more", around.len() - 8)
    } else {
        String::new()
    };
    let first = around.last().copied().unwrap_or(0);
    invalid(
        format!(
            "nodes use each other's outputs in a cycle: {}{rest}",
            names.join(", ")
        ),
        nodes,
        first,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        NodeProto {
            name: name.into(),
            op_type: "Add".into(),
            input: texts(inputs),
            output: texts(outputs),
            ..Default::default()
        }
    }

    fn order(nodes: &[NodeProto]) -> Result<Vec<usize>, String> {
        execution_order(nodes, |name| name == "x", |name| name == "outer").map_err(|errors| {
            errors
                .iter()
                .map(|error| error.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    #[test]
    fn the_sort_is_stable() {
        let nodes = [
            node("a", &["x"], &["1"]),
            node("b", &["x", "", "outer"], &["2"]),
        ];
        assert_eq!(order(&nodes).unwrap(), [0, 1]);
        let nodes = [
            node("c", &["2", "1"], &["3"]),
            node("a", &["x"], &["1"]),
            node("b", &["1"], &["2"]),
        ];
        assert_eq!(order(&nodes).unwrap(), [1, 2, 0]);
    }

    #[test]
    fn names_have_one_producer_before_their_uses() {
        let nodes = [
            node("a", &["gone"], &["1"]),
            node("", &["x"], &["1"]),
            node("c", &["x"], &["x"]),
        ];
        assert_eq!(
            order(&nodes).unwrap_err(),
            "node 'Add_1': makes '1', which node 'a' makes too\n\
             node 'c': makes 'x', which is also an input or initialiser\n\
             node 'a': uses 'gone', which nothing makes"
        );
    }

    #[test]
    fn a_cycle_is_named() {
        let nodes = [
            node("before", &["x"], &["1"]),
            node("a", &["1", "3"], &["2"]),
            node("b", &["2"], &["3"]),
            node("after", &["3"], &["4"]),
        ];
        assert_eq!(
            order(&nodes).unwrap_err(),
            "node 'b': nodes use each other's outputs in a cycle: 'b', 'a'"
        );
        assert!(
            order(&[node("a", &["1"], &["1"])])
                .unwrap_err()
                .contains("in a cycle: 'a'")
        );
    }

    #[test]
    fn subgraphs_use_names_of_enclosing_graphs() {
        let inner = GraphProto {
            node: vec![node("i", &["late"], &["y"])],
            ..Default::default()
        };
        let mut outer = node("If", &["x"], &["z"]);
        outer.attribute.push(crate::proto::AttributeProto {
            g: Some(Box::new(inner)),
            ..Default::default()
        });
        assert_eq!(
            order(&[outer, node("l", &["x"], &["late"])]).unwrap(),
            [1, 0]
        );
    }
}
