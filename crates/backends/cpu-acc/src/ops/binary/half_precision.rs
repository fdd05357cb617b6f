//! Functions of two operands of f16 or bf16, computed in f32. Of more they are programs of one instruction.

use super::OperandLoops;
use super::float::apply;
use super::words::tests;
use crate::floats::Half;
use crate::ops::arithmetic::{BinaryFunction, Comparison, vector_comparison};
use crate::ops::broadcast::{Operand, PART, PartBuffer, for_each_chunk, unless_replaced};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;

/// Elements of half precision that are compared at once.
const BLOCK: usize = 512;

/// Elements that are converted in registers at once: whole vectors at every level.
const STRIP: usize = 128;

/// A function of f16 or bf16, computed in f32.
pub(super) struct HalfBinary<H> {
    level: Level,
    function: BinaryFunction,
    loops: OperandLoops,
    element: PhantomData<H>,
}

impl<H: Half> HalfBinary<H> {
    pub(super) fn of(signature: &Signature<'_>, function: BinaryFunction) -> Result<Self, Refusal> {
        Ok(Self {
            level: signature.level,
            function,
            loops: OperandLoops::of(signature, [0, 1])?,
            element: PhantomData,
        })
    }

    /// Writes the function of two operands to a part of the output.
    fn apply(
        &self,
        [a, b]: [(Operand<'_, H>, Option<usize>); 2],
        to: &mut [H],
        memory: &mut Option<WideParts>,
    ) {
        let operands = [a.0, b.0];
        match self.function {
            BinaryFunction::Add => self.level.run(ApplyInstruction(Sum, operands, to)),
            BinaryFunction::Sub => self.level.run(ApplyInstruction(Difference, operands, to)),
            BinaryFunction::Mul => self.level.run(ApplyInstruction(Product, operands, to)),
            BinaryFunction::Div => self.level.run(ApplyInstruction(Quotient, operands, to)),
            _ => self.apply_wide([a, b], to, memory),
        }
    }

    /// The same by operands and results in f32 in memory.
    fn apply_wide(
        &self,
        [a, b]: [(Operand<'_, H>, Option<usize>); 2],
        to: &mut [H],
        memory: &mut Option<WideParts>,
    ) {
        let memory = memory.get_or_insert_with(WideParts::new);
        let [x, y] = &mut memory.operands;
        self.level.run(ApplyWide {
            function: self.function,
            a: x.operand(self.level, a, to),
            b: y.operand(self.level, b, to),
            results: &mut memory.results[..to.len()],
            to,
        });
    }
}

impl<H: Half> UnpreparedWorkload for HalfBinary<H> {
    fn workload_plan(&self) -> WorkloadPlan {
        self.loops.in_place()
    }
}

impl<H: Half> Workload for HalfBinary<H> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let sides = unless_replaced(&inputs, self.loops.order)?;
        let output = outputs.slice::<H>(0)?;
        let pair = &self.loops.pair;
        for_each_chunk(output, |start, output| {
            let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
            let mut memory = None;
            pair.for_each_part(start, output, |part, to| {
                let a = pair.operand(0, sides[0], part, &mut first);
                let b = pair.operand(1, sides[1], part, &mut second);
                let operands = [(a, part.offset(0)), (b, part.offset(1))];
                self.apply(operands, to, &mut memory);
            });
        });
        Ok(())
    }
}

/// A function of one instruction.
trait Instruction {
    fn apply<S: Simd>(s: S, x: S::V, y: S::V) -> S::V;
}

macro_rules! instructions {
    ($($Name:ident $function:ident),*) => {$(
        struct $Name;

        impl Instruction for $Name {
            #[inline(always)]
            fn apply<S: Simd>(s: S, x: S::V, y: S::V) -> S::V {
                s.$function(x, y)
            }
        }
    )*};
}

instructions!(Sum add, Difference sub, Product mul, Quotient div);

/// An instruction, its operands and a part of the output. Operands are converted in registers, not in memory.
struct ApplyInstruction<'a, H, I>(I, [Operand<'a, H>; 2], &'a mut [H]);

impl<H: Half, I: Instruction> VectorOp for ApplyInstruction<'_, H, I> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self(_, [a, b], to) = self;
        let repeated = |operand| match operand {
            Operand::Scalar(element) => [element; STRIP],
            _ => [H::default(); STRIP],
        };
        let (repeated_a, repeated_b) = (repeated(a), repeated(b));
        let mut results = [0.0; STRIP];
        for (index, to) in to.chunks_mut(STRIP).enumerate() {
            let mut old = [H::default(); STRIP];
            if matches!((a, b), (Operand::InPlace, _) | (_, Operand::InPlace)) {
                old[..to.len()].copy_from_slice(to);
            }
            let x = strip(a, index, &repeated_a, &old, to.len());
            let y = strip(b, index, &repeated_b, &old, to.len());
            let (x, y) = (x.chunks(S::LANES), y.chunks(S::LANES));
            for ((result, x), y) in results.chunks_exact_mut(S::LANES).zip(x).zip(y) {
                let (x, y) = (H::load_slice(s, x), H::load_slice(s, y));
                s.store(I::apply(s, x, y), result);
            }
            H::narrow(s, &results[..to.len()], to);
        }
    }
}

/// Elements of an operand for a strip of the output, whose elements are `old`.
#[inline(always)]
fn strip<'a, H>(
    operand: Operand<'a, H>,
    index: usize,
    repeated: &'a [H; STRIP],
    old: &'a [H; STRIP],
    len: usize,
) -> &'a [H] {
    match operand {
        Operand::Elements(elements) => &elements[index * STRIP..][..len],
        Operand::Scalar(_) => &repeated[..len],
        Operand::InPlace => &old[..len],
    }
}

/// The operands and results of a part in f32.
struct WideParts {
    operands: [WidePart; 2],
    results: [f32; PART],
}

impl WideParts {
    fn new() -> Self {
        Self {
            operands: [WidePart::new(), WidePart::new()],
            results: [0.0; PART],
        }
    }
}

/// An operand of a part in f32.
struct WidePart {
    elements: [f32; PART],
    /// The offset and the number of the operand's elements that are in `elements`.
    source: Option<(usize, usize)>,
}

impl WidePart {
    fn new() -> Self {
        Self {
            elements: [0.0; PART],
            source: None,
        }
    }

    /// An operand, whose first element is at the given offset of its input if they are contiguous there, in f32.
    /// A row that is broadcast is converted once.
    fn operand<H: Half>(
        &mut self,
        level: Level,
        (operand, offset): (Operand<'_, H>, Option<usize>),
        output: &[H],
    ) -> Operand<'_, f32> {
        let from = match operand {
            Operand::Scalar(element) => return Operand::Scalar(element.into()),
            Operand::Elements(elements) => elements,
            Operand::InPlace => output,
        };
        let offset = match operand {
            Operand::InPlace => None,
            _ => offset,
        };
        let source = offset.map(|offset| (offset, from.len()));
        if source.is_none() || source != self.source {
            let to = &mut self.elements[..from.len()];
            H::floats(from).copy(level, 0..from.len(), to);
            self.source = source;
        }
        Operand::Elements(&self.elements[..from.len()])
    }
}

/// A part of the output, and its operands in f32.
struct ApplyWide<'a, H> {
    function: BinaryFunction,
    a: Operand<'a, f32>,
    b: Operand<'a, f32>,
    /// Memory for the results in f32.
    results: &'a mut [f32],
    to: &'a mut [H],
}

impl<H: Half> VectorOp for ApplyWide<'_, H> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        apply(s, self.function, self.a, self.b, self.results);
        H::floats_mut(self.to).write_by(s, 0..self.results.len(), self.results);
    }
}

/// A comparison of f16 or bf16.
pub(super) fn half_tests<H: Half>(
    signature: &Signature<'_>,
    function: Comparison,
    order: [usize; 2],
) -> Result<Box<dyn Kernel>, Refusal> {
    let test = vector_comparison::<f32>(function);
    let test = move |level: Level, a: &[H], b: &[H], to: &mut [u8]| {
        let (mut x, mut y) = ([0; BLOCK], [0; BLOCK]);
        let mut wide = [0.0; BLOCK];
        let operands = a.chunks(BLOCK).zip(b.chunks(BLOCK));
        for ((a, b), to) in operands.zip(to.chunks_mut(BLOCK)) {
            let (x, y) = (&mut x[..to.len()], &mut y[..to.len()]);
            for (half, words) in [(a, &mut *x), (b, &mut *y)] {
                let wide = &mut wide[..half.len()];
                H::floats(half).copy(level, 0..half.len(), wide);
                let pairs = words.iter_mut().zip(wide);
                pairs.for_each(|(word, wide)| *word = wide.to_bits());
            }
            test(level, x, y, to);
        }
    };
    tests(signature, test, order)
}
