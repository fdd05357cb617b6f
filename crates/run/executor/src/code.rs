//! The code of a bound function: one sequence of 32-bit words per kernel, in block order.
//!
//! | words | |
//! |---|---|
//! | 1 | the position of the bound kernel |
//! | 1 | its stream |
//! | 1 | the slot of its first result; the others follow |
//! | 2 | the number of operands, the number of results |
//! | n | the slots of the operands |
//! | | in a synchronous function: the number of slots whose lifetime ends after it, and these slots |
//! | | in an asynchronous function: for each result the [`Group`] of its users |
//!
//! Slots are renumbered registers: arguments, then results in block order.

use crate::Kernel;
use tenon_base::{Error, ErrorKind, Result};

/// Marks a user with a single operand: it is ready without counting down.
pub(crate) const SINGLE_OPERAND: u32 = 1 << 31;

/// Marks a user count that is followed by the cell of a returned slot.
const RETURNED: u32 = 1 << 31;

/// Kernels, and the positions of their words.
#[derive(Default)]
pub(crate) struct Code {
    kernels: Vec<Box<dyn Kernel>>,
    starts: Vec<u32>,
    words: Vec<u32>,
}

/// One kernel in the code.
pub(crate) struct Instruction<'a> {
    pub kernel: &'a dyn Kernel,
    pub operands: &'a [u32],
    pub results: Slice,
    /// The words that follow: slots whose lifetime ends, or groups.
    pub rest: &'a [u32],
}

/// Consecutive slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub first: u32,
    pub count: u32,
}

/// The users of a slot of an asynchronous function.
pub(crate) struct Group<'a> {
    /// Kernels in reverse order (bef 1.6); a kernel that uses the slot twice occurs twice. Some
    /// are marked [`SINGLE_OPERAND`].
    pub users: &'a [u32],
    /// The cell through which the slot is returned.
    pub cell: Option<u32>,
}

impl Slice {
    /// All slots.
    #[inline]
    pub(crate) fn slots(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |index| self.first + index)
    }

    /// The slot at a position.
    #[inline]
    pub(crate) fn slot(self, index: usize) -> Option<u32> {
        (index < self.count as usize).then(|| self.first + index as u32)
    }
}

impl Code {
    /// The number of kernels.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The kernel of an instruction.
    pub(crate) fn kernel(&self, index: usize) -> Option<&dyn Kernel> {
        let start = *self.starts.get(index)? as usize;
        Some(&*self.kernels[self.words[start] as usize])
    }

    /// The stream of an instruction.
    #[inline]
    pub(crate) fn stream(&self, index: u32) -> u32 {
        self.words[self.starts[index as usize] as usize + 1]
    }

    /// An instruction.
    #[inline]
    pub(crate) fn instruction(&self, index: usize) -> Instruction<'_> {
        let (head, rest) = split(&self.words[self.starts[index] as usize..]);
        let [kernel, _, first, operands, count] = head;
        let (operands, rest) = rest.split_at(operands as usize);
        Instruction {
            kernel: &*self.kernels[kernel as usize],
            operands,
            results: Slice { first, count },
            rest,
        }
    }

    /// The words from a position that [`CodeBuilder::position`] returned.
    pub(crate) fn words(&self, position: u32) -> &[u32] {
        &self.words[position as usize..]
    }

    /// The position of a suffix of the code's words.
    pub(crate) fn position(&self, words: &[u32]) -> u32 {
        // Readers only remove words from the front, so the remaining length gives the position.
        (self.words.len() - words.len()) as u32
    }
}

fn split(words: &[u32]) -> ([u32; 5], &[u32]) {
    match words.split_first_chunk() {
        Some((head, rest)) => (*head, rest),
        None => ([0; 5], &[]),
    }
}

/// Reads a group from the front of `words`.
#[inline]
pub(crate) fn group<'a>(words: &mut &'a [u32]) -> Group<'a> {
    let (&count, mut rest) = words.split_first().unwrap_or((&0, &[]));
    let mut cell = None;
    if count & RETURNED != 0
        && let Some((&first, others)) = rest.split_first()
    {
        cell = Some(first);
        rest = others;
    }
    let (users, rest) = rest.split_at((count & !RETURNED) as usize);
    *words = rest;
    Group { users, cell }
}

/// Writes code.
pub(crate) struct CodeBuilder(Code);

impl CodeBuilder {
    /// Code of these kernels; instructions refer to them by position.
    pub(crate) fn new(kernels: Vec<Box<dyn Kernel>>, instructions: usize) -> Self {
        Self(Code {
            kernels,
            starts: Vec::with_capacity(instructions),
            words: Vec::with_capacity(8 * instructions),
        })
    }

    /// The position of the next words.
    pub(crate) fn position(&self) -> Result<u32> {
        u32::try_from(self.0.words.len())
            .map_err(|_| Error::new(ErrorKind::Unsupported, "the function is too large"))
    }

    /// Starts an instruction.
    pub(crate) fn instruction(
        &mut self,
        kernel: u32,
        stream: u32,
        results: Slice,
        operands: impl ExactSizeIterator<Item = u32>,
    ) -> Result<()> {
        let start = self.position()?;
        self.0.starts.push(start);
        let Slice { first, count } = results;
        let head = [kernel, stream, first, operands.len() as u32, count];
        self.0.words.extend(head);
        self.0.words.extend(operands);
        Ok(())
    }

    /// Adds the slots whose lifetime ends after the instruction.
    pub(crate) fn dying(&mut self, slots: &[u32]) {
        self.0.words.push(slots.len() as u32);
        self.0.words.extend_from_slice(slots);
    }

    /// Adds the users of a slot.
    pub(crate) fn group(&mut self, cell: Option<u32>, users: impl ExactSizeIterator<Item = u32>) {
        let count = users.len() as u32;
        let words = &mut self.0.words;
        match cell {
            Some(cell) => words.extend([count | RETURNED, cell]),
            None => words.push(count),
        }
        words.extend(users);
    }

    /// The code.
    pub(crate) fn finish(mut self) -> Code {
        self.0.words.shrink_to_fit();
        self.0
    }
}
