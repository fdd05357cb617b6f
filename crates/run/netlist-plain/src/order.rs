//! The order in which the ops of concurrent graphs are computed for one input: a topological order
//! by Kahn's algorithm (Kahn, "Topological sorting of large networks", 1962).

use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{Graph, Op, Queue, QueueKind};

/// The ops of `graphs` with the index of their graph. An op follows the ops that it reads, and the
/// ops that write the queues that it reads: an entry is pushed before it is read (netlist 6.5). With a
/// cycle through queues, the entries are of earlier inputs, and queues do not constrain the order.
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
                "the ops of {} depend on each other in a cycle",
                names.join(", ")
            );
            Error::new(ErrorKind::InvalidModel, message)
        })
}

/// A topological order; `None` if there is a cycle.
fn sorted<'n>(
    ops: &[(usize, &'n Op)],
    queues: Option<&HashMap<&'n str, &'n Queue>>,
) -> Option<Vec<(usize, &'n Op)>> {
    let indices: HashMap<&str, usize> = ops
        .iter()
        .enumerate()
        .map(|(number, (_, op))| (op.name.value.as_str(), number))
        .collect();
    let mut readers = vec![Vec::new(); ops.len()];
    let mut unready = vec![0usize; ops.len()];
    for (number, (_, op)) in ops.iter().enumerate() {
        for input in &op.inputs {
            let name = input.name.value.as_str();
            let through = queues.and_then(|queues| queues.get(name));
            let through = through.filter(|queue| queue.kind.value == QueueKind::Queue);
            let source = through.map_or(name, |queue| queue.input.value.as_str());
            if let Some(&source) = indices.get(source) {
                readers[source].push(number);
                unready[number] += 1;
            }
        }
    }
    let mut ready: BTreeSet<usize> = (0..ops.len())
        .filter(|&number| unready[number] == 0)
        .collect();
    let mut order = Vec::with_capacity(ops.len());
    while let Some(number) = ready.pop_first() {
        order.push(ops[number]);
        for &reader in &readers[number] {
            unready[reader] -= 1;
            if unready[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    (order.len() == ops.len()).then_some(order)
}
