//! CpuAcc agrees with CpuRef on random nodes, at every CPU level. `TENON_SOAK_CASES` sets the number of
//! cases of each operator.

#![allow(clippy::print_stdout, reason = "a table of the outcomes")]

use std::collections::BTreeMap;
use tenon_backend::CpuLevel;
use tenon_cpu_acc::CpuAcc;
use tenon_cpu_ref::CpuRef;
use tenon_graph::OperatorDef;
use tenon_random_nodes::{Choices, Outcome, RandomNode, choice_bytes};

/// Cases of each operator that shape inference accepts.
const CASES: usize = 60;

/// Rounding of f32 in another order: sums of up to 2^14 elements of magnitude 4.
const TOLERANCE: f64 = 2e-4;

#[derive(Default, Clone, Copy)]
struct Counts {
    refused: usize,
    failed: usize,
    agreed: usize,
}

/// The outcomes of an operator, and its differences.
fn compare(op: &'static OperatorDef, cases: usize) -> (Counts, Vec<String>) {
    let (mut counts, mut problems) = (Counts::default(), Vec::new());
    let levels = CpuLevel::ALL.map(CpuAcc::at_most);
    let mut accepted = 0;
    for seed in 0..cases as u64 * 50 {
        let choices = choice_bytes(seed << 10 | op.name.len() as u64);
        let Some(node) = RandomNode::of(op, &mut Choices::new(&choices)) else {
            continue;
        };
        accepted += 1;
        if accepted > cases {
            break;
        }
        for backend in &levels {
            match node.compare(&CpuRef, backend, TOLERANCE) {
                Ok(Outcome::Agreed) => counts.agreed += 1,
                Ok(Outcome::Failed) => counts.failed += 1,
                Ok(Outcome::Refused(_)) => counts.refused += 1,
                Err(text) => {
                    problems.push(format!("seed {seed}: {text}"));
                    break;
                }
            }
        }
        if problems.len() > 3 {
            break;
        }
    }
    (counts, problems)
}

#[test]
fn random_nodes_agree() {
    let cases = std::env::var("TENON_SOAK_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let mut table = BTreeMap::new();
    let mut problems = Vec::new();
    for op in tenon_graph::operator::all().filter(|op| op.name != "tenon.Precompiled") {
        let (counts, found) = compare(op, cases);
        table.insert(op.name, counts);
        problems.extend(found);
    }
    for (name, counts) in &table {
        println!(
            "{name}: {} agreed, {} failed, {} refused",
            counts.agreed, counts.failed, counts.refused
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    // Most operators have valid cases that CpuAcc takes.
    let compared = table.values().filter(|counts| counts.agreed > 0).count();
    assert!(compared > 130, "{compared} operators were compared");
}
