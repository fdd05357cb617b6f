//! Temporal epochs: the connected components of graphs whose ops pass tensors to each other
//! (netlist 6.5), found by union-find (Tarjan 1975), and a topological order of the ops of each
//! (Kahn 1962).

use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{Graph, Netlist, Op, Queue, QueueKind, Source};

/// The epochs, each as the positions of its graphs.
pub(super) fn epochs(netlist: &Netlist) -> Vec<Vec<usize>> {
    let mut owner: HashMap<&str, usize> = HashMap::new();
    for (index, graph) in netlist.graphs.iter().enumerate() {
        owner.extend(graph.ops.iter().map(|op| (&*op.name.value, index)));
    }
    // Union-find: each graph points towards the first graph of its epoch.
    let mut first: Vec<usize> = (0..netlist.graphs.len()).collect();
    let root = |first: &[usize], mut at: usize| {
        while first[at] != at {
            at = first[at];
        }
        at
    };
    for (index, graph) in netlist.graphs.iter().enumerate() {
        for input in graph.ops.iter().flat_map(|op| &op.inputs) {
            if let Some(&other) = owner.get(&*input.name.value) {
                let (a, b) = (root(&first, index), root(&first, other));
                first[a.max(b)] = a.min(b);
            }
        }
    }
    let mut epochs: Vec<Vec<usize>> = vec![Vec::new(); netlist.graphs.len()];
    for index in 0..netlist.graphs.len() {
        epochs[root(&first, index)].push(index);
    }
    epochs.retain(|epoch| !epoch.is_empty());
    epochs
}

/// The ops of an epoch in topological order, and the order of its queue accesses.
pub(super) struct Schedule<'n> {
    pub ops: Vec<&'n Op>,
    /// Queues that are written before they are read: an entry is read for the input that pushed it.
    pub streaming: BTreeSet<&'n str>,
    /// All queues that are read.
    pub reads: BTreeSet<&'n str>,
}

impl<'n> Schedule<'n> {
    /// The schedule of the graphs of an epoch.
    pub(super) fn new(
        graphs: &[&'n Graph],
        queues: &HashMap<&'n str, &'n Queue>,
        source: &Source,
    ) -> Result<Self> {
        let ops: Vec<&'n Op> = graphs.iter().flat_map(|graph| &graph.ops).collect();
        let positions: HashMap<&str, usize> = ops
            .iter()
            .enumerate()
            .map(|(index, op)| (&*op.name.value, index))
            .collect();
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); ops.len()];
        let mut readers: HashMap<&'n str, Vec<usize>> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            for input in &op.inputs {
                let name = &*input.name.value;
                match (positions.get(name), queues.get(name)) {
                    (_, Some(queue)) => {
                        readers.entry(&queue.name.value).or_default().push(index);
                    }
                    (Some(&producer), _) => after[producer].push(index),
                    (None, None) => {
                        let text = format!(
                            "input '{name}' is neither a queue nor an op of a graph of the same epoch"
                        );
                        return Err(super::error_at(source, input.name.span, text));
                    }
                }
            }
        }
        let reads: BTreeSet<&'n str> = readers.keys().copied().collect();
        let mut streaming = BTreeSet::new();
        for &name in &reads {
            let queue = queues[name];
            let writer = positions.get(&*queue.input.value).copied();
            let Some(writer) = writer.filter(|_| queue.kind.value == QueueKind::Queue) else {
                continue;
            };
            // A queue in a cycle with its writer holds the entry of an earlier input.
            let readers = &readers[name];
            if !readers
                .iter()
                .any(|&reader| reaches(&after, reader, writer))
            {
                after[writer].extend(readers);
                streaming.insert(name);
            }
        }
        let order = topological_order(&after).ok_or_else(|| {
            let names: Vec<&str> = graphs.iter().map(|graph| &*graph.name.value).collect();
            let text = format!("the ops of {} form a cycle", names.join(", "));
            Error::new(ErrorKind::InvalidModel, text)
        })?;
        Ok(Self {
            ops: order.into_iter().map(|index| ops[index]).collect(),
            streaming,
            reads,
        })
    }
}

/// Whether a path leads from one node to another (depth-first search).
fn reaches(after: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; after.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&after[at]);
        }
    }
    false
}

/// Kahn's algorithm with the smallest ready node first; `None` for a graph with a cycle.
fn topological_order(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut indegree = vec![0usize; after.len()];
    after.iter().flatten().for_each(|&next| indegree[next] += 1);
    let mut ready: BTreeSet<usize> = (0..after.len()).filter(|&at| indegree[at] == 0).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &next in &after[at] {
            indegree[next] -= 1;
            if indegree[next] == 0 {
                ready.insert(next);
            }
        }
    }
    (order.len() == after.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_topological_and_cycles_are_errors() {
        assert_eq!(
            topological_order(&[vec![], vec![0], vec![]]),
            Some(vec![1, 0, 2])
        );
        assert_eq!(topological_order(&[vec![1], vec![0]]), None);
        assert!(reaches(&[vec![1], vec![2], vec![]], 0, 2));
        assert!(!reaches(&[vec![1], vec![2], vec![]], 2, 0));
    }
}
