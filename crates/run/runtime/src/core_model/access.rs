//! The memory of one execution on tensor sets, borrowed for its duration.

use crate::tensors::{AccessMode, Borrow, Storage};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_tensor::BufferMut;

/// The number of inputs, and of outputs, that are stored inline; most models have no more.
const INLINE_PORTS: usize = 3;

/// The memory of one port in one execution.
pub(super) struct Port {
    pub storage: Arc<Storage>,
    pub range: Range<usize>,
}

pub(super) type Ports = SmallVec<[Port; INLINE_PORTS]>;

/// The borrowed memory of one execution.
pub(super) struct Access {
    inputs: SmallVec<[Input; INLINE_PORTS]>,
    outputs: SmallVec<[Borrow; INLINE_PORTS]>,
}

/// The bytes of an input.
enum Input {
    Borrowed(Borrow),
    /// A copy: of bytes that overlap an output, or of fed-back output.
    Copied(BufferMut),
}

impl Input {
    fn bytes(&self) -> &[u8] {
        match self {
            Input::Borrowed(borrow) => borrow.bytes(),
            Input::Copied(bytes) => bytes,
        }
    }
}

impl Access {
    /// Borrows the memory of all ports; waits for conflicting borrows.
    pub fn new(inputs: Ports, outputs: Ports, control: Option<&Control>) -> Result<Self> {
        for (index, output) in outputs.iter().enumerate() {
            if outputs[index + 1..]
                .iter()
                .any(|other| other.overlaps(output))
            {
                let text = "two outputs overlap";
                return Err(Error::new(ErrorKind::BadInput, text));
            }
        }
        let mut held: SmallVec<[Option<Input>; INLINE_PORTS]> = SmallVec::new();
        for input in &inputs {
            let copied = outputs.iter().any(|output| output.overlaps(input));
            held.push(if copied {
                let borrow = input.borrow(AccessMode::Read, control)?;
                Some(Input::Copied(BufferMut::copy_of(borrow.bytes())?))
            } else {
                None
            });
        }
        // In ascending order: see `Storage::borrow`.
        let count = inputs.len();
        let all: SmallVec<[&Port; 2 * INLINE_PORTS]> = inputs.iter().chain(&outputs).collect();
        let mut order: SmallVec<[usize; 2 * INLINE_PORTS]> = (0..all.len()).collect();
        order.sort_unstable_by_key(|&at| (Arc::as_ptr(&all[at].storage), all[at].range.start));
        let mut written: SmallVec<[Option<Borrow>; INLINE_PORTS]> =
            outputs.iter().map(|_| None).collect();
        for at in order {
            match at.checked_sub(count) {
                Some(output) => written[output] = Some(all[at].borrow(AccessMode::Write, control)?),
                None if held[at].is_none() => {
                    held[at] = Some(Input::Borrowed(all[at].borrow(AccessMode::Read, control)?));
                }
                None => {}
            }
        }
        Ok(Self {
            inputs: held.into_iter().flatten().collect(),
            outputs: written.into_iter().flatten().collect(),
        })
    }

    /// The bytes of inputs and outputs, in order.
    pub fn bytes(&mut self) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &mut [u8]>) {
        (
            self.inputs.iter().map(Input::bytes),
            self.outputs.iter_mut().map(Borrow::bytes_mut),
        )
    }

    /// Copies outputs to the inputs that they feed.
    pub fn feed_back(&mut self, pairs: &[(usize, usize)]) -> Result<()> {
        for &(output, input) in pairs {
            let bytes = self.outputs[output].bytes();
            match &mut self.inputs[input] {
                Input::Copied(copy) => copy.copy_from_slice(bytes),
                borrowed => *borrowed = Input::Copied(BufferMut::copy_of(bytes)?),
            }
        }
        Ok(())
    }
}

impl Port {
    fn borrow(&self, what: AccessMode, control: Option<&Control>) -> Result<Borrow> {
        self.storage
            .clone()
            .borrow(self.range.clone(), what, control)
    }

    /// Whether two ports overlap, by address: a caller may have attached the same memory twice.
    fn overlaps(&self, other: &Self) -> bool {
        let start = |port: &Self| port.storage.address(port.range.start) as usize;
        let (a, b) = (start(self), start(other));
        let (some, any) = (!self.range.is_empty(), !other.range.is_empty());
        some && any && a < b + other.range.len() && b < a + self.range.len()
    }
}
