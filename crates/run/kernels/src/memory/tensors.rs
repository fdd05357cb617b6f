//! The tensors of one execution that lie in memory of backends, and where the newest bytes of each
//! are.
//!
//! A tensor stands for a span of plain memory. What a workload of its backend writes stays there
//! until a kernel of someone else reads one of the span's bytes: where it lies when the backend
//! exports it as plain memory, else copied out. What others write is copied in when a workload of
//! the backend reads it. Tensors that pass between workloads of one backend are never copied.

use crate::tensor_placement::{Origin, TensorPlacement};
use crate::variables::Span;
use std::sync::Arc;
use tenon_backend::{ImportedMemory, MemorySource, RawOperand, TensorHandle};
use tenon_base::{Error, ErrorKind, Result};

#[derive(Default)]
pub(super) struct Tensors {
    slots: Vec<Slot>,
    /// Positions of the slots that hold bytes, constants left out: few, since what is written
    /// takes the place of what was there.
    held: Vec<usize>,
}

/// Tensors made of memory of the caller that stays between executions, by position.
#[derive(Default)]
pub(super) struct ImportedTensors(Vec<Option<Box<dyn TensorHandle>>>);

impl ImportedTensors {
    /// Drops them.
    pub fn clear(&mut self) {
        // What is made of another goes first.
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
    /// The same in all executions.
    constant: bool,
    /// Made when first needed.
    handle: Option<Box<dyn TensorHandle>>,
    newest: Newest,
}

/// Where the newest bytes of a span are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    Plain,
    Both,
    Backend,
}

/// The first byte of a span in plain memory.
pub(super) type Plain<'a> = &'a dyn Fn(&Span) -> Result<*mut u8>;

/// The operand of a kernel: its span, and the position of its tensor when a backend has it.
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

    /// An execution begins: all but constants is new.
    pub fn begin(&mut self) {
        for index in self.held.drain(..) {
            self.slots[index].newest = Newest::Plain;
        }
    }

    /// Takes what was made of the caller's memory before.
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

    /// Gives back what is made of the caller's memory where that `stays`, and drops the others.
    pub fn return_imported(
        &mut self,
        imported: &mut ImportedTensors,
        of_caller: impl Fn(&Span) -> bool,
        stays: impl Fn(&Span) -> bool,
    ) {
        // What is made of another goes first.
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

    /// Whether a tensor is made of plain memory that is `chosen`.
    fn is_made_of(&self, index: usize, chosen: impl Fn(&Span) -> bool) -> bool {
        let placement = &self.slots[self.root(index)].placement;
        placement.origin == Origin::Plain && chosen(&placement.span)
    }

    /// A kernel is about to read an operand: where its newest bytes are, `None` for plain memory.
    /// Tensors whose memory is exported to the CPU are read where they lie; what a kernel writes
    /// afterwards changes nothing there.
    ///
    /// # Safety
    /// `plain` answers where the bytes of spans lie, which nobody else touches during the call.
    pub unsafe fn read(
        &mut self,
        (span, position): OperandSpan<'_>,
        plain: Plain<'_>,
    ) -> Result<Option<RawOperand>> {
        let Some(position) = position else {
            let shared = self.shared(span);
            if shared.is_none() {
                // SAFETY: the caller vouches.
                unsafe { self.write_back(span, plain)? };
            }
            return Ok(shared);
        };
        // SAFETY: as above.
        unsafe { self.refresh(position, plain)? };
        self.operand(position).map(Some)
    }

    /// A kernel is about to write an operand: where, `None` for plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    pub unsafe fn write(
        &mut self,
        (span, position): OperandSpan<'_>,
        plain: Plain<'_>,
    ) -> Result<Option<RawOperand>> {
        let root = position.map(|position| self.root(position));
        // SAFETY: the caller vouches.
        unsafe { self.overwrite(span, root, plain)? };
        let (Some(position), Some(root)) = (position, root) else {
            return Ok(None);
        };
        // SAFETY: as above.
        unsafe { self.make(position, plain)? };
        self.mark_held(root, Newest::Backend);
        self.operand(position).map(Some)
    }

    /// The newest bytes of a span, when they are in one tensor alone and the CPU may read them
    /// there.
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

    /// Has the newest bytes of a span in plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    pub unsafe fn write_back(&mut self, span: &Span, plain: Plain<'_>) -> Result<()> {
        // SAFETY: the caller vouches.
        unsafe { self.write_back_all(|own| own.overlaps(span), plain) }
    }

    /// Has the newest bytes of all spans that are `chosen` in plain memory.
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
                // SAFETY: the caller vouches.
                unsafe { slot.copy_out(plain)? };
                slot.newest = Newest::Both;
            }
        }
        Ok(())
    }

    /// Where the tensor of a position starts.
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

    /// The tensor whose bytes that of a position are.
    fn root(&self, mut position: usize) -> usize {
        while let Origin::Tensor(of, _) = self.slots[position].placement.origin {
            position = of;
        }
        position
    }

    /// Has the newest bytes in the tensor of a position.
    ///
    /// # Safety
    /// As for [`Tensors::read`].
    unsafe fn refresh(&mut self, position: usize, plain: Plain<'_>) -> Result<()> {
        let root = self.root(position);
        // SAFETY: the caller vouches.
        unsafe {
            self.make(position, plain)?;
            if self.slots[root].newest == Newest::Plain {
                let span = self.slots[root].placement.span;
                let shared = match self.slots[root].is_plain() {
                    true => None,
                    false => self.shared(&span),
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

    /// A span is about to be written, in plain memory or in the tensor `except`: others that hold
    /// bytes of it are old then, and give first what is not written.
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
                // SAFETY: the caller vouches.
                unsafe { slot.copy_out(plain)? };
            }
            slot.newest = Newest::Plain;
            self.held.swap_remove(held);
        }
        Ok(())
    }

    /// Makes the tensor of a position, and those that it is made of.
    ///
    /// # Safety
    /// As for [`Tensors::read`]; the memory of the span outlives the tensor, or is told to leave.
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
            // SAFETY: the caller vouches for plain memory; a tensor of this list outlives those
            // made of it, which are dropped together with it.
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
                // SAFETY: the caller vouches.
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
        // What is made of another goes first.
        while self.slots.pop().is_some() {}
    }
}

impl Slot {
    /// Whether its bytes are those in plain memory.
    fn is_plain(&self) -> bool {
        self.placement.origin == Origin::Plain
    }

    /// # Safety
    /// The span's bytes are at `start`, and nobody writes them meanwhile.
    unsafe fn copy_in(&mut self, start: *const u8) -> Result<()> {
        if !self.is_plain()
            && let Some(handle) = &mut self.handle
        {
            // SAFETY: the caller vouches.
            handle
                .copy_in(unsafe { std::slice::from_raw_parts(start, self.placement.span.len) })?;
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
            // SAFETY: the span's bytes, which nobody else touches meanwhile (the caller vouches).
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
