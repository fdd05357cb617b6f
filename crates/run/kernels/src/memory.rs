//! The memory of one execution, and the operands of kernels in it.
//!
//! Soundness rests on four invariants. (1) A binding is checked once, against the table of
//! variables of its [`Memory`]: its spans are inside their memory regions, and written spans are
//! writable and overlap no other operand (except outputs in place); the arena has at least the bytes of
//! the table whenever kernels run, which [`Memory::with`] checks. (2) A `Memory` has pointers to
//! the caller's memory only inside [`Memory::with`], which borrows all of it. (3) Only one kernel
//! at a time has operands, since building them borrows `slots` mutably. (4) Commands of streams that access this memory
//! or the caller's have ended when [`Memory::with`] returns or unwinds: the streams are finished before.

#![allow(unsafe_code, reason = "bytes of variables")]

mod arena;
mod binding;
mod bound_ports;
mod parts;
mod resident;
mod streams;
mod tensors;

pub use binding::{MoveBinding, WorkloadBinding};
pub use bound_ports::BoundPorts;

use crate::BoundKernels;
use crate::tensor_placement::TensorPlacements;
use crate::variables::{Base, Span, Variables};
use arena::Arena;
use bound_ports::{PortBytes, PortTensors};
use parts::PartTimes;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tenon_backend::{Allocator, DeviceTensor, Operands, RawOperand};
use tenon_base::{Error, ErrorKind, Result};
use tenon_dma::{MAX_SOURCES, VariableId};
use tenon_executor::Kernel;
use tenon_tensor::{ALIGNMENT, BufferMut, BufferPool};
use tensors::Tensors;

/// The memory of one execution at a time: the arena, and the caller's inputs and outputs during the
/// execution. It is reused by later executions without allocation.
pub struct Memory {
    table: Arc<Variables>,
    /// The kernels that depend on sizes.
    kernels: BoundKernels,
    placements: Arc<TensorPlacements>,
    /// Declared before the arena, from which some are imported, so that they are dropped first.
    tensors: RefCell<Tensors>,
    /// Owns the arena; accessed only through [`Memory::bases`].
    arena: Arena,
    /// Aligned staging buffers for unaligned inputs, then outputs, of the caller; allocated on
    /// first use.
    staging: Vec<Option<BufferMut>>,
    /// The destinations of staged outputs; null for the others and outside of `with`.
    unaligned: Vec<Cell<*mut u8>>,
    /// The start of each memory region by base; null for the caller's memory outside of `with`.
    bases: Vec<Cell<*mut u8>>,
    /// Operands of the running kernel.
    slots: RefCell<Vec<RawOperand>>,
    parts: PartTimes,
}

// SAFETY: the pointers are to the arena and the staging buffers, which the value owns, to
// constants, which its table keeps alive and no binding writes, and to the caller's memory only
// during `with`, which holds `&mut self`, so that the value cannot be sent.
unsafe impl Send for Memory {}

impl Memory {
    /// Plain memory for executions of the program of `table`.
    pub fn new(table: Arc<Variables>) -> Result<Self> {
        Self::with_placements(table, Arc::default(), None)
    }

    /// The same for a program with tensors in memory of backends (`placements`); the arena is from
    /// `allocator`, which allocates plain memory.
    pub fn with_placements(
        table: Arc<Variables>,
        placements: Arc<TensorPlacements>,
        allocator: Option<&Arc<dyn Allocator>>,
    ) -> Result<Self> {
        let arena = Arena::of(table.arena_bytes(), allocator)?;
        Ok(Self::with_arena(table, placements, arena))
    }

    /// Memory for executions of the program of `table`, without an arena: [`Memory::take_arena`].
    pub fn without_arena(table: Arc<Variables>, placements: Arc<TensorPlacements>) -> Result<Self> {
        Ok(Self::with_arena(table, placements, Arena::empty()?))
    }

    fn with_arena(
        table: Arc<Variables>,
        placements: Arc<TensorPlacements>,
        mut arena: Arena,
    ) -> Self {
        let ports = table.input_bytes().len() + table.output_bytes().len();
        let mut bases = vec![Cell::new(arena.as_mut_ptr())];
        bases.extend((0..ports).map(|_| Cell::new(std::ptr::null_mut())));
        // Constants are never written: bindings reject read-only spans as targets.
        bases.extend(
            table
                .constants()
                .iter()
                .map(|constant| Cell::new(constant.as_ptr().cast_mut())),
        );
        Self {
            arena,
            unaligned: vec![Cell::new(std::ptr::null_mut()); table.output_bytes().len()],
            staging: (0..ports).map(|_| None).collect(),
            bases,
            slots: RefCell::default(),
            placements,
            tensors: RefCell::default(),
            kernels: BoundKernels::default(),
            parts: PartTimes::default(),
            table,
        }
    }

    /// The same with the kernels of an instance, which are bound to its variables.
    pub fn with_kernels(self, kernels: BoundKernels) -> Self {
        Self { kernels, ..self }
    }

    /// The kernel of the instance at a position of its program.
    pub(crate) fn kernel(&self, position: usize) -> Result<&dyn Kernel> {
        self.kernels.get(position).ok_or_else(|| {
            let text = "a kernel runs without those of its instance";
            Error::new(ErrorKind::Internal, text)
        })
    }

    /// Takes an arena from a pool, if it has none.
    pub fn take_arena(&mut self, pool: &Arc<BufferPool>) -> Result<()> {
        if self.arena.bytes() < self.table.arena_bytes() {
            self.set_arena(Arena::Process(pool.take(self.table.arena_bytes())?));
        }
        Ok(())
    }

    /// Returns an arena of [`Memory::take_arena`] to its pool.
    pub fn release_arena(&mut self) -> Result<()> {
        self.set_arena(Arena::empty()?);
        Ok(())
    }

    fn set_arena(&mut self, arena: Arena) {
        // Imported from the old arena.
        let streams = std::mem::take(&mut self.tensors.get_mut().streams);
        self.tensors.take();
        self.tensors.get_mut().streams = streams;
        self.arena = arena;
        self.bases[0].set(self.arena.as_mut_ptr());
    }

    /// The table of its variables.
    pub fn variables(&self) -> &Arc<Variables> {
        &self.table
    }

    /// The allocated bytes: the arena and the staging buffers.
    pub fn bytes(&self) -> usize {
        let staging: usize = self
            .staging
            .iter()
            .flatten()
            .map(|buffer| buffer.len())
            .sum();
        self.arena.bytes() + staging
    }

    /// Calls `run` with the caller's inputs and outputs set; their number and lengths must be those
    /// of the table. Memory that is not aligned to [`ALIGNMENT`] is copied to or from staging
    /// buffers. After an error the contents of the outputs are unspecified.
    pub fn with<'a, R>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a [u8]>,
        outputs: impl IntoIterator<Item = &'a mut [u8]>,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        let inputs = inputs.into_iter().map(PortBytes::Read);
        self.with_ports(inputs, outputs, &mut PortTensors::default(), run)
    }

    /// The same with bound inputs and outputs, whose memory backends import once.
    pub fn with_bound<R>(
        &mut self,
        ports: &mut BoundPorts,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        let table = self.table.clone();
        let (inputs, outputs, tensors) = ports.parts(&table);
        self.with_ports(inputs, outputs, tensors, run)
    }

    fn with_ports<'a, R>(
        &mut self,
        inputs: impl IntoIterator<Item = PortBytes<'a>>,
        outputs: impl IntoIterator<Item = &'a mut [u8]>,
        port_tensors: &mut PortTensors,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        if self.arena.bytes() < self.table.arena_bytes() {
            let text = "an execution without an arena";
            return Err(Error::new(ErrorKind::Internal, text));
        }
        let reset = Reset(&self.bases[1..=self.staging.len()], &self.unaligned);
        let input_bytes = self.table.input_bytes();
        let mut ports = self.bases.iter().skip(1).zip(&mut self.staging);
        let mut given = inputs.into_iter().fuse();
        for (index, &expected) in input_bytes.iter().enumerate() {
            let Some((base, staged)) = ports.next() else {
                break;
            };
            let bytes = match checked("input", index, expected, given.next(), PortBytes::len)? {
                PortBytes::Read(bytes) => bytes,
                PortBytes::Write(bytes) => {
                    base.set(bytes.as_mut_ptr());
                    continue;
                }
            };
            if is_aligned(bytes.as_ptr()) {
                // Inputs are never written: bindings reject read-only spans as targets.
                base.set(bytes.as_ptr().cast_mut());
            } else {
                let staged = stage(staged, expected)?;
                staged.copy_from_slice(bytes);
                base.set(staged.as_mut_ptr());
            }
        }
        let mut targets = outputs.into_iter().fuse();
        let output_bytes = self.table.output_bytes().iter().zip(&self.unaligned);
        for (index, (&expected, unaligned)) in output_bytes.enumerate() {
            let Some((base, staged)) = ports.next() else {
                break;
            };
            let bytes = checked("output", index, expected, targets.next(), |bytes| {
                bytes.len()
            })?;
            if is_aligned(bytes.as_ptr()) {
                base.set(bytes.as_mut_ptr());
            } else {
                base.set(stage(staged, expected)?.as_mut_ptr());
                unaligned.set(bytes.as_mut_ptr());
            }
        }
        if given.next().is_some() || targets.next().is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "too many inputs or outputs",
            ));
        }
        let guard = self.begin_tensors(port_tensors)?;
        let result = run(self).and_then(|done| {
            let stays = |span: &Span| guard.ports.resident.has(span);
            self.end_tensors(stays).map(|()| done)
        });
        drop(guard);
        for (staged, unaligned) in self
            .staging
            .iter()
            .skip(input_bytes.len())
            .zip(&self.unaligned)
        {
            if let (Some(staged), false) = (staged, unaligned.get().is_null()) {
                // SAFETY: `unaligned` points to the caller's output, borrowed mutably for `'a`,
                // whose length was compared with that of `staged` above; the staging buffer is
                // separate memory.
                unsafe {
                    unaligned
                        .get()
                        .copy_from_nonoverlapping(staged.as_ptr(), staged.len())
                };
            }
        }
        drop(reset);
        result
    }

    /// Calls `call` with the operands of a workload.
    pub fn operands<R>(
        &self,
        binding: &WorkloadBinding,
        call: impl FnOnce(&mut Operands<'_>) -> Result<R>,
    ) -> Result<R> {
        self.check(&binding.table)?;
        let mut slots = self.slots.try_borrow_mut().map_err(|_| busy())?;
        slots.clear();
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        let stream = if tensors.is_empty() {
            None
        } else {
            self.prepare(binding, &mut tensors)?
        };
        for (index, (span, position)) in binding.operands().enumerate() {
            // On the host, an input that is read in place is located before the output that takes its span.
            if index == binding.inputs.len() && stream.is_none() && !tensors.is_empty() {
                self.prepare_writes(binding, &mut tensors, None)?;
            }
            let Some(span) = span else {
                slots.push(RawOperand::NONE);
                continue;
            };
            let placed = if tensors.is_empty() {
                None
            } else {
                tensors.access((span, position), stream, index >= binding.inputs.len())?
            };
            slots.push(match placed {
                Some(operand) => operand,
                None => self.raw(span)?,
            });
        }
        if let Some(stream) = stream {
            let (inputs, outputs) = slots.split_at(binding.inputs.len());
            let issuer = binding.issuer.as_ref().map(|(_, call)| call);
            let stream = tensors.streams.enqueue(stream, issuer)?;
            // SAFETY: the tensors are valid until the streams are finished: both belong to this memory, and an
            // execution ends with finishing them. Only commands of streams access them, in the order that `access`
            // made.
            let mut operands = unsafe { Operands::enqueued(inputs, outputs, stream) };
            operands.set_timed(self.is_timed());
            return call(&mut operands);
        }
        let scratch = match &binding.scratch {
            Some(span) => {
                if !tensors.is_empty() {
                    tensors.access((span, None), None, true)?;
                }
                self.raw(span)?
            }
            None => RawOperand::NONE,
        };
        drop(tensors);
        let (inputs, outputs) = slots.split_at(binding.inputs.len());
        // SAFETY: the spans are inside their memory regions, written ones are writable and overlap
        // only in place (checked by `WorkloadBinding::new` for this table). The regions are valid
        // and initialised: the arena is owned, constants are kept by the table, the caller's memory
        // is borrowed by `with` while its pointers are set. Written bytes have no other user: the
        // arena belongs to this execution, outputs are borrowed mutably, and the borrow of `slots`
        // excludes other kernels of this execution. Tensors in memory of backends are valid by the
        // contract of `TensorHandle`, and each belongs to this execution alone.
        let mut operands = unsafe { Operands::new(inputs, outputs, scratch) };
        operands.set_timed(self.is_timed());
        call(&mut operands)
    }

    /// Makes the newest bytes of a workload's inputs available where it reads them; returns the stream that it enqueues
    /// its work in, for which the tensors that it writes are prepared as well.
    fn prepare(&self, binding: &WorkloadBinding, tensors: &mut Tensors) -> Result<Option<usize>> {
        let plain = |span: &Span| self.start(span);
        let backend = binding.issuer.as_ref().map(|(backend, _)| backend);
        let stream = backend
            .map(|backend| tensors.stream_of(backend))
            .transpose()?;
        let stream = stream.flatten();
        for (span, position) in binding.operands().take(binding.inputs.len()) {
            let Some(span) = span else { continue };
            if position.is_some() || backend.is_none() {
                // SAFETY: `plain` returns the start of spans inside their regions (checked when bound), and no other
                // kernel of this execution accesses them while `slots` is borrowed (by the caller), nor until the
                // streams are finished but through `tensors`.
                unsafe { tensors.prepare_read((span, position), &plain)? };
            }
        }
        if stream.is_some() {
            self.prepare_writes(binding, tensors, stream)?;
        }
        Ok(stream)
    }

    /// Prepares the outputs and the scratch memory of a workload to be written.
    fn prepare_writes(
        &self,
        binding: &WorkloadBinding,
        tensors: &mut Tensors,
        stream: Option<usize>,
    ) -> Result<()> {
        let plain = |span: &Span| self.start(span);
        for (span, position) in binding.operands().skip(binding.inputs.len()) {
            let Some(span) = span else { continue };
            // SAFETY: as in `prepare`: valid spans that no other kernel accesses.
            unsafe { tensors.prepare_write((span, position), stream, &plain)? };
        }
        if let (Some(span), None) = (&binding.scratch, stream) {
            // SAFETY: as in `prepare`: valid spans that no other kernel accesses.
            unsafe { tensors.prepare_write((span, None), None, &plain)? };
        }
        Ok(())
    }

    /// Calls `call` with the bytes of a movement's sources and target.
    pub fn movement<R>(
        &self,
        binding: &MoveBinding,
        call: impl FnOnce(&[&[u8]], &mut [u8]) -> Result<R>,
    ) -> Result<R> {
        self.check(&binding.table)?;
        let _alone = self.slots.try_borrow_mut().map_err(|_| busy())?;
        let mut sources: [&[u8]; MAX_SOURCES] = [&[]; MAX_SOURCES];
        for (slot, span) in sources.iter_mut().zip(&binding.sources) {
            let start = self.newest_bytes(span)?;
            // SAFETY: the source span is inside its region, which is valid and initialised (as in
            // `operands`), and it does not overlap the target, the only bytes written
            // (`MoveBinding::new`).
            *slot = unsafe { std::slice::from_raw_parts(start, span.len) };
        }
        self.overwrite(&binding.target)?;
        let start = self.start(&binding.target)?;
        // SAFETY: the target span is inside its region, writable and disjoint from all sources
        // (`MoveBinding::new`); no other kernel of this execution runs while `_alone` is borrowed.
        let target = unsafe { std::slice::from_raw_parts_mut(start, binding.target.len) };
        call(&sources[..binding.sources.len()], target)
    }

    /// Calls `call` with the current bytes of a variable, for observers between kernels.
    pub fn inspect<R>(&self, id: VariableId, call: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let span = self.table.span(id)?;
        let _alone = self.slots.try_borrow_mut().map_err(|_| busy())?;
        let start = self.newest_bytes(&span)?;
        // SAFETY: the span is inside its region, which is valid and initialised (as in `operands`);
        // no kernel of this execution writes while `_alone` is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(start, span.len) };
        Ok(call(bytes))
    }

    /// Begins an execution: the caller's memory is new, and the arena has no values.
    fn begin_tensors<'m>(&'m self, ports: &'m mut PortTensors) -> Result<PortGuard<'m>> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        let placements = self.placements.starting_at(tensors.len());
        if !placements.is_empty() {
            tensors.extend(placements, &self.table);
        }
        let count = self.staging.len() as u32;
        let passing = (1..=count).map(Base);
        tensors.begin(passing.filter(|&base| !ports.are_bound || self.is_staged(base)));
        tensors.take_imported(&mut ports.imported, |span| self.table.is_of_caller(span))?;
        tensors.take_resident(&mut ports.resident)?;
        drop(tensors);
        // Returns what was taken, also after an error.
        let guard = PortGuard {
            memory: self,
            ports,
        };
        self.take_given(&mut guard.ports.given)?;
        Ok(guard)
    }

    /// Takes the tensors that inputs are set to. After an error those not taken stay for the next execution.
    fn take_given(&self, given: &mut Vec<(Base, DeviceTensor)>) -> Result<()> {
        while let Some((port, tensor)) = given.last() {
            let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
            if let Some(position) = tensors.position_of(*port, tensor)? {
                if let Some((_, tensor)) = given.pop() {
                    tensors.adopt(position, tensor);
                }
                continue;
            }
            let bytes = tensor.ty().bytes();
            let start = self.bases.get(port.0 as usize).map(Cell::get);
            let start = start.filter(|start| !start.is_null());
            let start = start.ok_or_else(|| missing_port(*port))?;
            // SAFETY: the port has plain memory of the size of its type, that of the tensor
            // (`BoundPorts::set_device_input`), which is borrowed mutably for this execution.
            tensor.copy_out(unsafe { std::slice::from_raw_parts_mut(start, bytes) })?;
            given.pop();
        }
        Ok(())
    }

    /// Whether a port is in a staging buffer instead of the caller's memory.
    fn is_staged(&self, base: Base) -> bool {
        let port = (base.0 as usize).wrapping_sub(1);
        let staged = self.staging.get(port).and_then(Option::as_ref);
        let base = self.bases.get(base.0 as usize).map(Cell::get);
        staged.is_some_and(|staged| base == Some(staged.as_ptr().cast_mut()))
    }

    /// Ends an execution: copies outputs that are newest in memory of backends to the caller's
    /// memory, except those whose values stay.
    fn end_tensors(&self, stays: impl Fn(&Span) -> bool) -> Result<()> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        // SAFETY: no kernel runs after `run` returned, and the caller's memory is borrowed until
        // `with` returns.
        unsafe {
            let is_output = |span: &Span| self.table.is_of_caller(span) && !stays(span);
            tensors.write_back_all(is_output, &|span| self.start(span))?;
        }
        tensors.streams.finish_all()
    }

    /// The address of the newest bytes of a span, for reads without an operand.
    fn newest_bytes(&self, span: &Span) -> Result<*mut u8> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        if !tensors.is_empty() {
            // SAFETY: the closure returns the start of valid spans, and the caller of this function
            // has `slots` borrowed, which excludes kernels.
            let shared = unsafe { tensors.read_on_host(span, &|span| self.start(span))? };
            if let Some(shared) = shared {
                return Ok(shared.start());
            }
        }
        self.start(span)
    }

    /// Invalidates tensors of a span before a movement writes it.
    fn overwrite(&self, span: &Span) -> Result<()> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        if !tensors.is_empty() {
            // SAFETY: the closure returns the start of valid spans, and the caller of this function
            // has `slots` borrowed, which excludes kernels.
            unsafe { tensors.write_on_host(span, &|span| self.start(span))? };
        }
        Ok(())
    }

    fn check(&self, table: &Arc<Variables>) -> Result<()> {
        if Arc::ptr_eq(&self.table, table) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Internal,
            "a kernel runs on the memory of another program",
        ))
    }

    /// The first byte of a span; an error for the caller's memory outside of `with`.
    fn start(&self, span: &Span) -> Result<*mut u8> {
        let base = self
            .bases
            .get(span.base.0 as usize)
            .map_or(std::ptr::null_mut(), Cell::get);
        if base.is_null() {
            return Err(Error::new(
                ErrorKind::Internal,
                "a kernel runs outside of an execution",
            ));
        }
        // SAFETY: spans are inside the memory region that starts at `base`: the table checks it,
        // and `with` compares lengths of the caller's memory.
        Ok(unsafe { base.add(span.start) })
    }

    fn raw(&self, span: &Span) -> Result<RawOperand> {
        Ok(RawOperand::new(self.start(span)?, span.len))
    }
}

/// Resets the caller's pointers to null when an execution ends, also by a panic.
struct Reset<'a>(&'a [Cell<*mut u8>], &'a [Cell<*mut u8>]);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0
            .iter()
            .chain(self.1)
            .for_each(|pointer| pointer.set(std::ptr::null_mut()));
    }
}

/// Returns the tensors of ports when an execution ends, also by a panic.
struct PortGuard<'a> {
    memory: &'a Memory,
    ports: &'a mut PortTensors,
}

impl Drop for PortGuard<'_> {
    fn drop(&mut self) {
        let PortGuard { memory, ports } = self;
        // All borrows ended with the calls that made them.
        if let Ok(mut tensors) = memory.tensors.try_borrow_mut() {
            // After an error, commands may still access the caller's memory; the error of the execution is known.
            let _ = tensors.streams.finish_all();
            let of_caller = |span: &Span| memory.table.is_of_caller(span);
            let stays = |span: &Span| !memory.is_staged(span.base);
            tensors.return_imported(&mut ports.imported, of_caller, stays);
            tensors.return_resident(&mut ports.resident);
        }
    }
}

fn missing_port(port: Base) -> Error {
    let text = format!("input or output {} has no memory", port.0 - 1);
    Error::new(ErrorKind::Internal, text)
}

fn is_aligned(start: *const u8) -> bool {
    (start as usize).is_multiple_of(ALIGNMENT)
}

fn stage(slot: &mut Option<BufferMut>, len: usize) -> Result<&mut BufferMut> {
    Ok(match slot {
        Some(staged) => staged,
        None => slot.insert(BufferMut::zeroed(len)?),
    })
}

/// Checks that one of the caller's inputs or outputs is present and has the expected length.
fn checked<T>(
    what: &str,
    index: usize,
    expected: usize,
    found: Option<T>,
    len: impl Fn(&T) -> usize,
) -> Result<T> {
    let wrong = |message| Error::new(ErrorKind::InvalidArgument, message);
    let found = found.ok_or_else(|| wrong(format!("{what} {index} is missing")))?;
    if len(&found) != expected {
        return Err(wrong(format!("{what} {index} has a wrong number of bytes"))
            .expected(expected)
            .found(len(&found)));
    }
    Ok(found)
}

fn busy() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a kernel runs inside another one of the same execution",
    )
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

#[cfg(test)]
mod tests;
