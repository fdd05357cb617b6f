//! The memory a workload reads and writes: the one place of this crate with unsafe code.

use std::marker::PhantomData;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Element;

/// The bytes of one operand of one execution.
#[derive(Debug, Clone, Copy)]
pub struct RawOperand {
    start: *mut u8,
    len: usize,
}

impl RawOperand {
    /// An operand that is left out.
    pub const NONE: RawOperand = RawOperand { start: std::ptr::null_mut(), len: 0 };

    /// The bytes at `start`. Nothing is read here; see [`Operands::new`] for what must hold.
    pub fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    fn overlaps(self, other: RawOperand) -> bool {
        let (a, b) = (self.start as usize, other.start as usize);
        self.len > 0 && other.len > 0 && a < b + other.len && b < a + self.len
    }
}

/// Inputs, outputs and scratch memory of one execution of a workload.
///
/// Inputs may share bytes with each other; an output shares bytes with nothing, except with the one
/// input it takes the place of, where the plan allowed that.
pub struct Operands<'a> {
    inputs: &'a [RawOperand],
    outputs: &'a [RawOperand],
    scratch: RawOperand,
    memory: PhantomData<&'a mut [u8]>,
}

/// An input and an output of the same element type that may be the same memory.
pub enum Pair<'a, T> {
    /// The output takes the input's place.
    InPlace(&'a mut [T]),
    /// They share nothing.
    Apart(&'a [T], &'a mut [T]),
}

impl<'a> Operands<'a> {
    /// # Safety
    /// For `'a`, each operand that is not [`RawOperand::NONE`] points to `len` initialised bytes
    /// that nobody outside writes, and those of outputs and scratch nobody outside reads either.
    /// Outputs and scratch share no bytes with each other, nor with an input, except an output with
    /// exactly one input of which it is the place.
    pub unsafe fn new(
        inputs: &'a [RawOperand],
        outputs: &'a [RawOperand],
        scratch: RawOperand,
    ) -> Self {
        Self { inputs, outputs, scratch, memory: PhantomData }
    }

    /// Whether input `index` is there.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(|operand| !operand.start.is_null())
    }

    /// Whether output `index` is wanted.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|operand| !operand.start.is_null())
    }

    /// The elements of an input that no output takes the place of, together with those of an
    /// output and the scratch memory; see [`Operands::split`] for several.
    pub fn input<T: Element>(&self, index: usize) -> Result<&[T]> {
        let operand = *self.inputs.get(index).ok_or_else(|| missing("input", index))?;
        if self.outputs.iter().any(|output| output.overlaps(operand)) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {index} is read although an output takes its place"),
            ));
        }
        // SAFETY: vouched for in `new`; no output shares its bytes (checked above), so that only
        // shared references to them exist.
        unsafe { elements(operand, "input", index) }
    }

    /// Everything at once: the inputs' elements are read through `inputs`, which borrows nothing
    /// of `self`, while outputs and scratch are borrowed mutably.
    pub fn split(&mut self) -> (Inputs<'_>, Outputs<'_>) {
        (
            Inputs { inputs: self.inputs, outputs: self.outputs, memory: PhantomData },
            Outputs {
                outputs: self.outputs,
                scratch: self.scratch,
                taken: [false; MAX_OUTPUTS],
                scratch_taken: false,
                memory: PhantomData,
            },
        )
    }

    /// Input and output of an elementwise operator, which may be the same memory.
    pub fn pair<T: Element>(&mut self, input: usize, output: usize) -> Result<Pair<'_, T>> {
        let source = *self.inputs.get(input).ok_or_else(|| missing("input", input))?;
        let target = *self.outputs.get(output).ok_or_else(|| missing("output", output))?;
        if source.start == target.start && source.len == target.len {
            // SAFETY: vouched for in `new`; borrowed mutably for as long as `self`.
            return Ok(Pair::InPlace(unsafe { elements_mut(target, "output", output)? }));
        }
        if source.overlaps(target) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {input} and output {output} overlap in part"),
            ));
        }
        // SAFETY: vouched for in `new`; they share nothing (checked above).
        unsafe {
            Ok(Pair::Apart(
                elements(source, "input", input)?,
                elements_mut(target, "output", output)?,
            ))
        }
    }
}

const MAX_OUTPUTS: usize = 64;

/// The inputs of [`Operands::split`].
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    inputs: &'a [RawOperand],
    outputs: &'a [RawOperand],
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Inputs<'a> {
    /// The elements of an input; an error when an output takes its place.
    pub fn slice<T: Element>(&self, index: usize) -> Result<&'a [T]> {
        let operand = *self.inputs.get(index).ok_or_else(|| missing("input", index))?;
        if self.outputs.iter().any(|output| output.overlaps(operand)) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {index} is read although an output takes its place"),
            ));
        }
        // SAFETY: vouched for in `Operands::new`; no output shares its bytes (checked above).
        unsafe { elements(operand, "input", index) }
    }

    /// The same, `None` when the input is left out.
    pub fn optional<T: Element>(&self, index: usize) -> Result<Option<&'a [T]>> {
        match self.inputs.get(index) {
            Some(operand) if !operand.start.is_null() => self.slice(index).map(Some),
            _ => Ok(None),
        }
    }
}

/// The outputs and the scratch memory of [`Operands::split`]; each can be taken once.
pub struct Outputs<'a> {
    outputs: &'a [RawOperand],
    scratch: RawOperand,
    taken: [bool; MAX_OUTPUTS],
    scratch_taken: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Outputs<'a> {
    /// The elements of an output.
    pub fn slice<T: Element>(&mut self, index: usize) -> Result<&'a mut [T]> {
        let operand = *self.outputs.get(index).ok_or_else(|| missing("output", index))?;
        let taken = self.taken.get_mut(index).ok_or_else(|| missing("output", index))?;
        if std::mem::replace(taken, true) {
            return Err(Error::new(ErrorKind::Internal, format!("output {index} is taken twice")));
        }
        // SAFETY: vouched for in `Operands::new`; taken once, so that no other reference exists.
        unsafe { elements_mut(operand, "output", index) }
    }

    /// The same, `None` when the output is not wanted.
    pub fn optional<T: Element>(&mut self, index: usize) -> Result<Option<&'a mut [T]>> {
        match self.outputs.get(index) {
            Some(operand) if !operand.start.is_null() => self.slice(index).map(Some),
            _ => Ok(None),
        }
    }

    /// The scratch memory, at least as long as planned, its bytes undefined (but initialised).
    pub fn scratch<T: Element>(&mut self) -> Result<&'a mut [T]> {
        if std::mem::replace(&mut self.scratch_taken, true) {
            return Err(Error::new(ErrorKind::Internal, "the scratch memory is taken twice"));
        }
        let whole = self.scratch.len - self.scratch.len % size_of::<T>();
        // SAFETY: as for outputs.
        unsafe { elements_mut(RawOperand { len: whole, ..self.scratch }, "scratch", 0) }
    }
}

/// # Safety
/// `operand` points to initialised bytes that nobody writes for `'a`.
unsafe fn elements<'a, T: Element>(
    operand: RawOperand,
    what: &str,
    index: usize,
) -> Result<&'a [T]> {
    let count = count::<T>(operand, what, index)?;
    // SAFETY: non-null, aligned and long enough (checked by `count`); the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(operand.start.cast(), count) })
}

/// # Safety
/// `operand` points to initialised bytes that nobody else reads or writes for `'a`.
unsafe fn elements_mut<'a, T: Element>(
    operand: RawOperand,
    what: &str,
    index: usize,
) -> Result<&'a mut [T]> {
    if operand.len == 0 {
        return Ok(&mut []);
    }
    let count = count::<T>(operand, what, index)?;
    // SAFETY: non-null, aligned and long enough (checked by `count`); the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts_mut(operand.start.cast(), count) })
}

fn count<T: Element>(operand: RawOperand, what: &str, index: usize) -> Result<usize> {
    if operand.start.is_null() {
        return Err(missing(what, index));
    }
    let aligned = operand.start.cast::<T>().is_aligned();
    if !aligned || !operand.len.is_multiple_of(size_of::<T>()) {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("{what} {index} of {} bytes does not hold whole {}", operand.len, T::DATA_TYPE),
        ));
    }
    Ok(operand.len / size_of::<T>())
}

fn missing(what: &str, index: usize) -> Error {
    Error::new(ErrorKind::Internal, format!("{what} {index} is missing"))
}
