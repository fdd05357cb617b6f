//! The operands of a workload: inputs, outputs and scratch memory.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::Stream;
use std::marker::PhantomData;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Element;

/// The bytes of one operand of one execution.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawOperand {
    start: *mut u8,
    len: usize,
}

impl RawOperand {
    /// An absent operand.
    pub const NONE: RawOperand = RawOperand {
        start: std::ptr::null_mut(),
        len: 0,
    };

    /// The bytes at `start`. They are not accessed here; see [`Operands::new`] for the
    /// requirements.
    #[inline]
    pub fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// The start address.
    #[inline]
    pub fn start(self) -> *mut u8 {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        self.len
    }

    #[inline]
    fn overlaps(self, other: RawOperand) -> bool {
        let (a, b) = (self.start as usize, other.start as usize);
        self.len > 0 && other.len > 0 && a < b + other.len && b < a + self.len
    }
}

impl From<RawOperand> for tenon_backend_abi::Operand {
    fn from(operand: RawOperand) -> Self {
        Self {
            start: operand.start.cast(),
            length: operand.len,
        }
    }
}

// Loaded workloads receive lists of raw operands without conversion: the layouts must be equal.
const _: () = {
    use tenon_backend_abi::Operand;
    assert!(size_of::<RawOperand>() == size_of::<Operand>());
    assert!(std::mem::offset_of!(RawOperand, start) == std::mem::offset_of!(Operand, start));
    assert!(std::mem::offset_of!(RawOperand, len) == std::mem::offset_of!(Operand, length));
};

/// Inputs, outputs and scratch memory of one execution of a workload.
///
/// Inputs may share bytes. An output shares bytes with no other operand, except with the one input
/// that it is computed in place of, if the plan allows that.
///
/// With a [stream](Operands::stream) the workload enqueues its work: there are addresses only ([`Operands::raw`]), at
/// which the commands before it may not have written yet, and no slices.
pub struct Operands<'a> {
    inputs: &'a [RawOperand],
    outputs: &'a [RawOperand],
    scratch: RawOperand,
    stream: Option<&'a mut dyn Stream>,
    is_timed: bool,
    memory: PhantomData<&'a mut [u8]>,
}

/// An input and an output of the same element type that may be the same memory.
pub enum OperandPair<'a, T> {
    /// The output is computed in place of the input.
    InPlace(&'a mut [T]),
    /// They share no bytes.
    Apart(&'a [T], &'a mut [T]),
}

impl<'a> Operands<'a> {
    /// # Safety
    /// During `'a`, each operand that is not [`RawOperand::NONE`] must point to `len` initialised
    /// bytes that no other code writes, and, for outputs and scratch memory, that no other code
    /// reads. Outputs and scratch memory share no bytes with each other or with an input, except an
    /// output with exactly the input that it is computed in place of.
    #[inline]
    pub unsafe fn new(
        inputs: &'a [RawOperand],
        outputs: &'a [RawOperand],
        scratch: RawOperand,
    ) -> Self {
        Self {
            inputs,
            outputs,
            scratch,
            stream: None,
            is_timed: false,
            memory: PhantomData,
        }
    }

    /// The operands of a command of `stream`, which the workload's backend created; without scratch memory.
    ///
    /// # Safety
    /// Each operand that is not [`RawOperand::NONE`] must be memory of the backend ([`TensorHandle`](crate::TensorHandle))
    /// that is valid until the stream is finished; until then commands of the stream alone access outputs, and none
    /// writes inputs but those and the outputs computed in their place.
    pub unsafe fn enqueued(
        inputs: &'a [RawOperand],
        outputs: &'a [RawOperand],
        stream: &'a mut dyn Stream,
    ) -> Self {
        Self {
            inputs,
            outputs,
            scratch: RawOperand::NONE,
            stream: Some(stream),
            is_timed: false,
            memory: PhantomData,
        }
    }

    /// Sets whether [`Workload::part_times`](crate::Workload::part_times) is called for this execution; it is not by
    /// default.
    #[inline]
    pub fn set_timed(&mut self, timed: bool) {
        self.is_timed = timed;
    }

    /// Whether [`Workload::part_times`](crate::Workload::part_times) is called for this execution.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The addresses of inputs, outputs and scratch memory, for backends that compute elsewhere.
    #[inline]
    pub fn raw(&self) -> (&'a [RawOperand], &'a [RawOperand], RawOperand) {
        (self.inputs, self.outputs, self.scratch)
    }

    /// The stream in which the workload enqueues its work; `None` if the work is done when it returns.
    #[inline]
    pub fn stream(&mut self) -> Option<&mut dyn Stream> {
        match &mut self.stream {
            Some(stream) => Some(&mut **stream),
            None => None,
        }
    }

    /// Fails for operands of a command, whose elements are not accessible yet.
    #[inline]
    fn check_accessible(&self) -> Result<()> {
        match self.stream {
            None => Ok(()),
            Some(_) => Err(not_accessible()),
        }
    }

    /// Whether input `index` is present.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .is_some_and(|operand| !operand.start.is_null())
    }

    /// Whether output `index` is requested.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs
            .get(index)
            .is_some_and(|operand| !operand.start.is_null())
    }

    /// The elements of an input that no output is computed in place of. For several operands at
    /// once see [`Operands::split`].
    pub fn input<T: Element>(&self, index: usize) -> Result<&[T]> {
        self.check_accessible()?;
        let operand = *self
            .inputs
            .get(index)
            .ok_or_else(|| missing("input", index))?;
        if self.outputs.iter().any(|output| output.overlaps(operand)) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {index} is read although an output is computed in its place"),
            ));
        }
        // SAFETY: the operand is valid for reads during `'a` (`new`), and no output shares its
        // bytes (checked above), so only shared references to them exist.
        unsafe { elements(operand, "input", index) }
    }

    /// All operands: inputs borrow nothing of `self`; outputs and scratch memory are borrowed
    /// mutably. With a stream all are absent.
    #[inline]
    pub fn split(&mut self) -> (Inputs<'_>, Outputs<'_>) {
        let (inputs, outputs) = match self.stream {
            None => (self.inputs, self.outputs),
            Some(_) => Default::default(),
        };
        (
            Inputs {
                inputs,
                outputs,
                memory: PhantomData,
            },
            Outputs {
                outputs,
                scratch: self.scratch,
                taken: 0,
                scratch_taken: false,
                memory: PhantomData,
            },
        )
    }

    /// Input and output of an elementwise operator, which may share their memory.
    pub fn pair<T: Element>(&mut self, input: usize, output: usize) -> Result<OperandPair<'_, T>> {
        self.check_accessible()?;
        let source = *self
            .inputs
            .get(input)
            .ok_or_else(|| missing("input", input))?;
        let target = *self
            .outputs
            .get(output)
            .ok_or_else(|| missing("output", output))?;
        if source.start == target.start && source.len == target.len {
            // SAFETY: the operand is valid for reads and writes (`new`); `&mut self` excludes other
            // references.
            return Ok(OperandPair::InPlace(unsafe {
                elements_mut(target, "output", output)?
            }));
        }
        if source.overlaps(target) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {input} and output {output} overlap in part"),
            ));
        }
        // SAFETY: both operands are valid (`new`) and share no bytes (checked above); `&mut self`
        // excludes other references.
        unsafe {
            Ok(OperandPair::Apart(
                elements(source, "input", input)?,
                elements_mut(target, "output", output)?,
            ))
        }
    }
}

/// Maximum number of outputs of a workload.
pub const MAX_OUTPUTS: usize = 64;

/// The inputs of [`Operands::split`].
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    inputs: &'a [RawOperand],
    outputs: &'a [RawOperand],
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Inputs<'a> {
    /// The elements of an input; an error if an output is computed in its place.
    pub fn slice<T: Element>(&self, index: usize) -> Result<&'a [T]> {
        let operand = *self
            .inputs
            .get(index)
            .ok_or_else(|| missing("input", index))?;
        if self.outputs.iter().any(|output| output.overlaps(operand)) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {index} is read although an output is computed in its place"),
            ));
        }
        // SAFETY: the operand is valid for reads during `'a` (`Operands::new`), and no output
        // shares its bytes (checked above).
        unsafe { elements(operand, "input", index) }
    }

    /// Whether an output is computed in place of this input, whose elements are then read there.
    #[inline]
    pub fn is_replaced(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .is_some_and(|input| self.outputs.iter().any(|output| output.overlaps(*input)))
    }

    /// As [`slice`](Self::slice); `None` if the input is absent.
    pub fn optional<T: Element>(&self, index: usize) -> Result<Option<&'a [T]>> {
        match self.inputs.get(index) {
            Some(operand) if !operand.start.is_null() => self.slice(index).map(Some),
            _ => Ok(None),
        }
    }
}

/// The outputs and the scratch memory of [`Operands::split`]; each is borrowed at most once.
pub struct Outputs<'a> {
    outputs: &'a [RawOperand],
    scratch: RawOperand,
    /// A bit for each output, of which there are at most [`MAX_OUTPUTS`].
    taken: u64,
    scratch_taken: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Outputs<'a> {
    /// Whether an output is requested.
    pub fn is_requested(&self, index: usize) -> bool {
        self.outputs
            .get(index)
            .is_some_and(|operand| !operand.start.is_null())
    }

    /// The elements of an output.
    pub fn slice<T: Element>(&mut self, index: usize) -> Result<&'a mut [T]> {
        let operand = *self
            .outputs
            .get(index)
            .ok_or_else(|| missing("output", index))?;
        if index >= MAX_OUTPUTS {
            return Err(missing("output", index));
        }
        let bit = 1 << index;
        if self.taken & bit != 0 {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("output {index} is borrowed twice"),
            ));
        }
        self.taken |= bit;
        // SAFETY: the operand is valid for reads and writes during `'a` (`Operands::new`); it is
        // borrowed once (checked above), so no other reference exists.
        unsafe { elements_mut(operand, "output", index) }
    }

    /// As [`slice`](Self::slice); `None` if the output is not requested.
    pub fn optional<T: Element>(&mut self, index: usize) -> Result<Option<&'a mut [T]>> {
        match self.outputs.get(index) {
            Some(operand) if !operand.start.is_null() => self.slice(index).map(Some),
            _ => Ok(None),
        }
    }

    /// The scratch memory, at least as long as planned. Its bytes are initialised, their values
    /// unspecified.
    pub fn scratch<T: Element>(&mut self) -> Result<&'a mut [T]> {
        if std::mem::replace(&mut self.scratch_taken, true) {
            return Err(Error::new(
                ErrorKind::Internal,
                "the scratch memory is borrowed twice",
            ));
        }
        let whole = self.scratch.len - self.scratch.len % size_of::<T>();
        // SAFETY: the scratch memory is valid for reads and writes during `'a` (`Operands::new`)
        // and borrowed once (checked above).
        unsafe {
            elements_mut(
                RawOperand {
                    len: whole,
                    ..self.scratch
                },
                "scratch",
                0,
            )
        }
    }
}

/// # Safety
/// `operand` points to `len` initialised bytes that are not written during `'a`.
unsafe fn elements<'a, T: Element>(
    operand: RawOperand,
    what: &str,
    index: usize,
) -> Result<&'a [T]> {
    let count = count::<T>(operand, what, index)?;
    // SAFETY: `start` is not null and aligned, and `count` elements fit `len` (checked by `count`);
    // the bytes are initialised and not written during `'a` (requirement), and every bit pattern is
    // a valid `T` (`Element`).
    Ok(unsafe { std::slice::from_raw_parts(operand.start.cast(), count) })
}

/// # Safety
/// `operand` points to `len` initialised bytes that no other code reads or writes during `'a`.
unsafe fn elements_mut<'a, T: Element>(
    operand: RawOperand,
    what: &str,
    index: usize,
) -> Result<&'a mut [T]> {
    if operand.len == 0 {
        return Ok(&mut []);
    }
    let count = count::<T>(operand, what, index)?;
    // SAFETY: `start` is not null and aligned, and `count` elements fit `len` (checked by `count`);
    // the bytes are initialised and not accessed otherwise during `'a` (requirement), and every bit
    // pattern is a valid `T` (`Element`).
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
            format!(
                "{what} {index} of {} bytes does not hold whole {}",
                operand.len,
                T::DATA_TYPE
            ),
        ));
    }
    Ok(operand.len / size_of::<T>())
}

/// Out of line: each access checks for it.
#[cold]
fn not_accessible() -> Error {
    let text = "elements of an operand are accessed before the commands of its stream ran";
    Error::new(ErrorKind::Internal, text)
}

fn missing(what: &str, index: usize) -> Error {
    Error::new(ErrorKind::Internal, format!("{what} {index} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(bytes: &mut [u64]) -> RawOperand {
        RawOperand::new(bytes.as_mut_ptr().cast(), size_of_val(bytes))
    }

    #[test]
    fn operands_are_typed_and_taken_once() {
        let (mut a, mut b, mut s) = ([1u64, 2], [0u64, 0], [0u64; 3]);
        let (inputs, outputs) = ([operand(&mut a), RawOperand::NONE], [operand(&mut b)]);
        // SAFETY: three arrays that outlive the operands and are not accessed otherwise.
        let mut operands = unsafe { Operands::new(&inputs, &outputs, operand(&mut s)) };
        assert!(operands.has_input(0) && !operands.has_input(1) && !operands.has_input(2));
        assert!(operands.has_output(0) && !operands.has_output(1));
        let (reads, mut writes) = operands.split();
        assert_eq!(reads.slice::<u64>(0).unwrap(), [1, 2]);
        assert_eq!(reads.slice::<u32>(0).unwrap().len(), 4);
        assert!(reads.slice::<u8>(1).is_err() && reads.optional::<u8>(1).unwrap().is_none());
        writes.slice::<u64>(0).unwrap()[1] = 9;
        assert!(writes.slice::<u64>(0).is_err());
        assert!(writes.optional::<u64>(1).unwrap().is_none());
        assert_eq!(writes.scratch::<u8>().unwrap().len(), 24);
        assert!(writes.scratch::<u8>().is_err());
        assert_eq!(b[1], 9);
    }

    #[test]
    fn a_pair_in_place_is_one_slice_and_not_an_input() {
        let mut a = [1u64, 2];
        let both = [operand(&mut a)];
        // SAFETY: one array that outlives the operands; the output is computed in place of the
        // input.
        let mut operands = unsafe { Operands::new(&both, &both, RawOperand::NONE) };
        assert!(operands.input::<u64>(0).is_err());
        assert!(operands.split().0.slice::<u64>(0).is_err());
        assert!(matches!(
            operands.pair::<u64>(0, 0),
            Ok(OperandPair::InPlace([1, 2]))
        ));
    }

    #[test]
    fn unaligned_bytes_are_refused() {
        let mut a = [0u64; 2];
        let start = a.as_mut_ptr().cast::<u8>();
        let inputs = [RawOperand::new(start.wrapping_add(1), 8)];
        // SAFETY: bytes 1 to 8 of an array that outlives the operands.
        let operands = unsafe { Operands::new(&inputs, &[], RawOperand::NONE) };
        assert!(operands.input::<u64>(0).is_err());
        assert_eq!(operands.input::<u8>(0).unwrap().len(), 8);
    }
}
