//! Elementwise operators of two or more inputs: arithmetic, comparison, logic and bits.

use super::arithmetic::{
    BinaryFunction, Comparison, Number, arithmetic, comparison, divide_i32, integer, logic, truth,
    vector_comparison, with_integer,
};
use super::broadcast::{Broadcast, Operand, PART, PartBuffer, for_each_chunk};
use super::{Kernel, UnpreparedWorkload};
use crate::elementary;
use crate::floats::Half;
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use half::{bf16, f16};
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// The kernel of an elementwise operator of several inputs; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let function = match signature.op.name {
        "Add" | "Sum" => BinaryFunction::Add,
        "Mean" => return Some(mean(signature)),
        "Sub" => BinaryFunction::Sub,
        "Mul" => BinaryFunction::Mul,
        "Div" => BinaryFunction::Div,
        "Min" => BinaryFunction::Min,
        "Max" => BinaryFunction::Max,
        "PRelu" => BinaryFunction::PRelu,
        "And" | "BitwiseAnd" => BinaryFunction::And,
        "Or" | "BitwiseOr" => BinaryFunction::Or,
        "Xor" | "BitwiseXor" => BinaryFunction::Xor,
        "Mod" => match signature.flag("fmod", false) {
            Ok(true) => BinaryFunction::Remainder,
            Ok(false) => BinaryFunction::Mod,
            Err(refusal) => return Some(Err(refusal)),
        },
        "SwiGLU" => match signature.float("alpha", 1.0) {
            Ok(alpha) => BinaryFunction::SwiGlu { alpha },
            Err(refusal) => return Some(Err(refusal)),
        },
        "BitShift" => match signature.string("direction", "") {
            Ok("LEFT") => BinaryFunction::ShiftLeft,
            Ok("RIGHT") => BinaryFunction::ShiftRight,
            Ok(other) => return Some(Err(refuse_attribute("direction", other))),
            Err(refusal) => return Some(Err(refusal)),
        },
        "Pow" => return Some(super::power::kernel(signature)),
        "Equal" => return Some(compare(signature, Comparison::Equal, [0, 1])),
        "Greater" => return Some(compare(signature, Comparison::Greater, [0, 1])),
        "GreaterOrEqual" => return Some(compare(signature, Comparison::GreaterOrEqual, [0, 1])),
        "Less" => return Some(compare(signature, Comparison::Greater, [1, 0])),
        "LessOrEqual" => return Some(compare(signature, Comparison::GreaterOrEqual, [1, 0])),
        _ => return None,
    };
    Some(of_type(signature, function, None))
}

/// The type of the inputs, which must be equal. `output` is the output's, the inputs' when `None`.
fn common_type(signature: &Signature<'_>, output: Option<DataType>) -> Result<DataType, Refusal> {
    let dtype = signature.input(0)?.dtype();
    for index in 1..signature.input_count() {
        if signature.input(index)?.dtype() != dtype {
            return Err(refuse("no kernel for inputs of different types"));
        }
    }
    signature.typed_output(output.unwrap_or(dtype))?;
    Ok(dtype)
}

/// The kernel of a function of numeric elements, of their bits, or of truth values.
fn of_type(
    signature: &Signature<'_>,
    function: BinaryFunction,
    factor: Option<f64>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = common_type(signature, None)?;
    let unsupported = || -> Refusal {
        let (input, found) = (0, dtype);
        Reason::InputType { input, found }.into()
    };
    // The sum and the mean of one input are its elements, and so is the minimum with itself.
    let function = if signature.input_count() == 1 {
        BinaryFunction::Min
    } else {
        function
    };
    match dtype {
        DataType::F32 => Ok(Box::new(Binary::of(signature, function, factor)?)),
        DataType::F64 => {
            let apply = arithmetic::<f64>(function).ok_or_else(unsupported)?;
            let scale: ScaleFn<u64> = Box::new(|elements, factor| {
                let scaled = |word: u64| (f64::of(word) * factor).word();
                elements.iter_mut().for_each(|word| *word = scaled(*word));
            });
            words(signature, apply, factor.map(|factor| (scale, factor)))
        }
        DataType::F16 => halves::<f16>(signature, function, factor),
        DataType::BF16 => halves::<bf16>(signature, function, factor),
        DataType::I32 if function == BinaryFunction::Div => words(signature, divide_i32, None),
        DataType::Bool => words(signature, logic(function).ok_or_else(unsupported)?, None),
        dtype => with_integer!(dtype, T => {
            words(signature, integer::<T>(function).ok_or_else(unsupported)?, None)
        }, Err(unsupported())),
    }
}

/// The kernel of a function of two operands of one floating-point type other than f64.
pub(super) fn of_floats(
    signature: &Signature<'_>,
    function: BinaryFunction,
) -> Result<Box<dyn Kernel>, Refusal> {
    of_type(signature, function, None)
}

/// Refuses functions of bits, which floats do not have.
fn refuse_bits(function: BinaryFunction, found: DataType) -> Result<(), Refusal> {
    match function {
        BinaryFunction::And
        | BinaryFunction::Or
        | BinaryFunction::Xor
        | BinaryFunction::ShiftLeft
        | BinaryFunction::ShiftRight => Err(Reason::InputType { input: 0, found }.into()),
        _ => Ok(()),
    }
}

/// Elements of half precision that are converted at once.
const BLOCK: usize = 512;

/// A function of f16 or bf16, computed in f32.
fn halves<H: Half>(
    signature: &Signature<'_>,
    function: BinaryFunction,
    factor: Option<f64>,
) -> Result<Box<dyn Kernel>, Refusal> {
    refuse_bits(function, H::DATA_TYPE)?;
    let apply = move |level: Level, a: &[H], b: &[H], to: &mut [H]| {
        let (mut x, mut y) = ([0.0; BLOCK], [0.0; BLOCK]);
        let operands = a.chunks(BLOCK).zip(b.chunks(BLOCK));
        for ((a, b), to) in operands.zip(to.chunks_mut(BLOCK)) {
            let len = to.len();
            let (x, y) = (&mut x[..len], &mut y[..len]);
            H::view(a).copy(level, 0..len, x);
            H::view(b).copy(level, 0..len, y);
            let (a, b) = (Operand::InPlace, Operand::Elements(&*y));
            level.run(Apply {
                function,
                a,
                b,
                to: x,
            });
            H::view_mut(to).write(level, 0..len, x);
        }
    };
    let level = signature.level;
    let scale: ScaleFn<H> = Box::new(move |elements, factor| {
        let mut x = [0.0; BLOCK];
        for elements in elements.chunks_mut(BLOCK) {
            let len = elements.len();
            let x = &mut x[..len];
            H::view(elements).copy(level, 0..len, x);
            x.iter_mut().for_each(|x| *x *= factor as f32);
            H::view_mut(elements).write(level, 0..len, x);
        }
    });
    words(signature, apply, factor.map(|factor| (scale, factor)))
}

/// A comparison of f16 or bf16.
fn half_tests<H: Half>(
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
                H::view(half).copy(level, 0..half.len(), wide);
                let pairs = words.iter_mut().zip(wide);
                pairs.for_each(|(word, wide)| *word = wide.to_bits());
            }
            test(level, x, y, to);
        }
    };
    tests(signature, test, order)
}

fn words<W: Element + Default>(
    signature: &Signature<'_>,
    apply: impl Fn(Level, &[W], &[W], &mut [W]) + Send + Sync + 'static,
    scale: Option<(ScaleFn<W>, f64)>,
) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Words {
        level: signature.level,
        apply: Box::new(apply),
        scale,
        loops: OperandLoops::of(signature, [0, 1])?,
    }))
}

fn mean(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let factor = 1.0 / signature.input_count().max(1) as f64;
    of_type(signature, BinaryFunction::Add, Some(factor))
}

fn compare(
    signature: &Signature<'_>,
    function: Comparison,
    order: [usize; 2],
) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = common_type(signature, Some(DataType::Bool))?;
    match dtype {
        DataType::F32 => tests(signature, vector_comparison::<f32>(function), order),
        DataType::F64 => tests(signature, vector_comparison::<f64>(function), order),
        DataType::I32 => tests(signature, vector_comparison::<i32>(function), order),
        DataType::I64 => tests(signature, vector_comparison::<i64>(function), order),
        DataType::F16 => half_tests::<f16>(signature, function, order),
        DataType::BF16 => half_tests::<bf16>(signature, function, order),
        DataType::Bool => tests(signature, truth(function), order),
        found => with_integer!(
            found,
            T => tests(signature, comparison::<T>(function), order),
            Err(Reason::InputType { input: 0, found }.into())
        ),
    }
}

fn tests<W: Element + Default>(
    signature: &Signature<'_>,
    test: impl Fn(Level, &[W], &[W], &mut [u8]) + Send + Sync + 'static,
    order: [usize; 2],
) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Tests {
        level: signature.level,
        test: Box::new(test),
        loops: OperandLoops::of(signature, order)?,
    }))
}

/// The broadcast of the first two inputs, in the order `order`, and of each further one. A single input
/// is both.
struct OperandLoops {
    order: [usize; 2],
    pair: Broadcast<2>,
    further: Vec<Broadcast<1>>,
}

impl OperandLoops {
    fn of(signature: &Signature<'_>, mut order: [usize; 2]) -> Result<Self, Refusal> {
        let output = signature.output(0)?.shape();
        let count = signature.input_count();
        if count == 1 {
            order = [0, 0];
        }
        let [a, b] = order;
        let shape = |index| signature.input(index).map(tenon_tensor::TensorType::shape);
        let further = (2..count).map(|index| Broadcast::new(output, [shape(index)?]));
        Ok(Self {
            order,
            pair: Broadcast::new(output, [shape(a)?, shape(b)?])?,
            further: further.collect::<Result<_, _>>()?,
        })
    }

    /// The inputs that the output may replace: those that are read before it is written.
    fn in_place(&self) -> WorkloadPlan {
        let [a, b] = self.order;
        let mut inputs: Vec<usize> = self.pair.dense().map(|n| self.order[n]).collect();
        if a == b {
            inputs.truncate(1);
        }
        WorkloadPlan::in_place(inputs)
    }
}

/// The elements of each input; `None` for the one that the output replaces.
fn sides<'a, T: Element>(
    inputs: &tenon_backend::Inputs<'a>,
    order: [usize; 2],
) -> Result<[Option<&'a [T]>; 2]> {
    let side = |index: usize| -> Result<Option<&'a [T]>> {
        if inputs.is_replaced(index) {
            Ok(None)
        } else {
            inputs.slice(index).map(Some)
        }
    };
    Ok([side(order[0])?, side(order[1])?])
}

/// An operator on f32, with vector instructions.
struct Binary {
    level: Level,
    function: BinaryFunction,
    /// The factor of the result of `Mean`.
    factor: Option<f64>,
    loops: OperandLoops,
}

impl Binary {
    fn of(
        signature: &Signature<'_>,
        function: BinaryFunction,
        factor: Option<f64>,
    ) -> Result<Self, Refusal> {
        refuse_bits(function, DataType::F32)?;
        Ok(Self {
            level: signature.level,
            function,
            factor,
            loops: OperandLoops::of(signature, [0, 1])?,
        })
    }
}

impl UnpreparedWorkload for Binary {
    fn workload_plan(&self) -> WorkloadPlan {
        self.loops.in_place()
    }
}

impl Workload for Binary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let sides = sides(&inputs, self.loops.order)?;
        let output = outputs.slice::<f32>(0)?;
        let (level, function) = (self.level, self.function);
        let pair = &self.loops.pair;
        for_each_chunk(output, |start, output| {
            let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
            pair.for_each_part(start, output, |part, to| {
                let a = pair.operand(0, sides[0], part, &mut first);
                let b = pair.operand(1, sides[1], part, &mut second);
                level.run(Apply { function, a, b, to });
            });
        });
        for (index, further) in self.loops.further.iter().enumerate() {
            let elements = inputs.slice(index + 2)?;
            for_each_chunk(output, |start, output| {
                let mut buffer = PartBuffer::new();
                further.for_each_part(start, output, |part, to| {
                    let a = Operand::InPlace;
                    let b = further.operand(0, Some(elements), part, &mut buffer);
                    level.run(Apply { function, a, b, to });
                });
            });
        }
        if let Some(factor) = self.factor {
            for_each_chunk(output, |_, output| {
                output.iter_mut().for_each(|x| *x *= factor as f32);
            });
        }
        Ok(())
    }
}

/// A part of the output and its operands. The loops over parts are outside of it: their closures would
/// be compiled without the instructions of the level.
struct Apply<'a> {
    function: BinaryFunction,
    a: Operand<'a, f32>,
    b: Operand<'a, f32>,
    to: &'a mut [f32],
}

impl VectorOp for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        apply(simd, self.function, self.a, self.b, self.to);
    }
}

/// Computes a part of f32.
#[inline(always)]
fn apply<S: Simd>(
    simd: S,
    function: BinaryFunction,
    a: Operand<'_, f32>,
    b: Operand<'_, f32>,
    to: &mut [f32],
) {
    match function {
        BinaryFunction::Add => zip(a, b, to, |a, b| a + b),
        BinaryFunction::Sub => zip(a, b, to, |a, b| a - b),
        BinaryFunction::Mul => zip(a, b, to, |a, b| a * b),
        BinaryFunction::Div => zip(a, b, to, |a, b| a / b),
        BinaryFunction::Min => zip(a, b, to, f32::least),
        BinaryFunction::Max => zip(a, b, to, f32::greatest),
        BinaryFunction::PRelu => zip(a, b, to, |a, b| if a < 0.0 { a * b } else { a }),
        BinaryFunction::SwiGlu { alpha } => {
            let mut gate = [0.0; PART];
            let gate = &mut gate[..to.len()];
            copy(a, to, gate);
            map_in_place(simd, UnaryFunction::Swish { alpha }, gate);
            zip(Operand::Elements(gate), b, to, |a, b| a * b);
        }
        BinaryFunction::Pow => match b {
            Operand::Scalar(exponent) => {
                if !matches!(a, Operand::InPlace) {
                    zip(a, Operand::Scalar(0.0), to, |a, _| a);
                }
                elementary::power_of(simd, to, exponent);
            }
            _ => {
                let mut exponents = [0.0; PART];
                let exponents = &mut exponents[..to.len()];
                copy(b, to, exponents);
                if !matches!(a, Operand::InPlace) {
                    zip(a, Operand::Scalar(0.0), to, |a, _| a);
                }
                elementary::power(simd, to, exponents);
            }
        },
        // Library calls, which have no vector form.
        BinaryFunction::Mod | BinaryFunction::Remainder => {
            let (mut x, mut y) = ([0.0; PART], [0.0; PART]);
            let (x, y) = (&mut x[..to.len()], &mut y[..to.len()]);
            copy(a, to, x);
            copy(b, to, y);
            let pairs = to.iter_mut().zip(x).zip(y);
            if function == BinaryFunction::Mod {
                pairs.for_each(|((to, x), y)| *to = x.modulo(*y));
            } else {
                pairs.for_each(|((to, x), y)| *to = x.remainder(*y));
            }
        }
        BinaryFunction::And
        | BinaryFunction::Or
        | BinaryFunction::Xor
        | BinaryFunction::ShiftLeft
        | BinaryFunction::ShiftRight => {}
    }
}

/// The elements of an operand; `output` are those of the part.
fn copy(operand: Operand<'_, f32>, output: &[f32], to: &mut [f32]) {
    match operand {
        Operand::Elements(elements) => to.copy_from_slice(elements),
        Operand::Scalar(element) => to.fill(element),
        Operand::InPlace => to.copy_from_slice(output),
    }
}

/// The inner loops, which the compiler vectorises.
#[inline(always)]
fn zip(a: Operand<'_, f32>, b: Operand<'_, f32>, output: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    use Operand::*;
    match (a, b) {
        (Elements(a), Elements(b)) => {
            for ((o, &a), &b) in output.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        (Elements(a), Scalar(b)) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, b)),
        (Scalar(a), Elements(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(a, b)),
        (Scalar(a), Scalar(b)) => output.fill(f(a, b)),
        (InPlace, Elements(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(*o, b)),
        (Elements(a), InPlace) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, *o)),
        (InPlace, Scalar(b)) => output.iter_mut().for_each(|o| *o = f(*o, b)),
        (Scalar(a), InPlace) => output.iter_mut().for_each(|o| *o = f(a, *o)),
        (InPlace, InPlace) => output.iter_mut().for_each(|o| *o = f(*o, *o)),
    }
}

/// A function of the elements of two operands, whose results are written to the third slice.
type ApplyFn<W, C> = Box<dyn Fn(Level, &[W], &[W], &mut [C]) + Send + Sync>;

/// Multiplies the elements of a part by a factor.
type ScaleFn<W> = Box<dyn Fn(&mut [W], f64) + Send + Sync>;

/// An operator on words whose output has the inputs' type.
struct Words<W> {
    level: Level,
    apply: ApplyFn<W, W>,
    /// The factor of the result of `Mean`.
    scale: Option<(ScaleFn<W>, f64)>,
    loops: OperandLoops,
}

impl<W: Element + Default> UnpreparedWorkload for Words<W> {
    fn workload_plan(&self) -> WorkloadPlan {
        self.loops.in_place()
    }
}

impl<W: Element + Default> Workload for Words<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Self {
            level,
            apply,
            loops,
            ..
        } = self;
        let level = *level;
        let (inputs, mut outputs) = operands.split();
        let sides = sides(&inputs, loops.order)?;
        let output = outputs.slice::<W>(0)?;
        run_pair(
            loops,
            sides,
            output,
            |output| output,
            |a, b, to| apply(level, a, b, to),
        );
        for (index, further) in loops.further.iter().enumerate() {
            let elements = inputs.slice::<W>(index + 2)?;
            for_each_chunk(output, |start, output| {
                let (mut buffer, mut sums) = (PartBuffer::new(), PartBuffer::new());
                further.for_each_part(start, output, |part, to| {
                    let b = further.elements(0, Some(elements), part, &[], &mut buffer);
                    let a = sums.elements_mut(to.len());
                    a.copy_from_slice(to);
                    apply(level, a, b, to);
                });
            });
        }
        if let Some((scale, factor)) = &self.scale {
            for_each_chunk(output, |_, output| scale(output, *factor));
        }
        Ok(())
    }
}

/// A test of words, whose output is bool.
struct Tests<W> {
    level: Level,
    test: ApplyFn<W, u8>,
    loops: OperandLoops,
}

impl<W: Element + Default> UnpreparedWorkload for Tests<W> {}

impl<W: Element + Default> Workload for Tests<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let [a, b] = self.loops.order;
        let sides = [Some(inputs.slice(a)?), Some(inputs.slice(b)?)];
        let output = outputs.slice::<u8>(0)?;
        let (level, test) = (self.level, &self.test);
        run_pair(
            &self.loops,
            sides,
            output,
            |_| &[],
            |a, b, to| test(level, a, b, to),
        );
        Ok(())
    }
}

/// Calls `apply` with the first two operands and the output of each part. `replaced` returns the
/// elements of a part of the output that is computed in place of an operand.
fn run_pair<W: Element + Default, C: Element>(
    loops: &OperandLoops,
    sides: [Option<&[W]>; 2],
    output: &mut [C],
    replaced: fn(&[C]) -> &[W],
    apply: impl Fn(&[W], &[W], &mut [C]) + Sync,
) {
    for_each_chunk(output, |start, output| {
        let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
        loops.pair.for_each_part(start, output, |part, to| {
            let a = (loops.pair).elements(0, sides[0], part, replaced(to), &mut first);
            let b = (loops.pair).elements(1, sides[1], part, replaced(to), &mut second);
            apply(a, b, to);
        });
    });
}
