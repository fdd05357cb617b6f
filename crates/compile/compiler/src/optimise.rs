//! The rewrite passes between specialisation and placement, and their order.

use crate::layout;
use crate::place::BackendSelector;
use crate::rewrite::{Guard, RuleSet, rewrite};
use crate::specialise::{Folding, remove_unused, specialise_with};
use crate::symbolic::OtherSizes;
use crate::traffic::{Containment, Intermediates};
use crate::{clean, fuse, quantize};
use std::collections::BTreeSet;
use tenon_backend::Registry;
use tenon_base::{Control, Result};
use tenon_graph::Graph;

/// The limit of rounds of a pass without a fixed point. The graph is correct after every round.
const MAX_ROUNDS: usize = 20;

/// What optimisation did.
#[derive(Default)]
pub(crate) struct Optimised {
    /// The optimisations that were left out, with the reasons.
    pub notes: Vec<String>,
    /// The intermediate tensors that are in no buffer any more.
    pub fused: Vec<String>,
}

/// A pass.
pub(crate) struct Pass {
    /// Its name, for progress and notes.
    pub name: &'static str,
    pub rules: Vec<RuleSet>,
    /// The constants that are folded between its rounds.
    pub folding: Folding,
}

impl Pass {
    /// A pass with all constants folded.
    pub fn new(name: &'static str, rules: Vec<RuleSet>) -> Self {
        Self {
            name,
            rules,
            folding: Folding::All,
        }
    }
}

/// Optimises the graph for its backends. Layout changes and fusion into matmuls and convolutions
/// depend on the backend that would execute a node: a rewrite never moves a node to a less preferred
/// one.
///
/// In a graph with symbols, a result of a rule that holds for the example sizes alone is undone, and so is a pass after
/// which the graph does not hold for other sizes.
pub(crate) fn optimise(
    graph: &mut Graph,
    registry: &Registry,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<Optimised> {
    let intermediates = Intermediates::of(graph);
    let rules = vec![
        (quantize::MOVEMENTS, Guard::None),
        (quantize::RULES, Guard::Backend),
    ];
    let quantize = Pass {
        folding: Folding::ExceptWeights,
        ..Pass::new("quantize", rules)
    };
    let has_quantized = graph.nodes.iter().any(quantize::is_quantized);
    let preferred = selector.all().into_iter().next();
    if has_quantized && preferred.is_some_and(quantize::prefers_unsigned) {
        quantize::unsigned::activations(graph)?;
    }
    let passes = has_quantized.then_some(quantize).into_iter();
    let passes = passes.chain(passes_of_all(selector)).collect();
    let (notes, contained) = run_passes(graph, passes, registry, selector, control)?;
    let fused = intermediates.without_buffer(graph, &contained);
    Ok(Optimised { notes, fused })
}

/// The same for these passes. Returns what was left out, and values whose elements are in others.
pub(crate) fn run_passes(
    graph: &mut Graph,
    passes: Vec<Pass>,
    registry: &Registry,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<(Vec<String>, Containment)> {
    let sizes = OtherSizes::accepted_by(graph);
    let mut notes = BTreeSet::new();
    let mut contained = Containment::default();
    graph.nodes.iter().for_each(|node| contained.add(node));
    for pass in passes {
        let before = (!graph.symbols.is_empty()).then(|| (graph.clone(), contained.len()));
        let (environment, found) = ((registry, selector, control), &mut contained);
        let done = run(graph, &pass, environment, &sizes, found);
        let name = pass.name;
        control.check()?;
        let Some((before, length)) = before else {
            done?;
            continue;
        };
        let checked = done.and_then(|undone| sizes.check(graph, &before).map(|()| undone));
        match checked {
            Ok(undone) => notes.extend(undone),
            Err(error) => {
                notes.insert(format!("the pass '{name}' is left out: {error}"));
                *graph = before;
                contained.truncate(length);
            }
        }
    }
    Ok((notes.into_iter().collect(), contained))
}

/// The passes of every graph, in order.
fn passes_of_all(selector: &BackendSelector<'_>) -> Vec<Pass> {
    let clean = (clean::RULES, Guard::None);
    let mut passes = vec![
        Pass::new("clean", vec![clean]),
        Pass::new("fuse", vec![clean, (fuse::PATTERNS, Guard::None)]),
    ];
    if selector
        .all()
        .into_iter()
        .any(layout::prefers_channels_last)
    {
        let images = (layout::IMAGES, Guard::Layout);
        let rules = vec![clean, images, (layout::RULES, Guard::Backend)];
        passes.push(Pass::new("lay out", rules));
    }
    let views = (clean::VIEW_RULES, Guard::None);
    let products = (fuse::PRODUCTS, Guard::Backend);
    passes.push(Pass::new("fuse products", vec![views, products]));
    let elementwise = (fuse::ELEMENTWISE, Guard::Fast);
    passes.push(Pass::new("fuse elementwise", vec![elementwise]));
    passes
}

/// Runs a pass until nothing changes. Returns the results of rules that were undone, and adds to `contained`.
fn run(
    graph: &mut Graph,
    pass: &Pass,
    (registry, selector, control): (&Registry, &BackendSelector<'_>, &Control),
    sizes: &OtherSizes,
    contained: &mut Containment,
) -> Result<BTreeSet<String>> {
    let mut undone = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        control.progress(pass.name, 0, 1)?;
        let rewritten = rewrite(graph, &pass.rules, selector, (sizes, control))?;
        undone.extend(rewritten.undone);
        contained.extend(rewritten.contained);
        specialise_with(graph, registry, control, (false, pass.folding))?;
        let merged = clean::merge_equal(graph);
        for &(replaced, by) in &merged {
            contained.add_equal(replaced, by);
        }
        remove_unused(graph);
        if cfg!(debug_assertions) {
            tenon_graph::verify(graph)?;
        }
        if !rewritten.changed && merged.is_empty() {
            break;
        }
    }
    if pass.folding != Folding::All {
        specialise_with(graph, registry, control, (false, Folding::All))?;
    }
    Ok(undone)
}
