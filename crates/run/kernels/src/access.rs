//! Which bytes a kernel of a package's program reads and writes.

use crate::workload::Call;
use crate::{Movements, Span, Variables, dma, workload};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_base::Result;
use tenon_bef::Kernel;
use tenon_dma::VariableId;
use tenon_executor::KernelAttributes;

/// Bytes that a kernel touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub span: Span,
    /// Whether it writes them.
    pub writes: bool,
}

/// What `kernel` touches: the memory of the variables it names, or the ranges of its descriptors.
/// Kernels that name no variables touch nothing.
pub fn accesses(
    kernel: &Kernel,
    table: &Arc<Variables>,
    movements: &Movements,
) -> Result<Vec<Access>> {
    let attributes = KernelAttributes::of(kernel);
    let access = |writes| move |&span: &Span| Access { span, writes };
    if kernel.name == workload::NAME {
        let binding = Call::read(attributes)?.binding(table)?;
        let written = binding.written().map(access(true));
        return Ok(binding.read().map(access(false)).chain(written).collect());
    }
    if kernel.name == dma::NAME {
        let mut all = Vec::new();
        for dma::BoundPlan { binding, .. } in &dma::plans(attributes, table, movements)? {
            all.extend(binding.sources().iter().map(access(false)));
            all.push(access(true)(binding.target()));
        }
        return Ok(all);
    }
    Ok(Vec::new())
}

/// The variables that `kernel` writes, in order, each once: the outputs of a workload, the targets
/// of descriptors.
pub fn written_variables(kernel: &Kernel, movements: &Movements) -> Result<Vec<VariableId>> {
    let attributes = KernelAttributes::of(kernel);
    let mut ids = Vec::new();
    if kernel.name == workload::NAME {
        ids.extend(Call::read(attributes)?.outputs());
    } else if kernel.name == dma::NAME {
        ids.extend(dma::targets(attributes, movements)?);
    }
    let mut seen = BTreeSet::new();
    ids.retain(|&id| seen.insert(id));
    Ok(ids)
}
