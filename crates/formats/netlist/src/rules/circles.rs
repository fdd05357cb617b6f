//! Ops that wait for what is made of their own output.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::links::Node;
use crate::netlist::{Netlist, Op};
use std::collections::HashMap;

/// Ops of a circle that are named.
const NAMED: usize = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    let netlist = checker.netlist;
    let reads = reads(checker, netlist);
    if let Some(circle) = circle(&reads) {
        let ops: Vec<&Op> = netlist.ops().map(|(_, op)| op).collect();
        let first = ops[circle[0]];
        let names = circle.iter().map(|&op| &*ops[op].name.value).take(NAMED);
        let mut found = names.collect::<Vec<_>>().join(", which reads ");
        if circle.len() > NAMED {
            found += " and so on";
        }
        let message = format!("op '{}' waits for itself", first.name.value);
        let input = first.inputs.iter().find(|input| {
            let next = circle.get(1).unwrap_or(&circle[0]);
            input.name.value == ops[*next].name.value
        });
        let span = input.map_or(first.name.span, |input| input.name.span);
        let finding = Finding::new(Rule::OpCircle, span, message);
        let finding = finding.help("let one of them read a queue that the other fills");
        checker.report(match circle.len() {
            1 => finding,
            _ => finding.found(format!("a circle of {found}")),
        });
    }
}

/// For each op the ops that it reads, by number.
fn reads(checker: &Checker<'_>, netlist: &Netlist) -> Vec<Vec<usize>> {
    let names = netlist.ops().map(|(_, op)| op.name.value.as_str());
    let numbers: HashMap<&str, usize> = names.zip(0..).collect();
    let of = |op: &Op| {
        let inputs = op.inputs.iter();
        inputs
            .filter_map(|input| match checker.links.find(&input.name.value) {
                Some(Node::Op(_, read)) => numbers.get(read.name.value.as_str()).copied(),
                _ => None,
            })
            .collect()
    };
    netlist.ops().map(|(_, op)| of(op)).collect()
}

/// One circle: each reads the next, the last the first.
fn circle(reads: &[Vec<usize>]) -> Option<Vec<usize>> {
    // Ops that nobody waits for any more are taken away, until what is left is read in circles.
    let mut readers = vec![0usize; reads.len()];
    reads.iter().flatten().for_each(|&read| readers[read] += 1);
    let mut done: Vec<usize> = (0..reads.len()).filter(|&op| readers[op] == 0).collect();
    let mut is_left = vec![true; reads.len()];
    while let Some(op) = done.pop() {
        is_left[op] = false;
        for &read in &reads[op] {
            readers[read] -= 1;
            if readers[read] == 0 {
                done.push(read);
            }
        }
    }
    // Whoever is left is read by one that is left: backwards, the way must meet itself.
    let mut reader = vec![None; reads.len()];
    for op in (0..reads.len()).filter(|&op| is_left[op]) {
        reads[op].iter().for_each(|&read| reader[read] = Some(op));
    }
    let mut at = (0..reads.len()).find(|&op| is_left[op])?;
    let mut place = HashMap::new();
    let mut way = Vec::new();
    while !place.contains_key(&at) {
        place.insert(at, way.len());
        way.push(at);
        at = reader[at]?;
    }
    let mut circle = way.split_off(place[&at]);
    circle.reverse();
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_behind_what_leads_to_it() {
        assert_eq!(circle(&[vec![], vec![0], vec![0, 1]]), None);
        assert_eq!(circle(&[vec![0]]), Some(vec![0]));
        // 4 reads 3, which reads 2, which reads 1, which reads 3; 1 reads 0 too.
        let found = circle(&[vec![], vec![0, 3], vec![1], vec![2], vec![3]]).unwrap();
        assert_eq!(found.len(), 3);
        let next = |at: usize| found[(at + 1) % 3];
        let reads = |op: usize| [vec![0, 3], vec![1], vec![2]][op - 1].clone();
        assert!((0..3).all(|at| reads(found[at]).contains(&next(at))));
    }
}
