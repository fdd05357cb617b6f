//! Inlining of calls.

use super::tree::{Forest, Node, Tree, substitute};
use crate::{FunctionId, FunctionKind, KernelLocation, MAX_LOCATION_NESTING};
use std::collections::{HashMap, HashSet};

/// Maximum number of kernels of an inlined function.
const SMALL: usize = 256;

/// A function is not grown beyond this number of kernels by inlining.
const LARGE: usize = 1 << 16;

/// Inlines calls in all functions.
pub(super) fn forest(forest: &mut Forest) {
    let places: HashMap<FunctionId, usize> = forest
        .iter()
        .enumerate()
        .map(|(place, (id, _))| (*id, place))
        .collect();
    let (order, recursive) = topological_order(forest, &places);
    let mut inlined = HashSet::new();
    let mut sizes = vec![usize::MAX; forest.len()];
    for caller in order {
        let Some((_, slot)) = forest.get_mut(caller) else {
            continue;
        };
        // Taken out of the forest while callees are borrowed; a function is not inlined into
        // itself.
        let mut tree = std::mem::take(slot);
        let budget = &mut LARGE.saturating_sub(tree.size());
        let callee = |id: FunctionId| {
            let place = places.get(&id).filter(|place| !recursive.contains(place))?;
            let ((_, body), size) = (forest.get(*place)?, *sizes.get(*place)?);
            let small = body.head.kind == FunctionKind::Async && size <= SMALL;
            (*place != caller && small).then_some((body, size))
        };
        inline_calls(&mut tree, &callee, budget, &mut inlined);
        if let Some((_, slot)) = forest.get_mut(caller) {
            sizes[caller] = tree.size();
            *slot = tree;
        }
    }
    let used: HashSet<FunctionId> = forest
        .iter()
        .flat_map(|(_, tree)| references(tree))
        .collect();
    forest.retain(|(id, tree)| {
        let visibility = tree
            .head
            .attributes
            .iter()
            .find(|(name, _)| name == "sym_visibility");
        let private = visibility.and_then(|(_, word)| word.as_str()) == Some("private");
        !private || !inlined.contains(id) || used.contains(id)
    });
}

/// Inlines the calls of a function whose callees are known and small enough.
fn inline_calls<'f>(
    tree: &mut Tree,
    callee: &impl Fn(FunctionId) -> Option<(&'f Tree, usize)>,
    budget: &mut usize,
    inlined: &mut HashSet<FunctionId>,
) {
    let asynchronous = tree.head.kind == FunctionKind::Async;
    let mut replaced = HashMap::new();
    let mut nodes = Vec::with_capacity(tree.nodes.len());
    for mut node in std::mem::take(&mut tree.nodes) {
        substitute(&mut node.kernel.operands, &replaced);
        for region in &mut node.regions {
            inline_calls(region, callee, budget, inlined);
        }
        let body = called(&node).filter(|_| asynchronous);
        let body = body.and_then(|id| callee(id).map(|(body, size)| (id, body, size)));
        match body {
            Some((id, body, size)) if size <= *budget && fits(tree, &node, body) => {
                *budget -= size;
                inlined.insert(id);
                let mut body = body.clone();
                for inside in &mut body.nodes {
                    move_location(inside, &node.kernel.location);
                }
                let results = tree.splice(&mut nodes, body, &node.kernel.operands);
                replaced.extend(node.kernel.results.iter().copied().zip(results));
            }
            _ => nodes.push(node),
        }
    }
    tree.nodes = nodes;
    substitute(&mut tree.head.results, &replaced);
}

/// The callee, if the kernel is a call.
fn called(node: &Node) -> Option<FunctionId> {
    let (name, id) = node.kernel.functions.first()?;
    (node.kernel.name == "tfrt.call" && name == "callee").then_some(*id)
}

/// Whether the types of operands and results of a call match its callee.
fn fits(tree: &Tree, node: &Node, body: &Tree) -> bool {
    let passed = node
        .kernel
        .operands
        .iter()
        .map(|register| tree.type_of(*register));
    let made = node
        .kernel
        .results
        .iter()
        .map(|register| tree.type_of(*register));
    passed.eq(body.head.argument_types().iter().map(|t| t.as_str()))
        && made.eq(body.head.result_types.iter().map(|t| t.as_str()))
}

/// The location of an inlined kernel: a call site made of the original location and that of the
/// call.
fn move_location(node: &mut Node, caller: &KernelLocation) {
    let callee = std::mem::take(&mut node.kernel.location);
    let call = KernelLocation::CallSite {
        callee: Box::new(callee.clone()),
        caller: Box::new(caller.clone()),
    };
    let deep = call.depth() > MAX_LOCATION_NESTING;
    node.kernel.location = if deep { callee } else { call };
    for region in &mut node.regions {
        region.head.location = node.kernel.location.clone();
        region
            .nodes
            .iter_mut()
            .for_each(|inside| move_location(inside, caller));
    }
}

/// Positions in the forest in topological order of calls, callees first (Kahn's algorithm), then
/// the positions of functions in or after a cycle of calls.
fn topological_order(
    forest: &Forest,
    places: &HashMap<FunctionId, usize>,
) -> (Vec<usize>, HashSet<usize>) {
    let callees: Vec<Vec<usize>> = (forest.iter())
        .map(|(_, tree)| {
            calls(tree)
                .filter_map(|id| places.get(&id).copied())
                .collect()
        })
        .collect();
    // Number of callees that are not in the order yet; never 0 for a function of a cycle.
    let mut pending: Vec<usize> = callees.iter().map(Vec::len).collect();
    let mut callers = vec![Vec::new(); forest.len()];
    for (caller, callees) in callees.iter().enumerate() {
        callees
            .iter()
            .for_each(|callee| callers[*callee].push(caller));
    }
    let mut order: Vec<usize> = (0..forest.len())
        .filter(|place| pending[*place] == 0)
        .collect();
    let mut next = 0;
    while let Some(place) = order.get(next).copied() {
        next += 1;
        for caller in &callers[place] {
            pending[*caller] -= 1;
            if pending[*caller] == 0 {
                order.push(*caller);
            }
        }
    }
    // The rest are in a cycle or call into one; the latter may still inline other functions.
    let left: HashSet<usize> = (0..forest.len())
        .filter(|place| pending[*place] > 0)
        .collect();
    order.extend((0..forest.len()).filter(|place| left.contains(place)));
    (order, left)
}

fn calls(tree: &Tree) -> Box<dyn Iterator<Item = FunctionId> + '_> {
    Box::new(tree.nodes.iter().flat_map(|node| {
        called(node)
            .into_iter()
            .chain(node.regions.iter().flat_map(calls))
    }))
}

/// All functions that a function references.
fn references(tree: &Tree) -> Box<dyn Iterator<Item = FunctionId> + '_> {
    Box::new(tree.nodes.iter().flat_map(|node| {
        let own = node.kernel.functions.iter().map(|(_, id)| *id);
        own.chain(node.regions.iter().flat_map(references))
    }))
}
