//! The rewrite passes between specialisation and placement, and their order.

use crate::layout;
use crate::place::BackendSelector;
use crate::rewrite::{Guard, RuleSet, rewrite};
use crate::specialise::{remove_unused, specialise};
use crate::{clean, fuse};
use tenon_backend::Registry;
use tenon_base::{Control, Result};
use tenon_graph::Graph;

/// The limit of rounds of a pass without a fixed point. The graph is correct after every round.
const MAX_ROUNDS: usize = 20;

/// Optimises the graph for its backends. Layout changes and fusion into matmuls and convolutions
/// depend on the backend that would execute a node: a rewrite never moves a node to a less preferred
/// one.
pub(crate) fn optimise(
    graph: &mut Graph,
    registry: &Registry,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<()> {
    let mut run = |step: &str, rules: &[RuleSet]| -> Result<()> {
        for _ in 0..MAX_ROUNDS {
            control.progress(step, 0, 1)?;
            let changed = rewrite(graph, rules, selector)?;
            specialise(graph, registry, control)?;
            let merged = clean::merge_equal(graph);
            remove_unused(graph);
            if cfg!(debug_assertions) {
                tenon_graph::verify(graph)?;
            }
            if !changed && !merged {
                break;
            }
        }
        Ok(())
    };
    let clean = (clean::RULES, Guard::None);
    run("clean", &[clean])?;
    run("fuse", &[clean, (fuse::PATTERNS, Guard::None)])?;
    if selector
        .all()
        .into_iter()
        .any(layout::prefers_channels_last)
    {
        let images = (layout::IMAGES, Guard::Layout);
        run("lay out", &[clean, images, (layout::RULES, Guard::Backend)])?;
    }
    let views = (clean::VIEW_RULES, Guard::None);
    run("fuse products", &[views, (fuse::PRODUCTS, Guard::Backend)])?;
    run("fuse elementwise", &[(fuse::ELEMENTWISE, Guard::Fast)])
}
