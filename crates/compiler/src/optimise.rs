//! The passes between specialising and placing, and the order they run in.

use crate::layout::Preference;
use crate::{layout, specialise, verify};
use tenon_backend::Registry;
use tenon_base::{Control, Result};
use tenon_graph::Graph;

/// Brings the graph into the form that backends are fast at.
pub(crate) fn optimise(
    graph: &mut Graph,
    registry: &Registry,
    preference: Preference,
    control: &Control,
) -> Result<()> {
    let _ = (registry, preference);
    control.check()?;
    specialise::remove_unused(graph);
    verify::verify(graph, "cleaning")?;
    let _ = layout::preference;
    Ok(())
}
