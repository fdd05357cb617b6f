//! Temporal epochs: graphs that run together because their ops hand tensors to each other (facts
//! 6.5), and the order of ops in one.

use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{Graph, Netlist, Op, Queue, QueueKind, Source};

/// For each graph the epoch that it is part of: the positions of the graphs of an epoch.
pub(super) fn epochs(netlist: &Netlist) -> Vec<Vec<usize>> {
    let mut owner: HashMap<&str, usize> = HashMap::new();
    for (index, graph) in netlist.graphs.iter().enumerate() {
        owner.extend(graph.ops.iter().map(|op| (&*op.name.value, index)));
    }
    // Each graph points to the first of its epoch.
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

/// The ops of an epoch, each after those that it reads from, and how its queues are ordered.
pub(super) struct Schedule<'n> {
    pub ops: Vec<&'n Op>,
    /// Queues that are filled before they are read: what is pushed on an input is read on it.
    pub streaming: BTreeSet<&'n str>,
    /// Queues that are read, those that are read before they are written included.
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
        let places: HashMap<&str, usize> = ops
            .iter()
            .enumerate()
            .map(|(index, op)| (&*op.name.value, index))
            .collect();
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); ops.len()];
        let mut readers: HashMap<&'n str, Vec<usize>> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            for input in &op.inputs {
                let name = &*input.name.value;
                match (places.get(name), queues.get(name)) {
                    (_, Some(queue)) => {
                        readers.entry(&queue.name.value).or_default().push(index);
                    }
                    (Some(&maker), _) => after[maker].push(index),
                    (None, None) => {
                        let text = format!("input '{name}' is in no graph that runs with it");
                        return Err(super::error_at(source, input.name.span, text));
                    }
                }
            }
        }
        let reads: BTreeSet<&'n str> = readers.keys().copied().collect();
        let mut streaming = BTreeSet::new();
        for &name in &reads {
            let queue = queues[name];
            let writer = places.get(&*queue.input.value).copied();
            let Some(writer) = writer.filter(|_| queue.kind.value == QueueKind::Queue) else {
                continue;
            };
            // A queue that leads back to what fills it holds the entry of an earlier input.
            let readers = &readers[name];
            if !readers
                .iter()
                .any(|&reader| reaches(&after, reader, writer))
            {
                after[writer].extend(readers);
                streaming.insert(name);
            }
        }
        let order = sorted(&after).ok_or_else(|| {
            let names: Vec<&str> = graphs.iter().map(|graph| &*graph.name.value).collect();
            let text = format!(
                "the ops of {} wait for each other in a circle",
                names.join(", ")
            );
            Error::new(ErrorKind::InvalidModel, text)
        })?;
        Ok(Self {
            ops: order.into_iter().map(|index| ops[index]).collect(),
            streaming,
            reads,
        })
    }
}

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

/// All numbers, each after those that point to it, otherwise in order; `None` for a circle.
fn sorted(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut waits = vec![0usize; after.len()];
    after.iter().flatten().for_each(|&next| waits[next] += 1);
    let mut ready: BTreeSet<usize> = (0..after.len()).filter(|&at| waits[at] == 0).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &next in &after[at] {
            waits[next] -= 1;
            if waits[next] == 0 {
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
    fn an_order_keeps_what_comes_first_and_refuses_circles() {
        assert_eq!(sorted(&[vec![], vec![0], vec![]]), Some(vec![1, 0, 2]));
        assert_eq!(sorted(&[vec![1], vec![0]]), None);
        assert!(reaches(&[vec![1], vec![2], vec![]], 0, 2));
        assert!(!reaches(&[vec![1], vec![2], vec![]], 2, 0));
    }
}
