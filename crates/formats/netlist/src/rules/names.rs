//! The rules for names: unique and defined.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::links::Node;
use crate::nearest::nearest;
use crate::source::{Span, Spanned};
use std::collections::HashSet;

pub(super) fn check(checker: &mut Checker<'_>) {
    let netlist = checker.netlist;
    let sections = [
        ("queues", netlist.queues.is_empty()),
        ("graphs", netlist.graphs.is_empty()),
        ("programs", netlist.programs.is_empty()),
    ];
    for (section, _) in sections.iter().filter(|(_, is_empty)| *is_empty) {
        let message = format!("section '{section}' is empty");
        checker.report(Finding::new(Rule::SectionEmpty, Span::default(), message));
    }
    unique(
        checker,
        "queue",
        netlist.queues.iter().map(|queue| &queue.name),
    );
    unique(
        checker,
        "graph",
        netlist.graphs.iter().map(|graph| &graph.name),
    );
    unique(checker, "op", netlist.ops().map(|(_, op)| &op.name));
    unique(
        checker,
        "fused op",
        netlist.fused_ops.iter().map(|op| &op.id),
    );
    unique(
        checker,
        "program",
        netlist.programs.iter().map(|program| &program.name),
    );
    for (_, op) in netlist.ops() {
        for input in &op.inputs {
            if checker.links.find(&input.name.value).is_none() {
                unknown(checker, &input.name, "queue or op");
            }
        }
    }
    forked(checker);
    for queue in netlist.queues.iter().filter(|queue| !queue.is_host_fed()) {
        match checker.links.find(&queue.input.value) {
            Some(Node::Op(..)) => {}
            // Data from another netlist are handled like data from the host (netlist 2.2).
            None if queue.input.value.contains("net2net") => {}
            Some(Node::Queue(_)) => {
                let message = "the input of a queue cannot be a queue";
                let finding = Finding::new(Rule::QueueProducer, queue.input.span, message);
                let found = format!("the queue '{}'", queue.input.value);
                checker.report(finding.expected("HOST or an op").found(found));
            }
            None => unknown(checker, &queue.input, "op"),
        }
    }
}

/// A forked input is an input queue of the op, and the forwarding op is of the same graph (netlist 2.3).
fn forked(checker: &mut Checker<'_>) {
    let netlist = checker.netlist;
    for (graph, op) in netlist.ops() {
        for (queue, from) in &op.forked_dram_inputs {
            if checker.links.queue(&queue.value).is_none() {
                unknown(checker, queue, "queue");
            } else if !op
                .inputs
                .iter()
                .any(|input| input.name.value == queue.value)
            {
                let message = format!("op '{}' does not read '{}'", op.name.value, queue.value);
                let finding = Finding::new(Rule::UnknownName, queue.span, message);
                let inputs: Vec<&str> = op.inputs.iter().map(|input| &*input.name.value).collect();
                checker.report(finding.expected(format!("one of {}", inputs.join(", "))));
            }
            if !graph.ops.iter().any(|other| other.name.value == from.value) {
                let message = format!("graph '{}' has no op '{}'", graph.name.value, from.value);
                checker.report(Finding::new(Rule::UnknownName, from.span, message));
            }
        }
    }
}

fn unique<'n>(
    checker: &mut Checker<'n>,
    what: &str,
    names: impl Iterator<Item = &'n Spanned<String>>,
) {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.value.as_str()) {
            let message = format!("duplicate {what} '{}'", name.value);
            checker.report(Finding::new(Rule::UniqueName, name.span, message));
        }
    }
}

/// Maximum number of undefined names with suggestions, which bounds the run time of the search.
const MAX_SUGGESTIONS: usize = 64;

/// Reports an undefined name.
pub(super) fn unknown(checker: &mut Checker<'_>, name: &Spanned<String>, what: &str) {
    let message = format!("{what} '{}' is not defined", name.value);
    let finding = Finding::new(Rule::UnknownName, name.span, message);
    let netlist = checker.netlist;
    let graphs = netlist.graphs.iter().map(|graph| &*graph.name.value);
    let known: Vec<&str> = match what {
        _ if checker.undefined_names >= MAX_SUGGESTIONS => Vec::new(),
        "graph" => graphs.collect(),
        _ => checker.links.names().collect(),
    };
    checker.undefined_names += 1;
    let same = |known: &&&str| known.eq_ignore_ascii_case(&name.value);
    let near = known.iter().find(same).copied();
    let near = near.or_else(|| nearest(&name.value, known.iter().copied()));
    checker.report(match near {
        Some(near) => finding.help(format!("did you mean '{near}'?")),
        None if what == "graph" && !known.is_empty() && known.len() <= 8 => {
            finding.expected(format!("one of {}", known.join(", ")))
        }
        None => finding,
    });
}
