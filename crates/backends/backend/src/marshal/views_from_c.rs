//! Conversion of an optimised subgraph from C.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::from_c::{Ownership, ids, records, structure, text};
use super::graph_from_c::graph;
use crate::{FailedPart, OptimisationViews, Substitution};
use tenon_backend_abi as abi;
use tenon_base::Result;
use tenon_graph::{NodeId, ValueId};

/// The four lists, not yet checked against the subgraph.
///
/// # Safety
/// `raw` is valid (see [`from_c`](super::from_c)).
pub(crate) unsafe fn views(raw: &abi::Views) -> Result<OptimisationViews> {
    // SAFETY: `raw` is valid (requirement): its lists are null or of the stated lengths, with valid
    // structs.
    unsafe {
        let nodes = |raw, what| -> Result<Vec<NodeId>> {
            Ok(ids(raw, what)?.into_iter().map(NodeId).collect())
        };
        let values = |raw, what| -> Result<Vec<ValueId>> {
            Ok(ids(raw, what)?.into_iter().map(ValueId).collect())
        };
        let substitutions = records(
            raw.substitutions,
            raw.substitution_count,
            "the substitutions",
        )?;
        let failed = records(raw.failed, raw.failed_count, "the failed parts")?;
        Ok(OptimisationViews {
            substitutions: substitutions
                .iter()
                .map(|raw| {
                    let replacement = structure(raw.replacement, "a replacement")?;
                    Ok(Substitution {
                        nodes: nodes(raw.nodes, "the nodes of a substitution")?,
                        inputs: values(raw.inputs, "the inputs of a substitution")?,
                        outputs: values(raw.outputs, "the outputs of a substitution")?,
                        replacement: graph(&replacement, Ownership::Copy)?,
                    })
                })
                .collect::<Result<_>>()?,
            failed: failed
                .iter()
                .map(|raw| {
                    let reason = text(raw.reason, "the reason of a failed part")?;
                    Ok(FailedPart::new(
                        nodes(raw.nodes, "the nodes of a failed part")?,
                        reason,
                    ))
                })
                .collect::<Result<_>>()?,
            untouched: nodes(raw.untouched, "the untouched nodes")?,
            deleted: nodes(raw.deleted, "the deleted nodes")?,
        })
    }
}
