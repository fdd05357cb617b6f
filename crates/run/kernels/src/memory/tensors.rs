//! The tensors of one execution in memory of backends, and a coherence state for each: where its
//! newest bytes are.
//!
//! A tensor shadows a span of plain memory. Bytes written by a workload of its backend stay in the
//! tensor until another kernel reads a byte of the span: in place if the backend exports the tensor
//! as plain memory, else after a copy to plain memory. Bytes written by other kernels are copied to
//! the tensor when a workload of the backend reads it. Tensors between workloads of one backend are
//! never copied.
//!
//! A backend may work asynchronously: its workloads and copies are commands of a stream ([`Streams`]). The state says
//! where the newest bytes are once the commands have ended; before another stream or the host accesses them, they are
//! ordered.

#![allow(unsafe_code, reason = "bytes of variables")]

use super::resident::{ResidentTensor, ResidentTensors};
use super::streams::{Access, Streams};
use crate::tensor_placement::{Origin, TensorPlacement};
use crate::variables::{Base, Span, Variables};
use std::sync::Arc;
use tenon_backend::{
    Backend, DeviceTensor, ImportedMemory, MemorySource, RawOperand, TensorHandle,
};
use tenon_base::{Error, ErrorKind, Result};

#[derive(Default)]
pub(super) struct Tensors {
    pub streams: Streams,
    slots: Vec<Slot>,
    /// The positions of slots with current bytes, except constants: few, since a write invalidates
    /// overlapping tensors.
    held: Vec<usize>,
    /// The caller's ports whose memory does not stay in later executions.
    passing: Vec<Base>,
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
    /// Whether no kernel writes the span.
    read_only: bool,
    /// The tensor, created on first use.
    handle: Option<Box<dyn TensorHandle>>,
    /// The stream of its backend, `None` if that works synchronously.
    stream: Option<usize>,
    newest: Newest,
    /// What commands of streams still access it.
    accesses: Vec<Access>,
}

/// The location of the newest bytes of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newest {
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

    pub fn extend(&mut self, placements: Vec<Arc<TensorPlacement>>, table: &Variables) {
        self.slots
            .extend(placements.into_iter().map(|placement| Slot {
                constant: table.is_constant(&placement.span),
                read_only: !table.is_writable(&placement.span),
                placement,
                handle: None,
                stream: None,
                newest: Newest::Plain,
                accesses: Vec::new(),
            }));
        self.held.reserve(self.slots.len());
    }

    /// Begins an execution: only constants keep their bytes. The memory of the ports `passing` does not stay.
    pub fn begin(&mut self, passing: impl Iterator<Item = Base>) {
        self.passing.clear();
        self.passing.extend(passing);
        for index in self.held.drain(..) {
            self.slots[index].newest = Newest::Plain;
        }
    }

    /// Takes the tensors that earlier executions imported from the caller's memory.
    pub fn take_imported(
        &mut self,
        imported: &mut ImportedTensors,
        of_caller: impl Fn(&Span) -> bool,
    ) -> Result<()> {
        for index in 0..self.slots.len() {
            if self.is_made_of(index, &of_caller) {
                let handle = imported.0.get_mut(index).and_then(Option::take);
                let slot = &mut self.slots[index];
                if handle.is_some() {
                    slot.stream = self.streams.of(&slot.placement.backend)?;
                }
                slot.handle = handle;
            }
        }
        Ok(())
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

    /// Takes the tensors of ports that stayed in memory of their backends.
    pub fn take_resident(&mut self, resident: &mut ResidentTensors) -> Result<()> {
        // All streams before the first tensor is moved: after an error none is lost.
        for tensor in &resident.tensors {
            let stream = self.streams.of(&tensor.placement.backend)?;
            self.slots[tensor.position].stream = stream;
        }
        for tensor in resident.tensors.drain(..) {
            self.slots[tensor.position].handle = Some(tensor.handle);
            if tensor.newest != Newest::Plain {
                self.mark_held(tensor.position, tensor.newest);
            }
        }
        Ok(())
    }

    /// The position at which a tensor of the application may be the value of a port; `None` where no workload has the
    /// port in memory of that kind.
    pub fn position_of(&mut self, port: Base, tensor: &DeviceTensor) -> Result<Option<usize>> {
        let fits = |slot: &Slot| {
            let TensorPlacement {
                span,
                factory,
                origin,
                ..
            } = &*slot.placement;
            let is_whole = span.base == port && span.len == tensor.ty().bytes();
            is_whole && *origin == Origin::Allocated && *factory == *tensor.factory()
        };
        let Some(position) = self.slots.iter().position(fits) else {
            return Ok(None);
        };
        let slot = &mut self.slots[position];
        slot.stream = self.streams.of(&slot.placement.backend)?;
        Ok(Some(position))
    }

    /// Makes a tensor of the application the newest value at a position of [`position_of`](Self::position_of).
    pub fn adopt(&mut self, position: usize, tensor: DeviceTensor) {
        self.slots[position].handle = Some(tensor.into_handle());
        self.mark_held(position, Newest::Backend);
    }

    /// Returns the tensors of ports whose values stay in memory of their backends.
    pub fn return_resident(&mut self, resident: &mut ResidentTensors) {
        for (position, slot) in self.slots.iter_mut().enumerate() {
            if slot.placement.origin != Origin::Allocated || !resident.has(&slot.placement.span) {
                continue;
            }
            if let Some(handle) = slot.handle.take() {
                resident.tensors.push(ResidentTensor {
                    position,
                    placement: slot.placement.clone(),
                    handle,
                    newest: std::mem::replace(&mut slot.newest, Newest::Plain),
                });
                self.held.retain(|&held| held != position);
            }
        }
    }

    /// Whether a tensor is imported, directly or not, from plain memory that is `chosen`.
    fn is_made_of(&self, index: usize, chosen: impl Fn(&Span) -> bool) -> bool {
        let placement = &self.slots[self.root(index)].placement;
        placement.origin == Origin::Plain && chosen(&placement.span)
    }

    /// The stream in which workloads of a backend enqueue their work, `None` if it works synchronously.
    pub fn stream_of(&mut self, backend: &Arc<dyn Backend>) -> Result<Option<usize>> {
        self.streams.of(backend)
    }

    /// Makes the newest bytes of an operand available where it will be read. All operands of a kernel are prepared
    /// before the first one is [accessed](Self::access): copies of several are then under way together.
    ///
    /// # Safety
    /// `plain` must return the address of the bytes of any span of this execution: valid,
    /// initialised, and not accessed by another thread or reference during the call, nor, but through this value,
    /// until the streams are finished.
    pub unsafe fn prepare_read(
        &mut self,
        (span, position): OperandSpan<'_>,
        plain: Plain<'_>,
    ) -> Result<()> {
        // SAFETY: the caller guarantees the condition of this function for `plain`.
        unsafe {
            match position {
                Some(position) => self.refresh(position, plain),
                None if self.shared(span).is_some() => Ok(()),
                None => self.write_back(span, plain),
            }
        }
    }

    /// Prepares an operand to be written by a workload of the stream `by`, or on the host: its old bytes are gone.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    pub unsafe fn prepare_write(
        &mut self,
        (span, position): OperandSpan<'_>,
        by: Option<usize>,
        plain: Plain<'_>,
    ) -> Result<()> {
        let root = position.map(|position| self.root(position));
        // SAFETY: the caller guarantees the condition of this function for `plain`.
        unsafe {
            self.overwrite(span, root, by, plain)?;
            if let (Some(position), Some(root)) = (position, root) {
                self.make(position, plain)?;
                self.mark_held(root, Newest::Backend);
            }
        }
        Ok(())
    }

    /// The location of a prepared operand, `None` for plain memory, once the stream `by`, or the host, may access it:
    /// for a stream, in its next command. Tensors exported to the CPU are read in place; later writes of the span do
    /// not modify them.
    pub fn access(
        &mut self,
        (span, position): OperandSpan<'_>,
        by: Option<usize>,
        writes: bool,
    ) -> Result<Option<RawOperand>> {
        let Some(position) = position else {
            // An operand of a workload of the stream that is not in its memory is not read.
            if by.is_some() {
                return Ok(None);
            }
            self.streams.settle_plain(span, writes, None)?;
            for held in 0..self.held.len() {
                let slot = &mut self.slots[self.held[held]];
                if slot.placement.span.overlaps(span) && slot.shares_plain_memory() {
                    self.streams.access(None, &mut slot.accesses, writes)?;
                }
            }
            return Ok(if writes { None } else { self.shared(span) });
        };
        let root = self.root(position);
        let slot = &mut self.slots[root];
        if slot.is_plain() {
            self.streams.settle_plain(span, writes, by)?;
        }
        self.streams.access(by, &mut slot.accesses, writes)?;
        self.operand(position).map(Some)
    }

    /// Prepares a span of plain memory to be read on the host and returns the location of its newest bytes, `None` for
    /// plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    pub unsafe fn read_on_host(
        &mut self,
        span: &Span,
        plain: Plain<'_>,
    ) -> Result<Option<RawOperand>> {
        // SAFETY: the caller guarantees the condition of this function for `plain`.
        unsafe { self.prepare_read((span, None), plain)? };
        self.access((span, None), None, false)
    }

    /// Prepares a span of plain memory to be written on the host.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    pub unsafe fn write_on_host(&mut self, span: &Span, plain: Plain<'_>) -> Result<()> {
        // SAFETY: the caller guarantees the condition of this function for `plain`.
        unsafe { self.prepare_write((span, None), None, plain)? };
        self.access((span, None), None, true).map(drop)
    }

    /// The newest bytes of a span, if they are in a single tensor that the CPU may read in place.
    fn shared(&self, span: &Span) -> Option<RawOperand> {
        let handle = self.slots[self.shared_slot(span)?].handle.as_ref()?;
        Some(RawOperand::new(handle.start(), span.len))
    }

    /// The position of that tensor.
    fn shared_slot(&self, span: &Span) -> Option<usize> {
        let newest = |index: &&usize| {
            let slot = &self.slots[**index];
            slot.newest == Newest::Backend && slot.placement.span.overlaps(span)
        };
        let mut slots = self.held.iter().filter(newest);
        let (&index, None) = (slots.next()?, slots.next()) else {
            return None;
        };
        let slot = &self.slots[index];
        let readable = slot.is_exported() && slot.placement.span == *span;
        (readable && slot.handle.is_some()).then_some(index)
    }

    /// Copies the newest bytes of a span to plain memory. The copies may be commands that are not finished.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    pub unsafe fn write_back(&mut self, span: &Span, plain: Plain<'_>) -> Result<()> {
        // SAFETY: the caller guarantees the condition of `prepare_read` for `plain`.
        unsafe { self.write_back_all(|own| own.overlaps(span), plain) }
    }

    /// Copies the newest bytes of all `chosen` spans to plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    pub unsafe fn write_back_all(
        &mut self,
        chosen: impl Fn(&Span) -> bool,
        plain: Plain<'_>,
    ) -> Result<()> {
        for held in 0..self.held.len() {
            let slot = &mut self.slots[self.held[held]];
            if slot.newest == Newest::Backend && chosen(&slot.placement.span) {
                // SAFETY: the caller guarantees the condition of `prepare_read` for `plain`.
                unsafe { slot.copy_out(&mut self.streams, plain)? };
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
    /// As for [`Tensors::prepare_read`].
    unsafe fn refresh(&mut self, position: usize, plain: Plain<'_>) -> Result<()> {
        let root = self.root(position);
        // SAFETY: the caller guarantees the condition of `prepare_read` for `plain`.
        unsafe {
            self.make(position, plain)?;
            if self.slots[root].newest == Newest::Plain {
                let span = self.slots[root].placement.span;
                let shared = if self.slots[root].is_plain() {
                    None
                } else {
                    self.shared_slot(&span)
                };
                let start = match shared {
                    Some(other) => {
                        let by = self.slots[root].stream;
                        let slot = &mut self.slots[other];
                        self.streams.access(by, &mut slot.accesses, false)?;
                        slot.start()?
                    }
                    None => {
                        self.write_back(&span, plain)?;
                        self.streams.settle_plain(&span, false, None)?;
                        plain(&span)?
                    }
                };
                self.slots[root].copy_in(&mut self.streams, start)?;
                self.mark_held(root, Newest::Both);
            }
        }
        Ok(())
    }

    /// Invalidates the tensors that overlap a span about to be written, in plain memory or in the
    /// tensor `except`; bytes of theirs outside the span are first copied to plain memory.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    unsafe fn overwrite(
        &mut self,
        span: &Span,
        except: Option<usize>,
        by: Option<usize>,
        plain: Plain<'_>,
    ) -> Result<()> {
        for held in (0..self.held.len()).rev() {
            let index = self.held[held];
            let slot = &mut self.slots[index];
            if Some(index) == except || !slot.placement.span.overlaps(span) {
                continue;
            }
            if slot.newest == Newest::Backend && !span.holds(&slot.placement.span) {
                // SAFETY: the caller guarantees the condition of `prepare_read` for `plain`.
                unsafe { slot.copy_out(&mut self.streams, plain)? };
            }
            if slot.shares_plain_memory() {
                self.streams.access(by, &mut slot.accesses, true)?;
            }
            slot.newest = Newest::Plain;
            self.held.swap_remove(held);
        }
        Ok(())
    }

    /// Creates the tensor at a position, and those that it is imported from.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`]; and plain memory that is imported must outlive the tensor, or the
    /// tensor must be dropped before by `return_imported`.
    unsafe fn make(&mut self, position: usize, plain: Plain<'_>) -> Result<()> {
        if self.slots[position].handle.is_some() {
            return Ok(());
        }
        let placement = self.slots[position].placement.clone();
        let (factory, bytes) = (&*placement.factory.id, placement.span.len);
        let root = &self.slots[self.root(position)];
        let (base, is_read_only) = (root.placement.span.base, root.read_only);
        let is_long_lived = !self.passing.contains(&base);
        let import = |start, source| {
            let memory = ImportedMemory {
                start,
                bytes,
                source,
                is_long_lived,
                is_read_only,
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
                // SAFETY: the caller guarantees the condition of `prepare_read` for `plain`.
                unsafe { self.make(of, plain)? };
                let made = self.slots[of].handle.as_ref();
                import(made.ok_or_else(|| missing(of))?.start(), source)?
            }
        };
        let slot = &mut self.slots[position];
        slot.handle = Some(made);
        slot.stream = self.streams.of(&placement.backend)?;
        Ok(())
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        // Commands, if any are pending, access the tensors.
        self.streams = Streams::default();
        // In reverse order: a tensor may be imported from an earlier one.
        while self.slots.pop().is_some() {}
    }
}

impl Slot {
    /// Whether the tensor is imported plain memory, so that copies are unnecessary.
    fn is_plain(&self) -> bool {
        self.placement.origin == Origin::Plain
    }

    /// Whether kernels of the host and of other backends read it in place.
    fn is_exported(&self) -> bool {
        let factory = &self.placement.factory;
        factory.export.contains(MemorySource::Malloc) && !factory.padding && !self.is_plain()
    }

    /// Whether its memory may be accessed without a copy by others than its backend.
    fn shares_plain_memory(&self) -> bool {
        self.is_plain() || self.is_exported()
    }

    fn start(&self) -> Result<*const u8> {
        let missing = || Error::new(ErrorKind::Internal, "a tensor is not made");
        Ok(self.handle.as_ref().ok_or_else(missing)?.start())
    }

    /// Copies the span's bytes in, by a command if its backend has a stream.
    ///
    /// # Safety
    /// The bytes of the span must be at `start`, valid and, but through `streams`, not written until the streams are
    /// finished.
    unsafe fn copy_in(&mut self, streams: &mut Streams, start: *const u8) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        let Some(handle) = &mut self.handle else {
            return Ok(());
        };
        let span = self.placement.span;
        streams.access(self.stream, &mut self.accesses, true)?;
        match self.stream {
            Some(stream) => {
                let bytes = std::ptr::slice_from_raw_parts(start, span.len);
                // SAFETY: the bytes are valid, and not written until the stream is finished (requirement; writes
                // through `streams` finish it, since the span is added).
                unsafe { handle.enqueue_in(streams.enqueue(stream, None)?, bytes)? };
                streams.add_plain(stream, span, false)
            }
            None => {
                // SAFETY: the caller guarantees that the span's bytes are at `start`, valid and not written during
                // the call.
                handle.copy_in(unsafe { std::slice::from_raw_parts(start, span.len) })
            }
        }
    }

    /// Copies the bytes out to plain memory, by a command if its backend has a stream.
    ///
    /// # Safety
    /// As for [`Tensors::prepare_read`].
    unsafe fn copy_out(&mut self, streams: &mut Streams, plain: Plain<'_>) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        let Some(handle) = &self.handle else {
            return Ok(());
        };
        let span = self.placement.span;
        let start = plain(&span)?;
        streams.access(self.stream, &mut self.accesses, false)?;
        streams.settle_plain(&span, true, self.stream)?;
        match self.stream {
            Some(stream) => {
                let bytes = std::ptr::slice_from_raw_parts_mut(start, span.len);
                // SAFETY: `plain` returns the address of the span's bytes, which nothing accesses until the stream
                // is finished but through `streams`, where the span is added (guaranteed by the caller).
                unsafe { handle.enqueue_out(streams.enqueue(stream, None)?, bytes)? };
                streams.add_plain(stream, span, true)
            }
            None => {
                // SAFETY: `plain` returns the address of the span's `len` bytes, which no other reference accesses
                // during the call (guaranteed by the caller).
                handle.copy_out(unsafe { std::slice::from_raw_parts_mut(start, span.len) })
            }
        }
    }
}

fn missing(position: usize) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("tensor {position} of a backend is not made"),
    )
}
