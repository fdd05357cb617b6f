//! The memory a workload reads and writes.

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
    /// An operand that is left out.
    pub const NONE: RawOperand = RawOperand {
        start: std::ptr::null_mut(),
        len: 0,
    };

    /// The bytes at `start`. Nothing is read here; see [`Operands::new`] for what must hold.
    pub fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// Where it starts.
    pub fn start(self) -> *mut u8 {
        self.start
    }

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

// A loaded workload gets lists of raw operands as they lie.
const _: () = {
    use tenon_backend_abi::Operand;
    assert!(size_of::<RawOperand>() == size_of::<Operand>());
    assert!(std::mem::offset_of!(RawOperand, start) == std::mem::offset_of!(Operand, start));
    assert!(std::mem::offset_of!(RawOperand, len) == std::mem::offset_of!(Operand, length));
};

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
pub enum OperandPair<'a, T> {
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
        Self {
            inputs,
            outputs,
            scratch,
            memory: PhantomData,
        }
    }

    /// Inputs, outputs and scratch memory as a loaded backend gets them.
    pub(crate) fn raw(&mut self) -> (&[RawOperand], &[RawOperand], RawOperand) {
        (self.inputs, self.outputs, self.scratch)
    }

    /// Whether input `index` is there.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .is_some_and(|operand| !operand.start.is_null())
    }

    /// Whether output `index` is wanted.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs
            .get(index)
            .is_some_and(|operand| !operand.start.is_null())
    }

    /// The elements of an input that no output takes the place of, together with those of an
    /// output and the scratch memory; see [`Operands::split`] for several.
    pub fn input<T: Element>(&self, index: usize) -> Result<&[T]> {
        let operand = *self
            .inputs
            .get(index)
            .ok_or_else(|| missing("input", index))?;
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
            Inputs {
                inputs: self.inputs,
                outputs: self.outputs,
                memory: PhantomData,
            },
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
    pub fn pair<T: Element>(&mut self, input: usize, output: usize) -> Result<OperandPair<'_, T>> {
        let source = *self
            .inputs
            .get(input)
            .ok_or_else(|| missing("input", input))?;
        let target = *self
            .outputs
            .get(output)
            .ok_or_else(|| missing("output", output))?;
        if source.start == target.start && source.len == target.len {
            // SAFETY: vouched for in `new`; borrowed mutably for as long as `self`.
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
        // SAFETY: vouched for in `new`; they share nothing (checked above).
        unsafe {
            Ok(OperandPair::Apart(
                elements(source, "input", input)?,
                elements_mut(target, "output", output)?,
            ))
        }
    }
}

/// Most outputs of a workload.
pub const MAX_OUTPUTS: usize = 64;

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
        let operand = *self
            .inputs
            .get(index)
            .ok_or_else(|| missing("input", index))?;
        if self.outputs.iter().any(|output| output.overlaps(operand)) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("input {index} is read although an output takes its place"),
            ));
        }
        // SAFETY: vouched for in `Operands::new`; no output shares its bytes (checked above).
        unsafe { elements(operand, "input", index) }
    }

    /// Whether an output takes the place of this input: its elements are read there.
    pub fn is_replaced(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .is_some_and(|input| self.outputs.iter().any(|output| output.overlaps(*input)))
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
    /// Whether an output is wanted.
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
        let taken = self
            .taken
            .get_mut(index)
            .ok_or_else(|| missing("output", index))?;
        if std::mem::replace(taken, true) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("output {index} is taken twice"),
            ));
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
            return Err(Error::new(
                ErrorKind::Internal,
                "the scratch memory is taken twice",
            ));
        }
        let whole = self.scratch.len - self.scratch.len % size_of::<T>();
        // SAFETY: as for outputs.
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
            format!(
                "{what} {index} of {} bytes does not hold whole {}",
                operand.len,
                T::DATA_TYPE
            ),
        ));
    }
    Ok(operand.len / size_of::<T>())
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
        // SAFETY: three arrays that live longer and are not used otherwise meanwhile.
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
        // SAFETY: one array, the output takes the input's place.
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
        // SAFETY: bytes 1 to 8 of an array that lives longer.
        let operands = unsafe { Operands::new(&inputs, &[], RawOperand::NONE) };
        assert!(operands.input::<u64>(0).is_err());
        assert_eq!(operands.input::<u8>(0).unwrap().len(), 8);
    }
}
