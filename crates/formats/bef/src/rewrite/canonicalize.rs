//! Canonicalization: constant folding of branches, merging of chains, dead-kernel elimination.

use super::tree::{Forest, Node, Tree, substitute};
use crate::{Attribute, FunctionId, FunctionKind, Kernel, Name, RegisterId};
use std::collections::{HashMap, HashSet};

const CHAIN: &str = "!tfrt.chain";

/// Kernels without side effects that cannot fail.
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

/// Canonicalizes all functions.
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

/// Types of arguments and results of the named functions.
type Signatures = HashMap<FunctionId, (Vec<Name>, Vec<Name>)>;

/// Applies the rules to a fixed point. Each change removes kernels, operands or candidate
/// functions.
fn simplify(tree: &mut Tree, signatures: &Signatures) {
    let inside = tree.nodes.iter_mut().flat_map(|node| &mut node.regions);
    inside.for_each(|region| simplify(region, signatures));
    let asynchronous = tree.head.kind == FunctionKind::Async;
    while (asynchronous && forward(tree, signatures)) || remove_unused(tree) {}
}

/// The known value of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoldedValue {
    Bool(bool),
    Index(i32),
    /// A chain that is ready at the start.
    NewChain,
}

/// One pass over the kernels in order; whether anything changed.
fn forward(tree: &mut Tree, signatures: &Signatures) -> bool {
    let mut changed = false;
    let mut known: HashMap<RegisterId, FoldedValue> = HashMap::new();
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
            ("tfrt.if", Some(FoldedValue::Bool(taken))) if node.regions.len() == 2 => {
                let other = node.regions.pop();
                let then = node.regions.pop();
                let region = if taken { then } else { other };
                let Some(region) = region else { continue };
                let results = tree.splice(&mut nodes, region, &node.kernel.operands[1..]);
                replaced.extend(node.kernel.results.iter().copied().zip(results));
                changed = true;
                continue;
            }
            ("tfrt.cond", Some(FoldedValue::Bool(taken))) => {
                changed |= choose(tree, &mut node.kernel, usize::from(!taken), signatures);
            }
            ("tfrt.case", Some(FoldedValue::Index(index))) => {
                // An index without a branch selects the last branch (bef 2.8).
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

fn value(kernel: &Kernel) -> Option<FoldedValue> {
    match (kernel.name.as_str(), kernel.attribute("value")) {
        ("tfrt.constant.i1", Some(Attribute::I1(value))) => Some(FoldedValue::Bool(*value)),
        ("tfrt.constant.i32", Some(Attribute::I32(value))) => Some(FoldedValue::Index(*value)),
        ("tfrt.new.chain", _) => Some(FoldedValue::NewChain),
        _ => None,
    }
}

/// Removes operands that need not be waited for; whether there were any.
fn merge(kernel: &mut Kernel, known: &HashMap<RegisterId, FoldedValue>) -> bool {
    let before = kernel.operands.len();
    let mut seen = HashSet::new();
    kernel.operands.retain(|operand| {
        known.get(operand) != Some(&FoldedValue::NewChain) && seen.insert(*operand)
    });
    if kernel.operands.is_empty() {
        kernel.name = "tfrt.new.chain".into();
    }
    kernel.operands.len() != before
}

/// Replaces a choice between functions by a call of one, without the first operand. A kernel with
/// further attributes, or whose operand types do not match the function, is unchanged.
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

/// Dead-kernel elimination in reverse order; whether any was removed.
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
