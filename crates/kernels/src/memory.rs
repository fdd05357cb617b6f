//! The memory of one execution, and the operands that kernels see of it. This module and those
//! below it are the only ones of this crate with unsafe code.
//!
//! Soundness rests on three things. A binding is checked once, against the table of variables that
//! a [`Memory`] belongs to: its spans lie inside their pieces of memory, and what it writes is
//! writable and shares no byte with what else it touches (but for outputs in place). A `Memory`
//! holds pointers to the caller's memory only inside [`Memory::with`], which borrows all of it. And
//! only one kernel at a time has operands, since making them borrows the one array they stand in.

mod bound;
mod tensors;

pub use bound::BoundPorts;

use crate::places::Places;
use crate::variables::{Span, Variables, named};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tenon_backend::{Operands, RawOperand};
use tenon_base::{Error, ErrorKind, Result};
use tenon_dma::{MAX_SOURCES, VariableId};
use tenon_tensor::{ALIGNMENT, BufferMut};
use tensors::{Imported, Tensors, Touched};

/// The memory of one execution at a time: its arena, and while it runs the caller's inputs and
/// outputs. Made once, used by many executions; using it again allocates nothing.
pub struct Memory {
    table: Arc<Variables>,
    places: Arc<Places>,
    /// Before the arena, of which some are made.
    tensors: RefCell<Tensors>,
    /// Owns the arena; only touched through [`Memory::bases`].
    arena: BufferMut,
    /// Aligned stand-ins for the caller's inputs, then outputs, that are not; made when first needed.
    staging: Vec<Option<BufferMut>>,
    /// Where outputs go that are staged; null for the others and outside of `with`.
    unaligned: Vec<Cell<*mut u8>>,
    /// Start of each piece of memory by base; null for the caller's outside of `with`.
    bases: Vec<Cell<*mut u8>>,
    /// Operands of the running kernel.
    slots: RefCell<Vec<RawOperand>>,
}

// SAFETY: the pointers are to the arena and the staging buffers, which the value owns, to constants,
// which its table keeps and nobody writes, and null otherwise: those to the caller's memory are only
// there during `with`, which holds the only reference to the value that can leave the thread.
unsafe impl Send for Memory {}

/// Operands of a workload, checked.
#[derive(Debug)]
pub struct WorkloadBinding {
    table: Arc<Variables>,
    inputs: Vec<Option<Span>>,
    outputs: Vec<Option<Span>>,
    scratch: Option<Span>,
    /// Where the backend has inputs and outputs, when that is not plain memory.
    tensors: Vec<Option<usize>>,
}

/// An input or output of a workload, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    Input(usize),
    Output(usize),
}

/// Sources and target of a movement, checked; they share no byte.
#[derive(Debug)]
pub struct MoveBinding {
    table: Arc<Variables>,
    sources: Vec<Span>,
    target: Span,
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

    /// The same with inputs and outputs where a backend has them: `place` answers the position in
    /// [`Places`] of an input or output by its number, `None` for plain memory.
    pub(crate) fn placed(
        mut self,
        mut place: impl FnMut(Operand, Span) -> Result<Option<usize>>,
    ) -> Result<Self> {
        let inputs = (0..).map(Operand::Input).zip(&self.inputs);
        let outputs = (0..).map(Operand::Output).zip(&self.outputs);
        self.tensors = inputs
            .chain(outputs)
            .map(|(operand, span)| match span.filter(|span| span.len > 0) {
                Some(span) => place(operand, span),
                None => Ok(None),
            })
            .collect::<Result<_>>()?;
        Ok(self)
    }

    /// Inputs, then outputs, each with its tensor of a backend.
    fn operands(&self) -> impl Iterator<Item = (Option<&Span>, Option<usize>)> {
        let tensors = self.tensors.iter().copied().chain(std::iter::repeat(None));
        let spans = self.inputs.iter().chain(&self.outputs);
        spans.map(Option::as_ref).zip(tensors)
    }

    fn reads(&self) -> impl Iterator<Item = Touched<'_>> {
        let inputs = self.operands().take(self.inputs.len());
        inputs.filter_map(|(span, tensor)| Some((span?, tensor)))
    }

    fn writes(&self) -> impl Iterator<Item = Touched<'_>> {
        let outputs = self.operands().skip(self.inputs.len());
        let outputs = outputs.filter_map(|(span, tensor)| Some((span?, tensor)));
        outputs.chain(self.scratch.iter().map(|span| (span, None)))
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

impl Memory {
    /// Memory for executions of the program that `table` belongs to, all of it plain.
    pub fn new(table: Arc<Variables>) -> Result<Self> {
        Self::with_places(table, Arc::default())
    }

    /// The same for a program some of whose tensors lie in memory of backends.
    pub fn with_places(table: Arc<Variables>, places: Arc<Places>) -> Result<Self> {
        let mut arena = BufferMut::zeroed(table.arena_bytes())?;
        let ports = table.input_bytes().len() + table.output_bytes().len();
        let mut bases = vec![Cell::new(arena.as_mut_ptr())];
        bases.extend((0..ports).map(|_| Cell::new(std::ptr::null_mut())));
        // Constants are never written: a binding refuses it.
        bases.extend(
            table
                .constants()
                .iter()
                .map(|constant| Cell::new(constant.as_ptr().cast_mut())),
        );
        Ok(Self {
            arena,
            unaligned: vec![Cell::new(std::ptr::null_mut()); table.output_bytes().len()],
            staging: (0..ports).map(|_| None).collect(),
            bases,
            slots: RefCell::default(),
            places,
            tensors: RefCell::default(),
            table,
        })
    }

    /// The table of the variables that it holds.
    pub fn variables(&self) -> &Arc<Variables> {
        &self.table
    }

    /// Bytes that it holds: the arena, and stand-ins for memory that was not aligned.
    pub fn bytes(&self) -> usize {
        let staging: usize = self
            .staging
            .iter()
            .flatten()
            .map(|buffer| buffer.len())
            .sum();
        self.arena.len() + staging
    }

    /// Calls `run` with the caller's inputs and outputs in place, as many and as long as the table
    /// says. Memory that is not aligned to [`ALIGNMENT`] is copied to or from memory that is. After
    /// an error the outputs hold anything.
    pub fn with<'a, R>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a [u8]>,
        outputs: impl IntoIterator<Item = &'a mut [u8]>,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        self.with_imported(inputs, outputs, &mut Imported::default(), run)
    }

    /// The same with inputs and outputs that stay, so that backends import their memory once.
    pub fn with_bound<R>(
        &mut self,
        ports: &mut BoundPorts,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        let table = self.table.clone();
        let (inputs, outputs, imported) = ports.parts(&table);
        self.with_imported(inputs, outputs, imported, run)
    }

    fn with_imported<'a, R>(
        &mut self,
        inputs: impl IntoIterator<Item = &'a [u8]>,
        outputs: impl IntoIterator<Item = &'a mut [u8]>,
        imported: &mut Imported,
        run: impl FnOnce(&Memory) -> Result<R>,
    ) -> Result<R> {
        let reset = Reset(&self.bases[1..=self.staging.len()], &self.unaligned);
        let input_bytes = self.table.input_bytes();
        let mut ports = self.bases.iter().skip(1).zip(&mut self.staging);
        let mut given = inputs.into_iter().fuse();
        for (index, &expected) in input_bytes.iter().enumerate() {
            let Some((base, staged)) = ports.next() else {
                break;
            };
            let bytes = checked("input", index, expected, given.next(), |bytes| bytes.len())?;
            if is_aligned(bytes.as_ptr()) {
                // Never written: a binding refuses it.
                base.set(bytes.as_ptr().cast_mut());
            } else {
                let staged = stage(staged, expected)?;
                staged.copy_from_slice(bytes);
                base.set(staged.as_mut_ptr());
            }
        }
        let mut wanted = outputs.into_iter().fuse();
        let output_bytes = self.table.output_bytes().iter().zip(&self.unaligned);
        for (index, (&expected, unaligned)) in output_bytes.enumerate() {
            let Some((base, staged)) = ports.next() else {
                break;
            };
            let bytes = checked("output", index, expected, wanted.next(), |bytes| {
                bytes.len()
            })?;
            if is_aligned(bytes.as_ptr()) {
                base.set(bytes.as_mut_ptr());
            } else {
                base.set(stage(staged, expected)?.as_mut_ptr());
                unaligned.set(bytes.as_mut_ptr());
            }
        }
        if given.next().is_some() || wanted.next().is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "too many inputs or outputs",
            ));
        }
        let begun = self.begin_tensors(imported)?;
        let result = run(self).and_then(|done| self.end_tensors().map(|()| done));
        drop(begun);
        for (staged, unaligned) in self
            .staging
            .iter()
            .skip(input_bytes.len())
            .zip(&self.unaligned)
        {
            if let (Some(staged), false) = (staged, unaligned.get().is_null()) {
                // SAFETY: the caller's output, of this length (checked above), borrowed for `'a`.
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
        if !tensors.is_empty() {
            let plain = |span: &Span| self.start(span);
            // SAFETY: as below: the borrow of `slots` keeps any other kernel out.
            unsafe { tensors.enter(binding.reads(), binding.writes(), &plain)? };
        }
        for operand in binding.operands() {
            slots.push(match operand {
                (None, _) => RawOperand::NONE,
                (Some(span), None) => self.raw(span)?,
                (Some(_), Some(position)) => tensors.operand(position)?,
            });
        }
        drop(tensors);
        let scratch = match &binding.scratch {
            Some(span) => self.raw(span)?,
            None => RawOperand::NONE,
        };
        let (inputs, outputs) = slots.split_at(binding.inputs.len());
        // SAFETY: the spans lie in their pieces of memory, written ones are writable and share
        // bytes only as allowed (checked when bound, for this same table). The pieces are valid and
        // initialised: the arena is owned, constants are kept by the table, the caller's memory is
        // borrowed by `with` while its pointers are set. Nobody else touches what is written: the
        // arena has no other user, outputs are borrowed mutably, and the borrow of `slots` keeps
        // any other kernel of this execution out. Backends vouch for their tensors
        // (`TensorHandle`), one of which stands for each span and is this execution's own.
        let mut operands = unsafe { Operands::new(inputs, outputs, scratch) };
        call(&mut operands)
    }

    /// Calls `call` with the bytes of a movement's sources and of its target.
    pub fn movement<R>(
        &self,
        binding: &MoveBinding,
        call: impl FnOnce(&[&[u8]], &mut [u8]) -> Result<R>,
    ) -> Result<R> {
        self.check(&binding.table)?;
        let _alone = self.slots.try_borrow_mut().map_err(|_| busy())?;
        let sources = binding.sources.iter().map(|span| (span, None));
        self.enter(sources, [(&binding.target, None)].into_iter())?;
        let mut sources: [&[u8]; MAX_SOURCES] = [&[]; MAX_SOURCES];
        for (slot, span) in sources.iter_mut().zip(&binding.sources) {
            // SAFETY: as in `operands`; the target shares no byte with a source.
            *slot = unsafe { std::slice::from_raw_parts(self.start(span)?, span.len) };
        }
        let start = self.start(&binding.target)?;
        // SAFETY: as in `operands`; writable, and no other reference to these bytes exists.
        let target = unsafe { std::slice::from_raw_parts_mut(start, binding.target.len) };
        call(&sources[..binding.sources.len()], target)
    }

    /// Calls `call` with the bytes of a variable as they are now: for those who look on between
    /// kernels.
    pub fn look<R>(&self, id: VariableId, call: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let span = self.table.span(id)?;
        let _alone = self.slots.try_borrow_mut().map_err(|_| busy())?;
        self.enter([(&span, None)].into_iter(), std::iter::empty())?;
        // SAFETY: as in `operands`; only read, and nobody writes while `_alone` keeps kernels out.
        let bytes = unsafe { std::slice::from_raw_parts(self.start(&span)?, span.len) };
        Ok(call(bytes))
    }

    /// An execution begins: the caller's memory is new, the arena holds nothing.
    fn begin_tensors<'m>(&'m self, imported: &'m mut Imported) -> Result<Begun<'m>> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        let places = self.places.since(tensors.len());
        if !places.is_empty() {
            tensors.extend(places, |span| self.table.is_constant(span));
        }
        tensors.begin();
        tensors.bring(imported, |span| self.table.is_of_caller(span));
        Ok(Begun {
            memory: self,
            imported,
        })
    }

    /// Whether it is memory of this value that stands in for the caller's.
    fn is_staged(&self, span: &Span) -> bool {
        let port = (span.base.0 as usize).wrapping_sub(1);
        let staged = self.staging.get(port).and_then(Option::as_ref);
        let base = self.bases.get(span.base.0 as usize).map(Cell::get);
        staged.is_some_and(|staged| base == Some(staged.as_ptr().cast_mut()))
    }

    /// An execution ended: the caller's outputs get what backends still have of them.
    fn end_tensors(&self) -> Result<()> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        // SAFETY: no kernel runs, and the caller's memory is still there.
        unsafe {
            tensors.settle_all(|span| self.table.is_of_caller(span), &|span| {
                self.start(span)
            })
        }
    }

    /// Before a kernel that reads and writes plain memory, which has no operands yet.
    fn enter<'s>(
        &self,
        reads: impl Iterator<Item = Touched<'s>>,
        writes: impl Iterator<Item = Touched<'s>>,
    ) -> Result<()> {
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        match tensors.is_empty() {
            true => Ok(()),
            // SAFETY: the caller holds the borrow of `slots`, which keeps kernels out.
            false => unsafe { tensors.enter(reads, writes, &|span| self.start(span)) },
        }
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
        // SAFETY: the span lies inside of the piece of memory that starts at `base`.
        Ok(unsafe { base.add(span.start) })
    }

    fn raw(&self, span: &Span) -> Result<RawOperand> {
        Ok(RawOperand::new(self.start(span)?, span.len))
    }
}

/// Forgets the caller's pointers when an execution ends, in whatever way.
struct Reset<'a>(&'a [Cell<*mut u8>], &'a [Cell<*mut u8>]);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0
            .iter()
            .chain(self.1)
            .for_each(|pointer| pointer.set(std::ptr::null_mut()));
    }
}

/// Gives back what backends made of the caller's memory when an execution ends, in whatever way.
struct Begun<'a> {
    memory: &'a Memory,
    imported: &'a mut Imported,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let Begun { memory, imported } = self;
        // Nobody borrows it for longer than a call that has ended.
        if let Ok(mut tensors) = memory.tensors.try_borrow_mut() {
            let of_caller = |span: &Span| memory.table.is_of_caller(span);
            tensors.leave(imported, of_caller, |span| !memory.is_staged(span));
        }
    }
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

/// One of the caller's inputs or outputs, when it is there and of the right length.
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
mod tests {
    use super::*;
    use crate::{Storage, Variable};
    use tenon_backend::Pair;

    /// Variables of 64 bytes: 0 input, 1 output, 2 constant, 3 to 5 arena, 6 overlapping 3 and 4,
    /// 7 a view of the input.
    fn table() -> Arc<Variables> {
        let constant = BufferMut::copy_of(&[7; 64]).unwrap().freeze();
        let storages = [
            Storage::Input(0),
            Storage::Output(0),
            Storage::Constant(constant),
            Storage::Arena { offset: 0 },
            Storage::Arena { offset: 64 },
            Storage::Arena { offset: 128 },
            Storage::Arena { offset: 0 },
            Storage::View(VariableId(0)),
        ];
        let variable = |(index, storage)| Variable {
            name: format!("v{index}"),
            size: if index == 6 { 128 } else { 64 },
            storage,
            ty: None,
            prepared: None,
        };
        Arc::new(Variables::new(storages.into_iter().enumerate().map(variable).collect()).unwrap())
    }

    fn ids(ids: &[u32]) -> Vec<Option<VariableId>> {
        ids.iter().map(|&id| Some(VariableId(id))).collect()
    }

    fn bind(inputs: &[u32], outputs: &[u32], scratch: Option<u32>) -> Result<WorkloadBinding> {
        WorkloadBinding::new(
            &table(),
            &ids(inputs),
            &ids(outputs),
            scratch.map(VariableId),
        )
    }

    #[test]
    fn what_may_share_bytes_and_what_may_not() {
        bind(&[0, 2], &[3], Some(4)).unwrap();
        bind(&[3, 4], &[3], Some(5)).unwrap();
        bind(&[1], &[1], None).unwrap();
        bind(&[0, 0, 7], &[1], None).unwrap();
        let refusal = |inputs: &[u32], outputs: &[u32], scratch| {
            bind(inputs, outputs, scratch)
                .expect_err("must be refused")
                .to_string()
        };
        let read_only = "a kernel writes it, but it is only read";
        assert_eq!(
            refusal(&[], &[0], None),
            format!("variable 'v0': {read_only}")
        );
        assert_eq!(
            refusal(&[], &[7], None),
            format!("variable 'v7': {read_only}")
        );
        assert_eq!(
            refusal(&[], &[], Some(2)),
            format!("variable 'v2': {read_only}")
        );
        let twice = "a kernel writes the same bytes twice";
        assert_eq!(
            refusal(&[], &[3, 3], None),
            format!("variable 'v3': {twice}")
        );
        assert_eq!(
            refusal(&[], &[4], Some(6)),
            format!("variable 'v4': {twice}")
        );
        let reads = "a kernel writes bytes that it reads";
        assert_eq!(refusal(&[6], &[4], None), format!("variable 'v4': {reads}"));
        assert_eq!(
            refusal(&[3, 3], &[3], None),
            format!("variable 'v3': {reads}")
        );
        assert_eq!(
            refusal(&[3, 6], &[3], None),
            format!("variable 'v3': {reads}")
        );
        assert_eq!(
            refusal(&[3], &[4], Some(3)),
            format!("variable 'v3': {reads}")
        );
        assert!(refusal(&[99], &[], None).contains("no variable has the id 99"));
    }

    /// Adds one to each byte of variable `from`, into `to`.
    fn increment(memory: &Memory, table: &Arc<Variables>, from: u32, to: u32) -> Result<()> {
        let binding = WorkloadBinding::new(table, &ids(&[from]), &ids(&[to]), None)?;
        memory.operands(&binding, |operands| {
            match operands.pair::<u8>(0, 0)? {
                Pair::InPlace(bytes) => bytes.iter_mut().for_each(|byte| *byte += 1),
                Pair::Apart(from, to) => {
                    from.iter().zip(to).for_each(|(from, to)| *to = from + 1);
                }
            }
            Ok(())
        })
    }

    #[test]
    fn the_callers_memory_is_used_in_place_or_copied() {
        let table = table();
        let mut memory = Memory::new(table.clone()).unwrap();
        assert_eq!(memory.bytes(), 192);
        let mut input = BufferMut::zeroed(65).unwrap();
        let mut output = BufferMut::zeroed(65).unwrap();
        for shift in [0, 1, 0, 1] {
            input.fill(10 + shift as u8);
            output.fill(0);
            memory
                .with(
                    [&input[shift..shift + 64]],
                    [&mut output[shift..shift + 64]],
                    |memory| {
                        increment(memory, &table, 7, 3)?;
                        increment(memory, &table, 3, 3)?;
                        increment(memory, &table, 3, 1)
                    },
                )
                .unwrap();
            assert!(
                output[shift..shift + 64]
                    .iter()
                    .all(|&byte| byte == 13 + shift as u8)
            );
            assert_eq!(output[if shift == 0 { 64 } else { 0 }], 0);
            assert!(input.iter().all(|&byte| byte == 10 + shift as u8));
        }
        // Stand-ins for both were made once.
        assert_eq!(memory.bytes(), 192 + 128);
    }

    #[test]
    fn constants_are_read_and_other_memory_is_refused() {
        let table = table();
        let mut memory = Memory::new(table.clone()).unwrap();
        let mut output = BufferMut::zeroed(64).unwrap();
        memory
            .with([&[0; 64][..]], [&mut output[..]], |memory| {
                increment(memory, &table, 2, 1)
            })
            .unwrap();
        assert!(output.iter().all(|&byte| byte == 8));
        let outside = increment(&memory, &table, 0, 3).unwrap_err();
        assert_eq!(outside.to_string(), "a kernel runs outside of an execution");
        let other = increment(&memory, &super::tests::table(), 3, 4).unwrap_err();
        assert_eq!(
            other.to_string(),
            "a kernel runs on the memory of another program"
        );
    }

    #[test]
    fn wrong_numbers_and_lengths_are_errors_and_leave_nothing_behind() {
        let table = table();
        let mut memory = Memory::new(table.clone()).unwrap();
        let mut output = [0; 64];
        let mut run = |inputs: &[&[u8]], outputs: Vec<&mut [u8]>| {
            memory
                .with(inputs.iter().copied(), outputs, |_| Ok(()))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(run(&[], vec![]), "input 0 is missing");
        assert_eq!(run(&[&[0; 64]], vec![]), "output 0 is missing");
        assert_eq!(
            run(&[&[0; 63]], vec![&mut output]),
            "input 0 has a wrong number of bytes: expected 64, found 63"
        );
        assert_eq!(
            run(&[&[0; 64], &[]], vec![&mut output]),
            "too many inputs or outputs"
        );
        assert!(increment(&memory, &table, 0, 3).is_err());
    }

    #[test]
    fn a_kernel_does_not_run_inside_another() {
        let table = table();
        let memory = Memory::new(table.clone()).unwrap();
        let binding = WorkloadBinding::new(&table, &ids(&[3]), &ids(&[4]), None).unwrap();
        let error = memory
            .operands(&binding, |_| increment(&memory, &table, 3, 4))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }

    #[test]
    fn a_movement_reads_and_writes_apart() {
        let table = table();
        let span = |id, start, end| {
            table
                .span(VariableId(id))
                .unwrap()
                .part(start, end)
                .unwrap()
        };
        let mut memory = Memory::new(table.clone()).unwrap();
        let binding =
            MoveBinding::new(&table, vec![span(2, 0, 4), span(0, 8, 12)], span(1, 4, 8)).unwrap();
        let input: Vec<u8> = (0..64).collect();
        let mut output = [0; 64];
        memory
            .with([&input[..]], [&mut output[..]], |memory| {
                memory.movement(&binding, |sources, target| {
                    let sums = sources[0].iter().zip(sources[1]).map(|(a, b)| a + b);
                    target
                        .iter_mut()
                        .zip(sums)
                        .for_each(|(target, sum)| *target = sum);
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(output[..10], [0, 0, 0, 0, 15, 16, 17, 18, 0, 0]);
        let apart = MoveBinding::new(&table, vec![span(3, 0, 4)], span(3, 4, 8));
        apart.unwrap();
        let overlap = MoveBinding::new(&table, vec![span(3, 0, 5)], span(6, 4, 8));
        assert_eq!(
            overlap.unwrap_err().to_string(),
            "a descriptor writes bytes that it reads"
        );
        assert!(MoveBinding::new(&table, vec![], span(2, 0, 1)).is_err());
    }
}
