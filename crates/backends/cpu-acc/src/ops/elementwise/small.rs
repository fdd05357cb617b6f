//! Programs of few elements of f32: one call of vector code, whose registers are vectors, executes all instructions. The
//! parts and buffers of larger outputs take longer than the instructions of these.

use super::function::Function;
use super::run::REGISTERS;
use super::{Format, Input, Source, Step};
use crate::floats::FloatType;
use crate::ops::arithmetic::BinaryFunction;
use crate::ops::unary::Function as UnaryFunction;
use crate::simd::math::{UnaryFunction as VectorFunction, clamp, exp, map_in_place, sigmoid, tanh};
use crate::simd::{Level, MAX_LANES, Simd, VectorOp};
use tenon_backend::{Inputs, Operands};
use tenon_base::Result;

/// Most elements.
const MOST_ELEMENTS: usize = 256;

/// Most inputs.
const MOST_INPUTS: usize = 8;

/// A program whose inputs have the elements of the output, or one.
pub(super) struct SmallProgram {
    steps: Vec<SmallStep>,
    /// For each input whether it is one element.
    singles: Vec<bool>,
}

struct SmallStep {
    function: SmallFunction,
    operands: [Source; 2],
    to: usize,
}

#[derive(Clone, Copy)]
enum SmallFunction {
    Add,
    Sub,
    Mul,
    Div,
    /// Of the first operand.
    Unary(VectorFunction),
    /// Of the first operand; the bounds are these inputs.
    Clip([Option<usize>; 2]),
}

/// An input.
#[derive(Clone, Copy)]
enum SmallInput<'a> {
    Single(f32),
    Elements(&'a [f32]),
    /// The elements of the output.
    Replaced,
}

impl SmallProgram {
    /// The program of these steps; `None` if it has other types, shapes or functions.
    pub(super) fn of(inputs: &[Input], steps: &[Step], elements: usize) -> Option<Self> {
        let is_f32 = |format: Format| format == Format::Floats(FloatType::F32);
        let fits = (1..=MOST_ELEMENTS).contains(&elements)
            && inputs.len() <= MOST_INPUTS
            && inputs.iter().all(|input| is_f32(input.format))
            && inputs.iter().all(|input| input.is_single || input.is_dense)
            && steps.iter().all(|step| is_f32(step.format));
        if !fits {
            return None;
        }
        let steps = steps.iter().map(SmallStep::of);
        Some(Self {
            steps: steps.collect::<Option<_>>()?,
            singles: inputs.iter().map(|input| input.is_single).collect(),
        })
    }

    /// Computes the output.
    pub(super) fn execute(&self, level: Level, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let mut memory = [SmallInput::Replaced; MOST_INPUTS];
        for (index, (memory, &is_single)) in memory.iter_mut().zip(&self.singles).enumerate() {
            *memory = SmallInput::of(&inputs, index, is_single)?;
        }
        level.run(SmallRun {
            steps: &self.steps,
            inputs: &memory,
            output: outputs.slice::<f32>(0)?,
        });
        Ok(())
    }
}

impl SmallStep {
    fn of(step: &Step) -> Option<Self> {
        let bound = |nth: usize| match step.operands.get(nth).copied().flatten() {
            None => Some(None),
            Some(Source::Input(input)) => Some(Some(input)),
            Some(Source::Register(_)) => None,
        };
        let (function, count) = match &step.function {
            Function::Binary(BinaryFunction::Add, None) => (SmallFunction::Add, 2),
            Function::Binary(BinaryFunction::Sub, None) => (SmallFunction::Sub, 2),
            Function::Binary(BinaryFunction::Mul, None) => (SmallFunction::Mul, 2),
            Function::Binary(BinaryFunction::Div, None) => (SmallFunction::Div, 2),
            Function::Unary(UnaryFunction::Vector(function)) => {
                (SmallFunction::Unary(*function), 1)
            }
            Function::Clip => (SmallFunction::Clip([bound(1)?, bound(2)?]), 1),
            _ => return None,
        };
        let is_clip = matches!(function, SmallFunction::Clip(_));
        if !is_clip && step.operands.len() != count {
            return None;
        }
        let first = step.operands.first().copied().flatten()?;
        let second = match count {
            1 => first,
            _ => step.operands[1]?,
        };
        Some(Self {
            function,
            operands: [first, second],
            to: step.to,
        })
    }
}

impl<'a> SmallInput<'a> {
    fn of(inputs: &Inputs<'a>, index: usize, is_single: bool) -> Result<Self> {
        if !is_single && inputs.is_replaced(index) {
            return Ok(Self::Replaced);
        }
        let elements = inputs.slice::<f32>(index)?;
        Ok(match elements.first() {
            Some(&element) if is_single => Self::Single(element),
            _ => Self::Elements(elements),
        })
    }

    /// The first element.
    fn single(self) -> Option<f32> {
        match self {
            Self::Single(element) => Some(element),
            Self::Elements(elements) => elements.first().copied(),
            Self::Replaced => None,
        }
    }
}

struct SmallRun<'a> {
    steps: &'a [SmallStep],
    inputs: &'a [SmallInput<'a>; MOST_INPUTS],
    output: &'a mut [f32],
}

impl VectorOp for SmallRun<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let mut at = 0;
        while at < self.output.len() {
            let end = self.output.len().min(at + S::LANES);
            let mut registers = [s.splat(0.0); REGISTERS];
            let mut result = s.splat(0.0);
            for step in self.steps {
                let output = &self.output[at..end];
                let first = operand(s, step.operands[0], &registers, self.inputs, (at, output));
                result = match step.function {
                    SmallFunction::Unary(function) => unary(s, function, first),
                    SmallFunction::Clip([low, high]) => {
                        let low = bound(self.inputs, low, f32::NEG_INFINITY);
                        clamp(s, low, bound(self.inputs, high, f32::INFINITY), first)
                    }
                    function => {
                        let second = step.operands[1];
                        let second = operand(s, second, &registers, self.inputs, (at, output));
                        match function {
                            SmallFunction::Add => s.add(first, second),
                            SmallFunction::Sub => s.sub(first, second),
                            SmallFunction::Mul => s.mul(first, second),
                            _ => s.div(first, second),
                        }
                    }
                };
                registers[step.to] = result;
            }
            s.store_part(result, &mut self.output[at..end]);
            at = end;
        }
    }
}

/// A vector of an operand, from element `at` on; `output` has its elements where these are replaced.
#[inline(always)]
fn operand<S: Simd>(
    s: S,
    source: Source,
    registers: &[S::V; REGISTERS],
    inputs: &[SmallInput<'_>; MOST_INPUTS],
    (at, output): (usize, &[f32]),
) -> S::V {
    match source {
        Source::Register(register) => registers[register],
        Source::Input(input) => match inputs[input] {
            SmallInput::Single(element) => s.splat(element),
            SmallInput::Elements(elements) => s.load_part(&elements[at..at + output.len()]),
            SmallInput::Replaced => s.load_part(output),
        },
    }
}

#[inline(always)]
fn bound(inputs: &[SmallInput<'_>; MOST_INPUTS], input: Option<usize>, default: f32) -> f32 {
    input
        .and_then(|input| inputs[input].single())
        .unwrap_or(default)
}

/// The frequent functions inline, others by a call.
#[inline(always)]
fn unary<S: Simd>(s: S, function: VectorFunction, x: S::V) -> S::V {
    match function {
        VectorFunction::Tanh => tanh(s, x),
        VectorFunction::Sigmoid => sigmoid(s, x),
        VectorFunction::Exp => exp(s, x),
        VectorFunction::Clamp { low, high } => clamp(s, low, high, x),
        function => {
            let mut lanes = [0.0; MAX_LANES];
            s.store(x, &mut lanes);
            map_in_place(s, function, &mut lanes[..S::LANES]);
            s.load(&lanes)
        }
    }
}
