//! The passes between specialising and placing, and the order they run in.

use crate::layout::{self, Preference};
use crate::rewrite::{Rule, rewrite};
use crate::specialise::{remove_unused, specialise};
use crate::{clean, fuse};
use tenon_backend::Registry;
use tenon_base::{Control, Result};
use tenon_graph::Graph;

/// A pass that still changes the graph after so many rounds is stopped: the graph is right at any
/// time, only not as short as it could be.
const MAX_ROUNDS: usize = 20;

/// Brings the graph into the form that backends are fast at.
pub(crate) fn optimise(
    graph: &mut Graph,
    registry: &Registry,
    preference: Preference,
    control: &Control,
) -> Result<()> {
    let mut run = |step: &str, rules: &[&[Rule]]| -> Result<()> {
        let rules = rules.concat();
        for _ in 0..MAX_ROUNDS {
            control.progress(step, 0, 1)?;
            let changed = rewrite(graph, &rules)?;
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
    run("clean", &[clean::RULES])?;
    run("fuse", &[clean::RULES, fuse::PATTERNS])?;
    if preference == Preference::Nhwc {
        run("lay out", &[clean::RULES, layout::RULES])?;
    }
    run("fuse products", &[clean::VIEW_RULES, fuse::PRODUCTS])
}
