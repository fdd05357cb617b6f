//! Rules that make functions simpler.

use super::tree::{Forest, Node, Tree, substitute};
use crate::{Attribute, FunctionId, FunctionKind, Kernel, Name, RegisterId};
use std::collections::{HashMap, HashSet};

const CHAIN: &str = "!tfrt.chain";

/// Kernels that do nothing but make their results, and cannot fail.
const WITHOUT_EFFECTS: &[&str] = &[
    "tfrt.new.chain",
    "tfrt.merge.chains",
    "tfrt.and.i1",
    "tfrt.add.i32",
    "tfrt.add.i64",
    "tfrt.add.f32",
    "tfrt.add.f64",
    "tfrt.mul.i32",
    "tfrt.mul.i64",
    "tfrt.minus.i32",
    "tfrt.minus.i64",
    "tfrt.equal.i32",
    "tfrt.equal.i64",
    "tfrt.lessequal.i32",
    "tfrt.lessequal.i64",
    "ts.build_shape",
    "ts.build_partial_shape",
    "ts.build_unranked_partial_shape",
];

/// Simplifies all functions.
pub(super) fn forest(forest: &mut Forest) {
    let signature = |(id, tree): &(FunctionId, Tree)| {
        let arguments = tree.head.argument_types().to_vec();
        (*id, (arguments, tree.head.result_types.clone()))
    };
    let signatures: Signatures = forest.iter().map(signature).collect();
    for (_, tree) in forest {
        simplify(tree, &signatures);
    }
}

/// The types of arguments and results of the functions that have a name.
type Signatures = HashMap<FunctionId, (Vec<Name>, Vec<Name>)>;

/// Applies all rules as long as one of them changes anything. Each change leaves fewer kernels, or
/// fewer operands, or fewer functions to choose from.
fn simplify(tree: &mut Tree, signatures: &Signatures) {
    let inside = tree.nodes.iter_mut().flat_map(|node| &mut node.regions);
    inside.for_each(|region| simplify(region, signatures));
    let asynchronous = tree.head.kind == FunctionKind::Async;
    while (asynchronous && forward(tree, signatures)) || remove_unused(tree) {}
}

/// What a register is known to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Bool(bool),
    Index(i32),
    /// A chain that is there from the start.
    NewChain,
}

/// One pass over the kernels in order; whether anything changed.
fn forward(tree: &mut Tree, signatures: &Signatures) -> bool {
    let mut changed = false;
    let mut known: HashMap<RegisterId, Known> = HashMap::new();
    let mut replaced: HashMap<RegisterId, RegisterId> = HashMap::new();
    let mut nodes = Vec::with_capacity(tree.nodes.len());
    for mut node in std::mem::take(&mut tree.nodes) {
        substitute(&mut node.kernel.operands, &replaced);
        if let ([result], Some(value)) = (&node.kernel.results[..], value(&node.kernel)) {
            known.insert(*result, value);
        }
        let first = node.kernel.operands.first();
        let condition = first.and_then(|first| known.get(first)).copied();
        match (node.kernel.name.as_str(), condition) {
            ("tfrt.merge.chains", _) => {
                changed |= merge(&mut node.kernel, &known);
                if let [chain] = node.kernel.operands[..]
                    && tree.type_of(chain) == CHAIN
                {
                    replaced.extend(node.kernel.results.iter().map(|result| (*result, chain)));
                    changed = true;
                    continue;
                }
            }
            ("tfrt.if", Some(Known::Bool(taken))) if node.regions.len() == 2 => {
                let other = node.regions.pop();
                let then = node.regions.pop();
                let region = if taken { then } else { other };
                let Some(region) = region else { continue };
                let results = tree.splice(&mut nodes, region, &node.kernel.operands[1..]);
                replaced.extend(node.kernel.results.iter().copied().zip(results));
                changed = true;
                continue;
            }
            ("tfrt.cond", Some(Known::Bool(taken))) => {
                changed |= choose(tree, &mut node.kernel, usize::from(!taken), signatures);
            }
            ("tfrt.case", Some(Known::Index(index))) => {
                // An index without a branch takes the last one (facts 2.8).
                let last = node.kernel.functions.len().saturating_sub(1);
                let branch = usize::try_from(index).unwrap_or(last).min(last);
                changed |= choose(tree, &mut node.kernel, branch, signatures);
            }
            _ => {}
        }
        nodes.push(node);
    }
    tree.nodes = nodes;
    substitute(&mut tree.head.results, &replaced);
    changed
}

fn value(kernel: &Kernel) -> Option<Known> {
    match (kernel.name.as_str(), kernel.attribute("value")) {
        ("tfrt.constant.i1", Some(Attribute::I1(value))) => Some(Known::Bool(*value)),
        ("tfrt.constant.i32", Some(Attribute::I32(value))) => Some(Known::Index(*value)),
        ("tfrt.new.chain", _) => Some(Known::NewChain),
        _ => None,
    }
}

/// Leaves out what need not be waited for; whether that is anything.
fn merge(kernel: &mut Kernel, known: &HashMap<RegisterId, Known>) -> bool {
    let before = kernel.operands.len();
    let mut seen = HashSet::new();
    kernel
        .operands
        .retain(|operand| known.get(operand) != Some(&Known::NewChain) && seen.insert(*operand));
    if kernel.operands.is_empty() {
        kernel.name = "tfrt.new.chain".into();
    }
    kernel.operands.len() != before
}

/// Makes a choice between functions the call of one of them; its first operand is not passed on.
/// One that says more than that, or passes what the function does not take, stays as it is.
fn choose(tree: &Tree, kernel: &mut Kernel, index: usize, signatures: &Signatures) -> bool {
    let Some((_, function)) = kernel.functions.get(index) else {
        return false;
    };
    let types = |registers: &[RegisterId]| -> Vec<Name> {
        registers
            .iter()
            .map(|register| tree.type_of(*register).into())
            .collect()
    };
    let passed = (types(&kernel.operands[1..]), types(&kernel.results));
    if !kernel.attributes.is_empty() || signatures.get(function) != Some(&passed) {
        return false;
    }
    kernel.functions = vec![("callee".into(), *function)];
    kernel.name = "tfrt.call".into();
    kernel.operands.remove(0);
    true
}

/// Removes kernels that nobody needs, from the back; whether there were any.
fn remove_unused(tree: &mut Tree) -> bool {
    let mut used: HashSet<RegisterId> = tree.head.results.iter().copied().collect();
    let before = tree.nodes.len();
    let mut kept: Vec<Node> = Vec::with_capacity(before);
    for node in std::mem::take(&mut tree.nodes).into_iter().rev() {
        let kernel = &node.kernel;
        let needed = kernel.results.iter().any(|result| used.contains(result));
        if needed || !is_without_effects(&node) {
            used.extend(kernel.operands.iter().copied());
            kept.push(node);
        }
    }
    kept.reverse();
    tree.nodes = kept;
    tree.nodes.len() != before
}

fn is_without_effects(node: &Node) -> bool {
    let name = node.kernel.name.as_str();
    node.regions.is_empty()
        && (name.starts_with("tfrt.constant.") || WITHOUT_EFFECTS.contains(&name))
}
