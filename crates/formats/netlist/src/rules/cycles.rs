//! Cyclic dependencies between ops: Kahn's algorithm (Kahn, "Topological sorting of large networks",
//! 1962) leaves the ops of cycles and their dependencies.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::links::Node;
use crate::netlist::{Netlist, Op};
use std::collections::HashMap;

/// Maximum number of ops of a cycle that a message names.
const NAMED: usize = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    let netlist = checker.netlist;
    let producers = producers(checker, netlist);
    if let Some(cycle) = find_cycle(&producers) {
        let ops: Vec<&Op> = netlist.ops().map(|(_, op)| op).collect();
        let first = ops[cycle[0]];
        let names = cycle.iter().map(|&op| &*ops[op].name.value).take(NAMED);
        let mut found = names.collect::<Vec<_>>().join(", which reads ");
        if cycle.len() > NAMED {
            found += " and so on";
        }
        let message = format!("op '{}' depends on its own output", first.name.value);
        let input = first.inputs.iter().find(|input| {
            let next = cycle.get(1).unwrap_or(&cycle[0]);
            input.name.value == ops[*next].name.value
        });
        let span = input.map_or(first.name.span, |input| input.name.span);
        let finding = Finding::new(Rule::OpCycle, span, message);
        let finding =
            finding.help("break the cycle with a queue that one op writes and the other reads");
        checker.report(match cycle.len() {
            1 => finding,
            _ => finding.found(format!("a cycle: {found}")),
        });
    }
}

/// The indices of the ops that each op reads.
fn producers(checker: &Checker<'_>, netlist: &Netlist) -> Vec<Vec<usize>> {
    let names = netlist.ops().map(|(_, op)| op.name.value.as_str());
    let indices: HashMap<&str, usize> = names.zip(0..).collect();
    let of = |op: &Op| {
        let inputs = op.inputs.iter();
        inputs
            .filter_map(|input| match checker.links.find(&input.name.value) {
                Some(Node::Op(_, read)) => indices.get(read.name.value.as_str()).copied(),
                _ => None,
            })
            .collect()
    };
    netlist.ops().map(|(_, op)| of(op)).collect()
}

/// A cycle: each op reads the next one, the last one reads the first.
fn find_cycle(reads: &[Vec<usize>]) -> Option<Vec<usize>> {
    // Kahn's algorithm, against the direction of data: removes ops without remaining readers.
    let mut readers = vec![0usize; reads.len()];
    reads.iter().flatten().for_each(|&read| readers[read] += 1);
    let mut done: Vec<usize> = (0..reads.len()).filter(|&op| readers[op] == 0).collect();
    let mut remains = vec![true; reads.len()];
    while let Some(op) = done.pop() {
        remains[op] = false;
        for &read in &reads[op] {
            readers[read] -= 1;
            if readers[read] == 0 {
                done.push(read);
            }
        }
    }
    // Every remaining op has a remaining reader: the walk from reader to reader ends in a cycle.
    let mut reader = vec![None; reads.len()];
    for op in (0..reads.len()).filter(|&op| remains[op]) {
        reads[op].iter().for_each(|&read| reader[read] = Some(op));
    }
    let mut at = (0..reads.len()).find(|&op| remains[op])?;
    let mut positions = HashMap::new();
    let mut path = Vec::new();
    while !positions.contains_key(&at) {
        positions.insert(at, path.len());
        path.push(at);
        at = reader[at]?;
    }
    let mut cycle = path.split_off(positions[&at]);
    cycle.reverse();
    Some(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_without_the_ops_around_it() {
        assert_eq!(find_cycle(&[vec![], vec![0], vec![0, 1]]), None);
        assert_eq!(find_cycle(&[vec![0]]), Some(vec![0]));
        // 4 reads 3, which reads 2, which reads 1, which reads 3; 1 reads 0 too.
        let found = find_cycle(&[vec![], vec![0, 3], vec![1], vec![2], vec![3]]).unwrap();
        assert_eq!(found.len(), 3);
        let next = |at: usize| found[(at + 1) % 3];
        let reads = |op: usize| [vec![0, 3], vec![1], vec![2]][op - 1].clone();
        assert!((0..3).all(|at| reads(found[at]).contains(&next(at))));
    }
}
