//! The operands of kernels, checked when they are bound: [`Memory`](super::Memory) relies on that.

use super::invalid;
use crate::variables::{Span, Variables, named};
use std::sync::Arc;
use tenon_base::Result;
use tenon_dma::{MAX_SOURCES, VariableId};
use tenon_tensor::TensorType;

/// Operands of a workload, checked.
#[derive(Debug)]
pub struct WorkloadBinding {
    pub(super) table: Arc<Variables>,
    pub(super) inputs: Vec<Option<Span>>,
    outputs: Vec<Option<Span>>,
    pub(super) scratch: Option<Span>,
    /// Where the backend has inputs and outputs, when that is not plain memory.
    tensors: Vec<Option<usize>>,
}

/// Sources and target of a movement, checked; they share no byte.
#[derive(Debug)]
pub struct MoveBinding {
    pub(super) table: Arc<Variables>,
    pub(super) sources: Vec<Span>,
    pub(super) target: Span,
}

impl WorkloadBinding {
    /// Binds a workload to variables, `None` where an operand is left out; an input that is an
    /// absent constant is left out too. Refuses outputs and
    /// scratch memory that are not writable or share bytes, except an output that is the very
    /// memory of one input.
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
        };
        let ids: Vec<VariableId> = outputs.iter().flatten().chain(&scratch).copied().collect();
        binding.check(&ids)?;
        Ok(binding)
    }

    /// Says where the backend has inputs and outputs: `place` answers the position in
    /// [`TensorPlacements`](crate::TensorPlacements) of each that has a type in `types`, inputs first; the others are in
    /// plain memory.
    pub(crate) fn place(
        &mut self,
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
        Ok(())
    }

    /// Inputs, then outputs, each with its tensor of a backend.
    pub(super) fn operands(&self) -> impl Iterator<Item = (Option<&Span>, Option<usize>)> {
        let tensors = self.tensors.iter().copied().chain(std::iter::repeat(None));
        let spans = self.inputs.iter().chain(&self.outputs);
        spans.map(Option::as_ref).zip(tensors)
    }

    /// What is written, in the order of outputs, then scratch.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Span> {
        self.outputs.iter().flatten().chain(&self.scratch)
    }

    /// What is read.
    pub(crate) fn read(&self) -> impl Iterator<Item = &Span> {
        self.inputs.iter().flatten()
    }

    fn check(&self, ids: &[VariableId]) -> Result<()> {
        let scratch = self.scratch.is_some().then(|| ids.len().saturating_sub(1));
        for (index, (span, &id)) in self.written().zip(ids).enumerate() {
            let place = named(self.table.variable(id)?);
            if !self.table.is_writable(span) {
                return Err(invalid("a kernel writes it, but it is only read").at(place));
            }
            if self
                .written()
                .skip(index + 1)
                .any(|other| other.overlaps(span))
            {
                return Err(invalid("a kernel writes the same bytes twice").at(place));
            }
            let shared = || self.read().filter(|input| input.overlaps(span));
            let in_place = Some(index) != scratch
                && shared().count() == 1
                && shared().all(|input| input == span);
            if shared().next().is_some() && !in_place {
                return Err(invalid("a kernel writes bytes that it reads").at(place));
            }
        }
        Ok(())
    }
}

impl MoveBinding {
    /// Binds a movement to its sources and its target, which may not share bytes.
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

    /// What is read.
    pub(crate) fn sources(&self) -> &[Span] {
        &self.sources
    }

    /// What is written.
    pub(crate) fn target(&self) -> &Span {
        &self.target
    }
}
