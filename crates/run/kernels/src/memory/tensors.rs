//! The tensors of one execution in memory of backends, and a coherence state for each: where its
//! newest bytes are.
//!
//! A tensor shadows a span of plain memory. Bytes written by a workload of its backend stay in the
//! tensor until another kernel reads a byte of the span: in place if the backend exports the tensor
//! as plain memory, else after a copy to plain memory. Bytes written by other kernels are copied to
//! the tensor when a workload of the backend reads it. Tensors between workloads of one backend are
//! never copied.

#![allow(unsafe_code, reason = "bytes of variables")]

use crate::tensor_placement::{Origin, TensorPlacement};
use crate::variables::Span;
use std::sync::Arc;
use tenon_backend::{ImportedMemory, MemorySource, RawOperand, TensorHandle};
use tenon_base::{Error, ErrorKind, Result};

#[derive(Default)]
pub(super) struct Tensors {
    slots: Vec<Slot>,
    /// The positions of slots with current bytes, except constants: few, since a write invalidates
    /// overlapping tensors.
    held: Vec<usize>,
}

/// Tensors imported from memory of the caller that stays bound between executions, by position.
#[derive(Default)]
pub(super) struct ImportedTensors(Vec<Option<Box<dyn TensorHandle>>>);

impl ImportedTensors {
    /// Drops all tensors.
    pub fn clear(&mut self) {
        // In reverse order: a tensor may be imported from an earlier one.
        while self.0.pop().is_some() {}
    }
}

impl Drop for ImportedTensors {
    fn drop(&mut self) {
        self.clear();
    }
}

struct Slot {
    placement: Arc<TensorPlacement>,
    /// Whether the span is a constant, the same in all executions.
    constant: bool,
    /// The tensor, created on first use.
    handle: Option<Box<dyn TensorHandle>>,
    newest: Newest,
}

/// The location of the newest bytes of a span.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    Plain,
    Both,
    Backend,
}

/// Returns the address of the first byte of a span in plain memory.
pub(super) type Plain<'a> = &'a dyn Fn(&Span) -> Result<*mut u8>;

/// An operand of a kernel: its span, and the position of its tensor if it has one.
pub(super) type OperandSpan<'a> = (&'a Span, Option<usize>);

impl Tensors {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn extend(
        &mut self,
        placements: Vec<Arc<TensorPlacement>>,
        is_constant: impl Fn(&Span) -> bool,
    ) {
        self.slots
            .extend(placements.into_iter().map(|placement| Slot {
                constant: is_constant(&placement.span),
                placement,
                handle: None,
                newest: Newest::Plain,
            }));
        self.held.reserve(self.slots.len());
    }

    /// Begins an execution: only constants keep their bytes.
    pub fn begin(&mut self) {
        for index in self.held.drain(..) {
            self.slots[index].newest = Newest::Plain;
        }
    }

    /// Takes the tensors that earlier executions imported from the caller's memory.
    pub fn take_imported(
        &mut self,
        imported: &mut ImportedTensors,
        of_caller: impl Fn(&Span) -> bool,
    ) {
        for index in 0..self.slots.len() {
            if self.is_made_of(index, &of_caller) {
                self.slots[index].handle = imported.0.get_mut(index).and_then(Option::take);
            }
        }
    }

    /// Returns the tensors imported from the caller's memory where that `stays` bound, and drops
    /// the others.
    pub fn return_imported(
        &mut self,
        imported: &mut ImportedTensors,
        of_caller: impl Fn(&Span) -> bool,
        stays: impl Fn(&Span) -> bool,
    ) {
        // In reverse order: a tensor may be imported from an earlier one.
        for index in (0..self.slots.len()).rev() {
            if !self.is_made_of(index, &of_caller) {
                continue;
            }
            let handle = self.slots[index].handle.take();
            if handle.is_some() && stays(&self.slots[index].placement.span) {
                if imported.0.len() <= index {
                    imported.0.resize_with(self.slots.len(), || None);
                }
                imported.0[index] = handle;
            }
        }
    }

    /// Whether a tensor is imported, directly or not, from plain memory that is `chosen`.
    fn is_made_of(&self, index: usize, chosen: impl Fn(&Span) -> bool) -> bool {
        let placement = &self.slots[self.root(index)].placement;
        placement.origin == Origin::Plain && chosen(&placement.span)
    }

    /// Prepares an operand to be read; returns the location of its newest bytes, `None` for plain
    /// memory. Tensors exported to the CPU are read in place; later writes of the span do not
    /// modify them.
    ///
    /// # Safety
    /// `plain` must return the address of the bytes of any span of this execution: valid,
    /// initialised, and not accessed by another thread or reference during the call.
    pub unsafe fn read(
        &mut self,
        (span, position): OperandSpan<'_>,
        plain: Plain<'_>,
    ) -> Result<Option<RawOperand>> {
        let Some(position) = position else {
            let shared = self.shared(span);
            if shared.is_none() {
                // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans
                // without concurrent access.
                unsafe { self.write_back(span, plain)? };
            }
            return Ok(shared);
        };
        // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans without
        // concurrent access.
        unsafe { self.refresh(position, plain)? };
        self.operand(position).map(Some)
    }

    /// Prepares an operand to be written; returns its location, `None` for plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    pub unsafe fn write(
        &mut self,
        (span, position): OperandSpan<'_>,
        plain: Plain<'_>,
    ) -> Result<Option<RawOperand>> {
        let root = position.map(|position| self.root(position));
        // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans without
        // concurrent access.
        unsafe { self.overwrite(span, root, plain)? };
        let (Some(position), Some(root)) = (position, root) else {
            return Ok(None);
        };
        // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans without
        // concurrent access.
        unsafe { self.make(position, plain)? };
        self.mark_held(root, Newest::Backend);
        self.operand(position).map(Some)
    }

    /// The newest bytes of a span, if they are in a single tensor that the CPU may read in place.
    fn shared(&self, span: &Span) -> Option<RawOperand> {
        let newest =
            |slot: &&Slot| slot.newest == Newest::Backend && slot.placement.span.overlaps(span);
        let mut slots = self
            .held
            .iter()
            .map(|&index| &self.slots[index])
            .filter(newest);
        let (slot, None) = (slots.next()?, slots.next()) else {
            return None;
        };
        let TensorPlacement {
            factory,
            span: whole,
            ..
        } = &*slot.placement;
        let exported = factory.export.contains(MemorySource::Malloc) && !factory.padding;
        let exported = exported && !slot.is_plain();
        let handle = slot.handle.as_ref().filter(|_| exported && whole == span)?;
        Some(RawOperand::new(handle.start(), span.len))
    }

    /// Copies the newest bytes of a span to plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    pub unsafe fn write_back(&mut self, span: &Span, plain: Plain<'_>) -> Result<()> {
        // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans without
        // concurrent access.
        unsafe { self.write_back_all(|own| own.overlaps(span), plain) }
    }

    /// Copies the newest bytes of all `chosen` spans to plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    pub unsafe fn write_back_all(
        &mut self,
        chosen: impl Fn(&Span) -> bool,
        plain: Plain<'_>,
    ) -> Result<()> {
        for held in 0..self.held.len() {
            let slot = &mut self.slots[self.held[held]];
            if slot.newest == Newest::Backend && chosen(&slot.placement.span) {
                // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans
                // without concurrent access.
                unsafe { slot.copy_out(plain)? };
                slot.newest = Newest::Both;
            }
        }
        Ok(())
    }

    /// The operand of the tensor at a position.
    fn operand(&self, position: usize) -> Result<RawOperand> {
        let slot = self.slots.get(position);
        let made = slot.and_then(|slot| Some((slot, slot.handle.as_ref()?)));
        let (slot, handle) = made.ok_or_else(|| missing(position))?;
        Ok(RawOperand::new(handle.start(), slot.placement.span.len))
    }

    fn mark_held(&mut self, position: usize, newest: Newest) {
        let slot = &mut self.slots[position];
        if slot.newest == Newest::Plain && !slot.constant {
            self.held.push(position);
        }
        slot.newest = newest;
    }

    /// The tensor that owns the bytes of the one at a position, through imports.
    fn root(&self, mut position: usize) -> usize {
        while let Origin::Tensor(of, _) = self.slots[position].placement.origin {
            position = of;
        }
        position
    }

    /// Copies the newest bytes to the tensor at a position.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    unsafe fn refresh(&mut self, position: usize, plain: Plain<'_>) -> Result<()> {
        let root = self.root(position);
        // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans without
        // concurrent access.
        unsafe {
            self.make(position, plain)?;
            if self.slots[root].newest == Newest::Plain {
                let span = self.slots[root].placement.span;
                let shared = if self.slots[root].is_plain() {
                    None
                } else {
                    self.shared(&span)
                };
                if shared.is_none() {
                    self.write_back(&span, plain)?;
                }
                let start = shared.map_or_else(|| plain(&span), |shared| Ok(shared.start()))?;
                self.slots[root].copy_in(start)?;
                self.mark_held(root, Newest::Both);
            }
        }
        Ok(())
    }

    /// Invalidates the tensors that overlap a span about to be written, in plain memory or in the
    /// tensor `except`; bytes of theirs outside the span are first copied to plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    unsafe fn overwrite(
        &mut self,
        span: &Span,
        except: Option<usize>,
        plain: Plain<'_>,
    ) -> Result<()> {
        for held in (0..self.held.len()).rev() {
            let index = self.held[held];
            let slot = &mut self.slots[index];
            if Some(index) == except || !slot.placement.span.overlaps(span) {
                continue;
            }
            if slot.newest == Newest::Backend && !span.holds(&slot.placement.span) {
                // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans
                // without concurrent access.
                unsafe { slot.copy_out(plain)? };
            }
            slot.newest = Newest::Plain;
            self.held.swap_remove(held);
        }
        Ok(())
    }

    /// Creates the tensor at a position, and those that it is imported from.
    ///
    /// # Safety
    /// As for [`Tensors::read`]; and plain memory that is imported must outlive the tensor, or the
    /// tensor must be dropped before by `return_imported`.
    unsafe fn make(&mut self, position: usize, plain: Plain<'_>) -> Result<()> {
        if self.slots[position].handle.is_some() {
            return Ok(());
        }
        let placement = self.slots[position].placement.clone();
        let (factory, bytes) = (&*placement.factory.id, placement.span.len);
        let import = |start, source| {
            let memory = ImportedMemory {
                start,
                bytes,
                source,
            };
            // SAFETY: the caller guarantees that plain memory is valid and outlives the tensor; a
            // tensor of this list outlives those imported from it, which come later and are dropped
            // first.
            unsafe {
                placement
                    .backend
                    .import_tensor(factory, &placement.ty, memory)
            }
        };
        let made = match placement.origin {
            Origin::Allocated => placement.backend.tensor_handle(factory, &placement.ty)?,
            Origin::Plain => import(plain(&placement.span)?, MemorySource::Malloc)?,
            Origin::Tensor(of, source) => {
                // SAFETY: the caller guarantees the condition of `read` for `plain`: valid spans
                // without concurrent access.
                unsafe { self.make(of, plain)? };
                let made = self.slots[of].handle.as_ref();
                import(made.ok_or_else(|| missing(of))?.start(), source)?
            }
        };
        self.slots[position].handle = Some(made);
        Ok(())
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        // In reverse order: a tensor may be imported from an earlier one.
        while self.slots.pop().is_some() {}
    }
}

impl Slot {
    /// Whether the tensor is imported plain memory, so that copies are unnecessary.
    fn is_plain(&self) -> bool {
        self.placement.origin == Origin::Plain
    }

    /// # Safety
    /// The bytes of the span must be at `start`, valid and not written during the call.
    unsafe fn copy_in(&mut self, start: *const u8) -> Result<()> {
        if !self.is_plain()
            && let Some(handle) = &mut self.handle
        {
            // SAFETY: the caller guarantees that the span's bytes are at `start`, valid and not
            // written during the call.
            let bytes = unsafe { std::slice::from_raw_parts(start, self.placement.span.len) };
            handle.copy_in(bytes)?;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Tensors::read`].
    unsafe fn copy_out(&self, plain: Plain<'_>) -> Result<()> {
        if !self.is_plain()
            && let Some(handle) = &self.handle
        {
            let Span { len, .. } = self.placement.span;
            // SAFETY: `plain` returns the address of the span's `len` bytes, which no other
            // reference accesses during the call (guaranteed by the caller).
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(plain(&self.placement.span)?, len) };
            handle.copy_out(bytes)?;
        }
        Ok(())
    }
}

fn missing(position: usize) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("tensor {position} of a backend is not made"),
    )
}
