//! The bytes that a kernel of a package's program reads and writes.

use crate::call::Call;
use crate::{Movements, Span, Variables, dma, movement, workload};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_base::Result;
use tenon_bef::Kernel;
use tenon_dma::VariableId;
use tenon_executor::KernelAttributes;

/// An access of a kernel to a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The bytes.
    pub span: Span,
    /// Whether the kernel writes them.
    pub writes: bool,
}

/// The accesses of `kernel`: the memory of its variables, or the ranges of its descriptors. Kernels
/// without variables have none; those that depend on sizes have theirs in each instance.
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
    if kernel.name != dma::NAME {
        return Ok(Vec::new());
    }
    let descriptors = dma::descriptors(attributes, movements)?;
    let mut all = Vec::new();
    for dma::BoundPlan { binding, .. } in &dma::plans(descriptors.iter(), table, None)? {
        all.extend(binding.sources().iter().map(access(false)));
        all.push(access(true)(binding.target()));
    }
    Ok(all)
}

/// The variables that `kernel` writes, in order and without duplicates: the outputs of a workload,
/// the targets of descriptors.
pub fn written_variables(kernel: &Kernel, movements: &Movements) -> Result<Vec<VariableId>> {
    let attributes = KernelAttributes::of(kernel);
    let mut ids = Vec::new();
    if kernel.name == workload::NAME {
        ids.extend(Call::read(attributes)?.written());
    } else if kernel.name == dma::NAME {
        ids.extend(dma::targets(attributes, movements)?);
    } else if kernel.name == movement::NAME {
        ids.extend(movement::targets(attributes)?);
    }
    let mut seen = BTreeSet::new();
    ids.retain(|&id| seen.insert(id));
    Ok(ids)
}
