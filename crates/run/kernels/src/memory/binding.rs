//! The operands of kernels, checked when they are bound: the soundness of [`Memory`](super::Memory)
//! relies on it.

use super::invalid;
use crate::call::Call;
use crate::variables::{Span, Variables, named};
use std::fmt;
use std::sync::Arc;
use tenon_backend::Backend;
use tenon_base::{Location, Result};
use tenon_dma::{MAX_SOURCES, VariableId};
use tenon_tensor::TensorType;

/// Checked operands of a workload.
pub struct WorkloadBinding {
    pub(super) table: Arc<Variables>,
    pub(super) inputs: Vec<Option<Span>>,
    outputs: Vec<Option<Span>>,
    pub(super) scratch: Option<Span>,
    /// The positions of inputs and outputs in memory of the backend; `None` for plain memory.
    tensors: Vec<Option<usize>>,
    /// The backend of the tensors, and the workload; `None` if it has none.
    pub(super) issuer: Option<(Arc<dyn Backend>, Arc<Call>)>,
}

/// Checked sources and target of a movement; the target overlaps no source.
#[derive(Debug)]
pub struct MoveBinding {
    pub(super) table: Arc<Variables>,
    pub(super) sources: Vec<Span>,
    pub(super) target: Span,
}

impl fmt::Debug for WorkloadBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadBinding")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("scratch", &self.scratch)
            .field("tensors", &self.tensors)
            .finish_non_exhaustive()
    }
}

impl WorkloadBinding {
    /// Binds a workload to variables, `None` for omitted operands; an absent constant is an omitted
    /// input. Rejects outputs and scratch memory that are not writable or overlap other operands,
    /// except an output that has exactly the span of one input (in place).
    pub fn new(
        table: &Arc<Variables>,
        inputs: &[Option<VariableId>],
        outputs: &[Option<VariableId>],
        scratch: Option<VariableId>,
    ) -> Result<Self> {
        let span = |id: &Option<VariableId>| id.map(|id| table.span(id)).transpose();
        let there = |id: &Option<VariableId>| id.filter(|&id| !table.is_absent(id));
        let binding = Self {
            table: table.clone(),
            inputs: inputs
                .iter()
                .map(|id| span(&there(id)))
                .collect::<Result<_>>()?,
            outputs: outputs.iter().map(span).collect::<Result<_>>()?,
            scratch: span(&scratch)?,
            tensors: Vec::new(),
            issuer: None,
        };
        let ids: Vec<VariableId> = outputs.iter().flatten().chain(&scratch).copied().collect();
        binding.check(&ids)?;
        Ok(binding)
    }

    /// Sets the placements of the operands of a workload: `place` returns the position in
    /// [`TensorPlacements`](crate::TensorPlacements) of each operand with a type in `types`, inputs
    /// first; the others are in plain memory.
    pub(crate) fn place(
        &mut self,
        issuer: (&Arc<dyn Backend>, &Arc<Call>),
        types: &[Option<TensorType>],
        mut place: impl FnMut(Span, &TensorType) -> Result<usize>,
    ) -> Result<()> {
        let spans = self.inputs.iter().chain(&self.outputs);
        let placed = spans.zip(types).map(|(span, ty)| {
            let span = span.filter(|span| span.len > 0);
            span.zip(ty.as_ref())
                .map(|(span, ty)| place(span, ty))
                .transpose()
        });
        self.tensors = placed.collect::<Result<_>>()?;
        self.issuer = Some((issuer.0.clone(), issuer.1.clone()));
        Ok(())
    }

    /// The spans of inputs, then outputs, each with the position of its tensor.
    pub(super) fn operands(&self) -> impl Iterator<Item = (Option<&Span>, Option<usize>)> {
        let tensors = self.tensors.iter().copied().chain(std::iter::repeat(None));
        let spans = self.inputs.iter().chain(&self.outputs);
        spans.map(Option::as_ref).zip(tensors)
    }

    /// The spans that are written: outputs, then scratch memory.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Span> {
        self.outputs.iter().flatten().chain(&self.scratch)
    }

    /// The spans that are read.
    pub(crate) fn read(&self) -> impl Iterator<Item = &Span> {
        self.inputs.iter().flatten()
    }

    fn check(&self, ids: &[VariableId]) -> Result<()> {
        let scratch = self.scratch.is_some().then(|| ids.len().saturating_sub(1));
        for (index, (span, &id)) in self.written().zip(ids).enumerate() {
            let place = || {
                self.table
                    .variable(id)
                    .map_or_else(|_| Location::default(), named)
            };
            if !self.table.is_writable(span) {
                return Err(invalid("a kernel writes it, but it is read-only").at(place()));
            }
            if self
                .written()
                .skip(index + 1)
                .any(|other| other.overlaps(span))
            {
                return Err(invalid("a kernel writes the same bytes twice").at(place()));
            }
            let shared = || self.read().filter(|input| input.overlaps(span));
            let in_place = Some(index) != scratch
                && shared().count() == 1
                && shared().all(|input| input == span);
            if shared().next().is_some() && !in_place {
                return Err(invalid("a kernel writes bytes that it reads").at(place()));
            }
        }
        Ok(())
    }
}

impl MoveBinding {
    /// Binds a movement to its sources and its target, which may not overlap.
    pub fn new(table: &Arc<Variables>, sources: Vec<Span>, target: Span) -> Result<Self> {
        if sources.len() > MAX_SOURCES {
            return Err(invalid("too many sources")
                .expected(MAX_SOURCES)
                .found(sources.len()));
        }
        if !table.is_writable(&target) {
            return Err(invalid("a descriptor writes an input or a constant"));
        }
        if sources.iter().any(|source| source.overlaps(&target)) {
            return Err(invalid("a descriptor writes bytes that it reads"));
        }
        Ok(Self {
            table: table.clone(),
            sources,
            target,
        })
    }

    /// The spans that are read.
    pub(crate) fn sources(&self) -> &[Span] {
        &self.sources
    }

    /// The span that is written.
    pub(crate) fn target(&self) -> &Span {
        &self.target
    }
}
