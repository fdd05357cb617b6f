//! The rewrite passes between specialisation and placement, and their order.

use crate::layout;
use crate::place::BackendSelector;
use crate::rewrite::{Guard, RuleSet, rewrite};
use crate::specialise::{remove_unused, specialise};
use crate::symbolic::OtherSizes;
use crate::{clean, fuse};
use std::collections::BTreeSet;
use tenon_backend::Registry;
use tenon_base::{Control, Result};
use tenon_graph::Graph;

/// The limit of rounds of a pass without a fixed point. The graph is correct after every round.
const MAX_ROUNDS: usize = 20;

/// A pass: its name, for progress and notes, and its rules.
pub(crate) type Pass = (&'static str, Vec<RuleSet>);

/// Optimises the graph for its backends. Layout changes and fusion into matmuls and convolutions
/// depend on the backend that would execute a node: a rewrite never moves a node to a less preferred
/// one.
///
/// In a graph with symbols, a result of a rule that holds for the example sizes alone is undone, and so is a pass after
/// which the graph does not hold for other sizes. Returns these, with the reasons.
pub(crate) fn optimise(
    graph: &mut Graph,
    registry: &Registry,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<Vec<String>> {
    run_passes(graph, passes(selector), registry, selector, control)
}

/// The same for these passes.
pub(crate) fn run_passes(
    graph: &mut Graph,
    passes: Vec<Pass>,
    registry: &Registry,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<Vec<String>> {
    let sizes = OtherSizes::accepted_by(graph);
    let mut notes = BTreeSet::new();
    for (name, rules) in passes {
        let before = (!graph.symbols.is_empty()).then(|| graph.clone());
        let done = run(graph, (name, &rules), (registry, selector, control), &sizes);
        control.check()?;
        let Some(before) = before else {
            done?;
            continue;
        };
        let checked = done.and_then(|undone| sizes.check(graph, &before).map(|()| undone));
        match checked {
            Ok(undone) => notes.extend(undone),
            Err(error) => {
                notes.insert(format!("the pass '{name}' is left out: {error}"));
                *graph = before;
            }
        }
    }
    Ok(notes.into_iter().collect())
}

/// The passes in order.
fn passes(selector: &BackendSelector<'_>) -> Vec<Pass> {
    let clean = (clean::RULES, Guard::None);
    let mut passes = vec![
        ("clean", vec![clean]),
        ("fuse", vec![clean, (fuse::PATTERNS, Guard::None)]),
    ];
    if selector
        .all()
        .into_iter()
        .any(layout::prefers_channels_last)
    {
        let images = (layout::IMAGES, Guard::Layout);
        let rules = vec![clean, images, (layout::RULES, Guard::Backend)];
        passes.push(("lay out", rules));
    }
    let views = (clean::VIEW_RULES, Guard::None);
    let products = (fuse::PRODUCTS, Guard::Backend);
    passes.push(("fuse products", vec![views, products]));
    passes.push(("fuse elementwise", vec![(fuse::ELEMENTWISE, Guard::Fast)]));
    passes
}

/// Runs a pass until nothing changes. Returns the results of rules that were undone.
fn run(
    graph: &mut Graph,
    (name, rules): (&str, &[RuleSet]),
    (registry, selector, control): (&Registry, &BackendSelector<'_>, &Control),
    sizes: &OtherSizes,
) -> Result<BTreeSet<String>> {
    let mut undone = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        control.progress(name, 0, 1)?;
        let rewritten = rewrite(graph, rules, selector, (sizes, control))?;
        undone.extend(rewritten.undone);
        specialise(graph, registry, control)?;
        let merged = clean::merge_equal(graph);
        remove_unused(graph);
        if cfg!(debug_assertions) {
            tenon_graph::verify(graph)?;
        }
        if !rewritten.changed && !merged {
            break;
        }
    }
    Ok(undone)
}
