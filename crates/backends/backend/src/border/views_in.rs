//! What a backend made of a subgraph, as it came in.

use super::graph_in::graph;
use super::incoming::{Keep, ids, records, structure, text};
use crate::{FailedPart, OptimisationViews, Substitution};
use tenon_backend_abi as abi;
use tenon_base::Result;
use tenon_graph::{NodeId, ValueId};

/// The four lists, not checked against the subgraph yet.
///
/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn views(told: &abi::Views) -> Result<OptimisationViews> {
    // SAFETY: the caller vouches.
    unsafe {
        let nodes = |told, what| -> Result<Vec<NodeId>> {
            Ok(ids(told, what)?.into_iter().map(NodeId).collect())
        };
        let values = |told, what| -> Result<Vec<ValueId>> {
            Ok(ids(told, what)?.into_iter().map(ValueId).collect())
        };
        let substitutions = records(
            told.substitutions,
            told.substitution_count,
            "the substitutions",
        )?;
        let failed = records(told.failed, told.failed_count, "the failed parts")?;
        Ok(OptimisationViews {
            substitutions: substitutions
                .iter()
                .map(|told| {
                    let replacement = structure(told.replacement, "a replacement")?;
                    Ok(Substitution {
                        nodes: nodes(told.nodes, "the nodes of a substitution")?,
                        inputs: values(told.inputs, "the inputs of a substitution")?,
                        outputs: values(told.outputs, "the outputs of a substitution")?,
                        replacement: graph(&replacement, Keep::Copy)?,
                    })
                })
                .collect::<Result<_>>()?,
            failed: failed
                .iter()
                .map(|told| {
                    let reason = text(told.reason, "the reason of a failed part")?;
                    Ok(FailedPart::new(
                        nodes(told.nodes, "the nodes of a failed part")?,
                        reason,
                    ))
                })
                .collect::<Result<_>>()?,
            untouched: nodes(told.untouched, "the untouched nodes")?,
            deleted: nodes(told.deleted, "the deleted nodes")?,
        })
    }
}
