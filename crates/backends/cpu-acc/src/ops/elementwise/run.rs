//! The execution of a program, part by part.

use super::function::Function;
use super::{Elementwise, Format, Input, Source, Step};
use crate::floats::{Floats, FloatsMut, Half};
use crate::ops::arithmetic::BinaryFunction;
use crate::ops::binary::Apply;
use crate::ops::broadcast::{Operand, Part, PartBuffer, for_each_chunk};
use crate::ops::conditional::WherePart;
use crate::ops::element_types::of_float;
use crate::ops::quantize::{ByteScale, dequantize_bytes, quantize_bytes};
use crate::ops::quantized::ByteType;
use crate::ops::unary::{BitTestChunk, Function as UnaryFunction, UnaryMap};
use crate::simd::math::UnaryFunction as VectorFunction;
use crate::simd::{Level, bits_of};
use std::array::from_fn;
use std::cell::Cell;
use std::ops::Range;
use tenon_backend::{Inputs, Operands, Workload};
use tenon_base::Result;
use tenon_graph::elementwise::MAX_INPUTS;

/// Elements of a part, such as half of a plane of 56 by 56. The buffers are consecutive in memory: with a power
/// of two, stores to one would have the same address modulo 4096 as loads from the next, which wait for them.
const PART: usize = 1568;

/// Rows below this size are joined to parts: their elements are repeated in memory.
const SHORT_ROW: usize = 256;

/// Registers of floats, and as many of bytes.
pub(super) const REGISTERS: usize = 6;

type Buffer<T> = PartBuffer<T, PART>;

/// The elements of an input.
#[derive(Clone, Copy)]
enum Memory<'a> {
    Floats(Floats<'a>),
    Bytes(&'a [u8]),
    /// Those of the output, which is computed in its place.
    Replaced,
}

/// An input of a part.
#[derive(Clone, Copy)]
enum View<'a> {
    Floats(Operand<'a, f32>),
    /// One element, as a slice.
    Repeated(&'a [f32]),
    Bytes(&'a [u8]),
}

/// A chunk of the output.
enum Chunk<'a> {
    Floats(FloatsMut<'a>),
    Bytes(&'a mut [u8]),
}

/// The memory of a thread: a buffer for each input whose elements are converted or repeated, and the
/// registers. Buffers are initialised when first used. On the stack, they would take longer than a
/// program of a small tensor.
struct Buffers {
    inputs: [InputBuffer; MAX_INPUTS],
    floats: [Buffer<f32>; REGISTERS],
    bytes: [Buffer<u8>; REGISTERS],
}

thread_local! {
    static BUFFERS: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

impl Buffers {
    /// Not inlined: what it takes of the stack would be touched, page by page, for each part of a small tensor.
    #[cold]
    #[inline(never)]
    fn allocated() -> Box<Self> {
        Box::new(Self {
            inputs: from_fn(|_| InputBuffer {
                floats: Buffer::of_len(),
                bytes: Buffer::of_len(),
            }),
            floats: from_fn(|_| Buffer::of_len()),
            bytes: from_fn(|_| Buffer::of_len()),
        })
    }
}

struct InputBuffer {
    floats: Buffer<f32>,
    bytes: Buffer<u8>,
}

impl Workload for Elementwise {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        if let Some(small) = &self.small {
            return small.execute(self.level, operands);
        }
        let (inputs, mut outputs) = operands.split();
        let mut memory = [Memory::Replaced; MAX_INPUTS];
        for (index, (memory, input)) in memory.iter_mut().zip(&self.inputs).enumerate() {
            *memory = input.memory(&inputs, index)?;
        }
        let memory = &memory[..self.inputs.len()];
        match self.output {
            Format::Bytes => for_each_chunk(outputs.slice::<u8>(0)?, |start, chunk| {
                self.run_chunk(memory, start, chunk.len(), Chunk::Bytes(chunk));
            }),
            Format::Floats(float) => of_float!(float, T => {
                for_each_chunk(outputs.slice::<T>(0)?, |start, chunk| {
                    let len = chunk.len();
                    let chunk = Chunk::Floats(crate::floats::FloatElement::floats_mut(chunk));
                    self.run_chunk(memory, start, len, chunk);
                });
            }),
        }
        Ok(())
    }
}

impl Elementwise {
    /// Computes the `len` elements of a chunk from the output's element `start` on.
    fn run_chunk(&self, memory: &[Memory<'_>], start: usize, len: usize, mut chunk: Chunk<'_>) {
        let mut buffers = BUFFERS.take().unwrap_or_else(Buffers::allocated);
        for input in &mut buffers.inputs[..memory.len()] {
            input.floats.forget();
            input.bytes.forget();
        }
        let row = self.row();
        let (mut at, mut left) = (0, row - start % row);
        while at < len {
            let range = at..at + left.min(PART).min(len - at);
            left -= range.len();
            if left == 0 {
                left = row;
            }
            at = range.end;
            self.run_part(memory, start + range.start, range, &mut chunk, &mut buffers);
        }
        BUFFERS.set(Some(buffers));
    }

    /// The elements of the output after which an input of one element for each row has the next one: parts end there,
    /// so that the element is not repeated in memory.
    fn row(&self) -> usize {
        let rows = self.inputs.iter().filter_map(|input| input.loops.row());
        rows.filter(|&row| row >= SHORT_ROW)
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Computes a range of a chunk, whose first element is the output's element `start`.
    fn run_part(
        &self,
        memory: &[Memory<'_>],
        start: usize,
        range: Range<usize>,
        chunk: &mut Chunk<'_>,
        buffers: &mut Buffers,
    ) {
        let level = self.level;
        let Buffers {
            inputs,
            floats,
            bytes,
        } = buffers;
        let mut views = [View::Bytes(&[]); MAX_INPUTS];
        let pairs = self.inputs.iter().zip(memory).zip(inputs);
        for (view, ((input, memory), buffer)) in views.iter_mut().zip(pairs) {
            *view = match *memory {
                Memory::Floats(floats) => {
                    let part = input.loops.part(start, range.len());
                    match input.floats(level, floats, part, &mut buffer.floats) {
                        Operand::Elements(floats) if input.is_single => View::Repeated(floats),
                        floats => View::Floats(floats),
                    }
                }
                Memory::Bytes(bytes) => {
                    let part = input.loops.part(start, range.len());
                    let bytes = Some(bytes);
                    let buffer = &mut buffer.bytes;
                    View::Bytes(input.loops.elements(0, bytes, part, &[], buffer))
                }
                Memory::Replaced => chunk.copy(level, range.clone(), buffer),
            };
        }
        let len = range.len();
        let last = self.steps.len() - 1;
        for (index, step) in self.steps.iter().enumerate() {
            let values = |floats, bytes| Values {
                len,
                memory,
                views: &views,
                floats,
                bytes,
            };
            match (step.format, &mut *chunk) {
                (Format::Bytes, Chunk::Bytes(output)) if index == last => {
                    let values = values(OtherRegisters::of(floats), OtherRegisters::of(bytes));
                    step.write_bytes(level, &values, &mut output[range.clone()]);
                }
                (Format::Floats(_), Chunk::Floats(FloatsMut::F32(output))) if index == last => {
                    let values = values(OtherRegisters::of(floats), OtherRegisters::of(bytes));
                    step.write_floats(level, &values, &mut output[range.clone()]);
                }
                (Format::Floats(_), output) => {
                    let (to, others) = OtherRegisters::split(floats, step.to);
                    let to = to.elements_mut(len);
                    step.write_floats(level, &values(others, OtherRegisters::of(bytes)), to);
                    if let (Chunk::Floats(output), true) = (output, index == last) {
                        output.write(level, range.clone(), to);
                    }
                }
                (Format::Bytes, _) => {
                    let (to, others) = OtherRegisters::split(bytes, step.to);
                    let values = values(OtherRegisters::of(floats), others);
                    step.write_bytes(level, &values, to.elements_mut(len));
                }
            }
        }
    }
}

impl Input {
    /// The elements, unless the output replaces them.
    fn memory<'a>(&self, inputs: &Inputs<'a>, index: usize) -> Result<Memory<'a>> {
        if self.is_replaceable && inputs.is_replaced(index) {
            return Ok(Memory::Replaced);
        }
        Ok(match self.format {
            Format::Floats(float) => Memory::Floats(Floats::input(inputs, index, float)?),
            Format::Bytes => Memory::Bytes(inputs.slice(index)?),
        })
    }

    /// The floats of a part.
    fn floats<'a>(
        &self,
        level: Level,
        floats: Floats<'a>,
        part: Part<1>,
        buffer: &'a mut Buffer<f32>,
    ) -> Operand<'a, f32> {
        match floats {
            Floats::F32(elements) if self.is_slice => {
                Operand::Elements(self.loops.elements(0, Some(elements), part, &[], buffer))
            }
            Floats::F32(elements) => self.loops.operand(0, Some(elements), part, buffer),
            Floats::F16(elements) => self.widened(level, elements, part, buffer),
            Floats::Bf16(elements) => self.widened(level, elements, part, buffer),
        }
    }

    /// The elements of a part, converted to f32. Not inlined, for the same reason.
    #[inline(never)]
    fn widened<'a, H: Half>(
        &self,
        level: Level,
        elements: &[H],
        part: Part<1>,
        buffer: &'a mut Buffer<f32>,
    ) -> Operand<'a, f32> {
        let mut narrow = PartBuffer::<H, PART>::of_len();
        match self.loops.operand(0, Some(elements), part, &mut narrow) {
            Operand::Scalar(element) if self.is_slice => {
                let to = buffer.elements_mut(part.len());
                to.fill(element.into());
                Operand::Elements(to)
            }
            Operand::Scalar(element) => Operand::Scalar(element.into()),
            Operand::Elements(elements) => {
                let to = buffer.elements_mut(elements.len());
                H::floats(elements).copy(level, 0..elements.len(), to);
                Operand::Elements(to)
            }
            Operand::InPlace => Operand::InPlace,
        }
    }
}

impl Chunk<'_> {
    /// A copy of a range, before it is computed in place.
    fn copy<'a>(&self, level: Level, range: Range<usize>, buffer: &'a mut InputBuffer) -> View<'a> {
        match self {
            Self::Floats(floats) => {
                let to = buffer.floats.elements_mut(range.len());
                floats.copy(level, range, to);
                View::Floats(Operand::Elements(to))
            }
            Self::Bytes(bytes) => {
                let to = buffer.bytes.elements_mut(range.len());
                to.copy_from_slice(&bytes[range]);
                View::Bytes(to)
            }
        }
    }
}

/// The registers that a step may read: all but the one that it writes.
#[derive(Clone, Copy)]
struct OtherRegisters<'a, T> {
    before: &'a [Buffer<T>],
    after: &'a [Buffer<T>],
}

impl<'a, T: Copy + Default> OtherRegisters<'a, T> {
    /// All registers.
    fn of(registers: &'a [Buffer<T>]) -> Self {
        Self {
            before: registers,
            after: &[],
        }
    }

    /// Register `to`, and the others.
    fn split(registers: &'a mut [Buffer<T>], to: usize) -> (&'a mut Buffer<T>, Self) {
        let (before, rest) = registers.split_at_mut(to);
        let (to, after) = rest.split_at_mut(1);
        (&mut to[0], Self { before, after })
    }

    fn elements(&self, register: usize, len: usize) -> &'a [T] {
        match register.checked_sub(self.before.len()) {
            None => self.before[register].elements(len),
            // Operands are in other registers than the result.
            Some(after) => self.after[after - 1].elements(len),
        }
    }
}

/// What the steps of a part read.
struct Values<'a> {
    len: usize,
    memory: &'a [Memory<'a>],
    views: &'a [View<'a>],
    floats: OtherRegisters<'a, f32>,
    bytes: OtherRegisters<'a, u8>,
}

impl<'a> Values<'a> {
    fn floats(&self, operand: Option<Source>) -> Operand<'a, f32> {
        match operand {
            Some(Source::Register(register)) => {
                Operand::Elements(self.floats.elements(register, self.len))
            }
            Some(Source::Input(input)) => match self.views[input] {
                View::Floats(floats) => floats,
                View::Repeated(floats) => Operand::Scalar(floats[0]),
                View::Bytes(_) => Operand::Elements(&[]),
            },
            None => Operand::Elements(&[]),
        }
    }

    /// Floats that are read as a slice.
    fn float_slice(&self, operand: Option<Source>) -> &'a [f32] {
        if let Some(Source::Input(input)) = operand
            && let View::Repeated(floats) = self.views[input]
        {
            return floats;
        }
        match self.floats(operand) {
            Operand::Elements(elements) => elements,
            Operand::Scalar(_) | Operand::InPlace => &[],
        }
    }

    fn bytes(&self, operand: Option<Source>) -> &'a [u8] {
        match operand {
            Some(Source::Register(register)) => self.bytes.elements(register, self.len),
            Some(Source::Input(input)) => match self.views[input] {
                View::Bytes(bytes) => bytes,
                View::Floats(_) | View::Repeated(_) => &[],
            },
            None => &[],
        }
    }

    /// The byte of an input of one.
    fn single_byte(&self, operand: Option<Source>) -> Option<u8> {
        match operand {
            Some(Source::Input(input)) => match self.memory[input] {
                Memory::Bytes(bytes) => bytes.first().copied(),
                Memory::Floats(_) | Memory::Replaced => None,
            },
            _ => None,
        }
    }

    /// A bound of `Clip`, or a scale.
    fn bound(&self, operand: Option<&Option<Source>>, default: f32) -> f32 {
        match operand.copied().flatten() {
            Some(Source::Input(input)) => match self.memory[input] {
                Memory::Floats(floats) => floats.get(0),
                Memory::Bytes(_) | Memory::Replaced => default,
            },
            _ => default,
        }
    }
}

impl Step {
    /// Computes floats.
    fn write_floats(&self, level: Level, values: &Values<'_>, to: &mut [f32]) {
        match &self.function {
            Function::Unary(function) => {
                copy(values.floats(self.operands[0]), to);
                level.run(UnaryMap {
                    function: *function,
                    elements: to,
                });
            }
            Function::Clip => {
                copy(values.floats(self.operands[0]), to);
                let low = values.bound(self.operands.get(1), f32::NEG_INFINITY);
                let high = values.bound(self.operands.get(2), f32::INFINITY);
                let function = UnaryFunction::Vector(VectorFunction::Clamp { low, high });
                level.run(UnaryMap {
                    function,
                    elements: to,
                });
            }
            Function::Binary(function, factor) => {
                let mut apply = |function, a, b| {
                    let to = &mut *to;
                    level.run(Apply { function, a, b, to });
                };
                let mut operands = self.operands.iter().map(|&source| values.floats(source));
                let first = operands.next().unwrap_or(Operand::InPlace);
                match operands.next() {
                    // The sum and the mean of one operand are its elements, and so is its minimum.
                    None => apply(BinaryFunction::Min, first, first),
                    Some(second) => apply(*function, first, second),
                }
                for further in operands {
                    apply(*function, Operand::InPlace, further);
                }
                if let Some(factor) = factor {
                    to.iter_mut().for_each(|x| *x *= factor);
                }
            }
            Function::Select => level.run(WherePart {
                condition: values.bytes(self.operands[0]),
                x: values.float_slice(self.operands[1]),
                y: values.float_slice(self.operands[2]),
                to,
            }),
            Function::Dequantize(ty) => {
                let from = values.bytes(self.operands[0]);
                dequantize_bytes(level, from, self.quantization(values, *ty), to);
            }
            // Of bytes.
            Function::Quantize(_)
            | Function::Compare(_)
            | Function::Test(_)
            | Function::Not
            | Function::Logic(_) => {}
        }
    }

    /// The scale and the zero point of a step between floats and bytes.
    fn quantization(&self, values: &Values<'_>, ty: ByteType) -> ByteScale {
        let zero = self.operands.get(2).copied().flatten();
        ByteScale {
            ty,
            scale: values.bound(self.operands.get(1), 1.0),
            zero: values.single_byte(zero).unwrap_or(0),
        }
    }

    /// Computes bytes.
    fn write_bytes(&self, level: Level, values: &Values<'_>, to: &mut [u8]) {
        let floats = |nth: usize| bits_of(values.float_slice(self.operands[nth]));
        let bytes = |nth: usize| values.bytes(self.operands[nth]);
        match &self.function {
            Function::Compare(compare) => compare(level, floats(0), floats(1), to),
            Function::Test(test) => level.run(BitTestChunk {
                test: *test,
                from: floats(0),
                to,
            }),
            Function::Not => {
                let pairs = to.iter_mut().zip(bytes(0));
                pairs.for_each(|(to, &truth)| *to = (truth == 0).into());
            }
            Function::Logic(apply) => apply(level, bytes(0), bytes(1), to),
            Function::Select => level.run(WherePart {
                condition: bytes(0),
                x: bytes(1),
                y: bytes(2),
                to,
            }),
            Function::Quantize(ty) => {
                let from = values.float_slice(self.operands[0]);
                quantize_bytes(level, from, self.quantization(values, *ty), to);
            }
            // Of floats.
            Function::Dequantize(_)
            | Function::Unary(_)
            | Function::Clip
            | Function::Binary(..) => {}
        }
    }
}

/// The elements of an operand.
fn copy(operand: Operand<'_, f32>, to: &mut [f32]) {
    match operand {
        Operand::Elements(elements) => to.copy_from_slice(elements),
        Operand::Scalar(element) => to.fill(element),
        Operand::InPlace => {}
    }
}
