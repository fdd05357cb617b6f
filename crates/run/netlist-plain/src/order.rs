//! The order in which the ops of graphs that run together are computed for one input.

use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{Graph, Op, Queue, QueueKind};

/// Every op of `graphs` with the number of its graph, an op after those it reads, and after those
/// that fill the queues it reads: an entry is pushed before it is read (facts 6.4b). Where queues
/// run in a circle, their entries are of earlier inputs and do not order anything.
pub(crate) fn order<'n>(
    graphs: &[&'n Graph],
    queues: &HashMap<&'n str, &'n Queue>,
) -> Result<Vec<(usize, &'n Op)>> {
    let ops: Vec<(usize, &Op)> = graphs
        .iter()
        .enumerate()
        .flat_map(|(index, graph)| graph.ops.iter().map(move |op| (index, op)))
        .collect();
    sorted(&ops, Some(queues))
        .or_else(|| sorted(&ops, None))
        .ok_or_else(|| {
            let names: Vec<&str> = graphs
                .iter()
                .map(|graph| graph.name.value.as_str())
                .collect();
            let message = format!(
                "the ops of {} read each other in a circle",
                names.join(", ")
            );
            Error::new(ErrorKind::InvalidModel, message)
        })
}

/// `None` when there is a circle.
fn sorted<'n>(
    ops: &[(usize, &'n Op)],
    queues: Option<&HashMap<&'n str, &'n Queue>>,
) -> Option<Vec<(usize, &'n Op)>> {
    let numbers: HashMap<&str, usize> = ops
        .iter()
        .enumerate()
        .map(|(number, (_, op))| (op.name.value.as_str(), number))
        .collect();
    let mut readers = vec![Vec::new(); ops.len()];
    let mut waits = vec![0usize; ops.len()];
    for (number, (_, op)) in ops.iter().enumerate() {
        for input in &op.inputs {
            let name = input.name.value.as_str();
            let through = queues.and_then(|queues| queues.get(name));
            let through = through.filter(|queue| queue.kind.value == QueueKind::Queue);
            let source = through.map_or(name, |queue| queue.input.value.as_str());
            if let Some(&source) = numbers.get(source) {
                readers[source].push(number);
                waits[number] += 1;
            }
        }
    }
    let mut ready: BTreeSet<usize> = (0..ops.len())
        .filter(|&number| waits[number] == 0)
        .collect();
    let mut order = Vec::with_capacity(ops.len());
    while let Some(number) = ready.pop_first() {
        order.push(ops[number]);
        for &reader in &readers[number] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    (order.len() == ops.len()).then_some(order)
}
