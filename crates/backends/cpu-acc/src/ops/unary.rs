//! Elementwise operators of one input: f32 with vector instructions, f64 by the functions of the
//! standard library, integers with wrapping arithmetic.

use super::arithmetic::{Number, with_integer};
use super::broadcast::PART;
use super::{Kernel, UnpreparedWorkload};
use crate::elementary::Elementary;
use crate::floats::Half;
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use half::{bf16, f16};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::marker::PhantomData;
use std::ops::BitAnd;
use tenon_backend::{OperandPair, Operands, Reason, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// Elements of a chunk; one thread is used for at most two.
const CHUNK: usize = 1 << 14;

/// A function of f32.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    /// By vectors.
    Vector(UnaryFunction),
    /// By a loop that the compiler vectorises.
    Loop(Elementary),
    /// `Clip`, whose bounds are read when executing.
    Clip,
    /// A function of integers only.
    OfIntegers,
}

/// The kernel of an elementwise operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    Some(match signature.op.name {
        "IsNaN" | "IsInf" => bit_test(signature),
        "Not" => not(signature),
        _ => float_function(signature)?.and_then(|function| of_type(signature, function)),
    })
}

/// The function of floats that the operator computes; `None` for any other operator.
fn float_function(signature: &Signature<'_>) -> Option<Result<Function, Refusal>> {
    use Function::{Loop, Vector};
    let alpha = |default: f32| signature.float("alpha", default);
    Some(match signature.op.name {
        "Abs" => Ok(Vector(UnaryFunction::Abs)),
        "Neg" => Ok(Vector(UnaryFunction::Neg)),
        "Sqrt" => Ok(Vector(UnaryFunction::Sqrt)),
        "Reciprocal" => Ok(Vector(UnaryFunction::Reciprocal)),
        "Round" => Ok(Vector(UnaryFunction::Round)),
        "Floor" => Ok(Vector(UnaryFunction::Floor)),
        "Ceil" => Ok(Vector(UnaryFunction::Ceil)),
        "Exp" => Ok(Vector(UnaryFunction::Exp)),
        "Erf" => Ok(Vector(UnaryFunction::Erf)),
        "Tanh" => Ok(Vector(UnaryFunction::Tanh)),
        "Sigmoid" => Ok(Vector(UnaryFunction::Sigmoid)),
        "HardSwish" => Ok(Vector(UnaryFunction::HardSwish)),
        "Mish" => Ok(Vector(UnaryFunction::Mish)),
        "Relu" => Ok(Vector(UnaryFunction::Clamp {
            low: 0.0,
            high: f32::INFINITY,
        })),
        "Clip" => Ok(Function::Clip),
        "LeakyRelu" => alpha(0.01).map(|alpha| Vector(UnaryFunction::LeakyRelu { alpha })),
        "Elu" => alpha(1.0).map(|alpha| Vector(UnaryFunction::Elu { alpha })),
        "Swish" => alpha(1.0).map(|alpha| Vector(UnaryFunction::Swish { alpha })),
        "HardSigmoid" => hard_sigmoid(signature),
        "Gelu" => gelu(signature),
        "BitwiseNot" => Ok(Function::OfIntegers),
        "Sign" => Ok(Loop(Elementary::Sign)),
        "Log" => Ok(Loop(Elementary::Log)),
        "Sin" => Ok(Loop(Elementary::Sin)),
        "Cos" => Ok(Loop(Elementary::Cos)),
        "Tan" => Ok(Loop(Elementary::Tan)),
        "Asin" => Ok(Loop(Elementary::Asin)),
        "Acos" => Ok(Loop(Elementary::Acos)),
        "Atan" => Ok(Loop(Elementary::Atan)),
        "Sinh" => Ok(Loop(Elementary::Sinh)),
        "Cosh" => Ok(Loop(Elementary::Cosh)),
        "Asinh" => Ok(Loop(Elementary::Asinh)),
        "Acosh" => Ok(Loop(Elementary::Acosh)),
        "Atanh" => Ok(Loop(Elementary::Atanh)),
        "Softplus" => Ok(Loop(Elementary::Softplus)),
        "Softsign" => Ok(Loop(Elementary::Softsign)),
        "ThresholdedRelu" => alpha(1.0).map(|alpha| Loop(Elementary::ThresholdedRelu { alpha })),
        "Celu" => alpha(1.0).map(|alpha| Loop(Elementary::Celu { alpha })),
        "Selu" => selu(signature),
        "Shrink" => shrink(signature),
        _ => return None,
    })
}

fn of_type(signature: &Signature<'_>, function: Function) -> Result<Box<dyn Kernel>, Refusal> {
    let ty = signature.input(0)?;
    if signature.typed_output(ty.dtype())? != ty.shape() {
        return Err(refuse(
            "no kernel for an output whose shape differs from the input's",
        ));
    }
    for bound in [1, 2] {
        if let Some(bound) = signature.optional(bound)
            && bound.dtype() != ty.dtype()
        {
            return Err(refuse("no kernel for bounds of another type"));
        }
    }
    let level = signature.level;
    match ty.dtype() {
        DataType::F32 if function != Function::OfIntegers => {
            Ok(Box::new(Unary { level, function }))
        }
        DataType::F16 if function != Function::OfIntegers => {
            let of = PhantomData::<f16>;
            Ok(Box::new(HalfUnary {
                level,
                function,
                of,
            }))
        }
        DataType::BF16 if function != Function::OfIntegers => {
            let of = PhantomData::<bf16>;
            Ok(Box::new(HalfUnary {
                level,
                function,
                of,
            }))
        }
        DataType::F64 => f64_kernel(signature, function),
        found => with_integer!(
            found,
            T => integer_kernel::<T>(signature, function),
            Err(Reason::InputType { input: 0, found }.into())
        ),
    }
}

fn hard_sigmoid(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let (alpha, beta) = (
        signature.float("alpha", 0.2)?,
        signature.float("beta", 0.5)?,
    );
    Ok(Function::Vector(UnaryFunction::HardSigmoid { alpha, beta }))
}

fn gelu(signature: &Signature<'_>) -> Result<Function, Refusal> {
    match signature.string("approximate", "none")? {
        "none" => Ok(Function::Vector(UnaryFunction::Gelu)),
        "tanh" => Ok(Function::Vector(UnaryFunction::GeluTanh)),
        other => Err(refuse_attribute("approximate", other)),
    }
}

fn selu(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let alpha = signature.float("alpha", 1.673_263_2)?;
    let gamma = signature.float("gamma", 1.050_701)?;
    Ok(Function::Loop(Elementary::Selu { alpha, gamma }))
}

fn shrink(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let limit = signature.float("lambd", 0.5)?;
    let bias = signature.float("bias", 0.0)?;
    Ok(Function::Loop(Elementary::Shrink { limit, bias }))
}

impl Function {
    /// The function, with the bounds of `Clip`.
    fn with_bounds(self, bounds: impl FnOnce() -> Result<[f32; 2]>) -> Result<Self> {
        if self != Function::Clip {
            return Ok(self);
        }
        let [low, high] = bounds()?;
        Ok(Function::Vector(UnaryFunction::Clamp { low, high }))
    }
}

/// A function of f32 that is applied to every element.
struct Unary {
    level: Level,
    function: Function,
}

impl UnpreparedWorkload for Unary {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

/// An optional scalar of `Clip`.
fn bound<T: Element>(operands: &Operands<'_>, input: usize, default: T) -> Result<T> {
    if !operands.has_input(input) {
        return Ok(default);
    }
    let elements = operands.input::<T>(input)?;
    Ok(elements.first().copied().unwrap_or(default))
}

impl Workload for Unary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let level = self.level;
        let function = self.function.with_bounds(|| {
            let low = bound(operands, 1, f32::NEG_INFINITY)?;
            Ok([low, bound(operands, 2, f32::INFINITY)?])
        })?;
        match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(elements) => {
                let parallel = elements.len() > 2 * CHUNK;
                for_each_chunk(elements, CHUNK, parallel, |_, to| {
                    level.run(UnaryMap {
                        function,
                        from: None,
                        to,
                    });
                });
            }
            OperandPair::Apart(from, to) => {
                let parallel = to.len() > 2 * CHUNK;
                for_each_chunk(to, CHUNK, parallel, |index, to| {
                    let from = &from[index * CHUNK..][..to.len()];
                    level.run(UnaryMap {
                        function,
                        from: Some(from),
                        to,
                    });
                });
            }
        }
        Ok(())
    }
}

/// An elementwise function of a chunk.
struct UnaryMap<'a> {
    function: Function,
    /// The operand; `to` itself when `None`.
    from: Option<&'a [f32]>,
    to: &'a mut [f32],
}

impl VectorOp for UnaryMap<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        // Copied and computed in place, since a loop from one memory to another stalls where their
        // addresses are equal modulo 4096 (store forwarding): 1.7 times as long.
        for (index, to) in self.to.chunks_mut(PART).enumerate() {
            if let Some(from) = self.from {
                to.copy_from_slice(&from[index * PART..][..to.len()]);
            }
            match self.function {
                Function::Vector(function) => map_in_place(simd, function, to),
                Function::Loop(function) => function.apply(simd, to),
                // Replaced by a clamp when executing; refused.
                Function::Clip | Function::OfIntegers => {}
            }
        }
    }
}

/// A function of f16 or bf16, computed in f32.
struct HalfUnary<H> {
    level: Level,
    function: Function,
    of: PhantomData<H>,
}

impl<H: Half> UnpreparedWorkload for HalfUnary<H> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<H: Half> Workload for HalfUnary<H> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let level = self.level;
        let function = self.function.with_bounds(|| {
            let bound = |input, default| -> Result<f32> {
                if !operands.has_input(input) {
                    return Ok(default);
                }
                let elements = H::view(operands.input::<H>(input)?);
                Ok(if elements.len() == 0 {
                    default
                } else {
                    elements.get(0)
                })
            };
            Ok([bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?])
        })?;
        map_words(operands, &|elements: &mut [H]| {
            let mut wide = [0.0; PART];
            let len = elements.len();
            let wide = &mut wide[..len];
            H::view(elements).copy(level, 0..len, wide);
            level.run(UnaryMap {
                function,
                from: None,
                to: wide,
            });
            H::view_mut(elements).write(level, 0..len, wide);
        })
    }
}

/// A function of words in place.
type MapFn<W> = Box<dyn Fn(&mut [W]) + Send + Sync>;

/// A function of words that is applied to every element.
struct WordMap<W> {
    map: MapFn<W>,
}

impl<W: Element> UnpreparedWorkload for WordMap<W> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<W: Element> Workload for WordMap<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        map_words(operands, &self.map)
    }
}

/// Applies `map` to copies of the elements in the output's memory.
fn map_words<W: Element>(
    operands: &mut Operands<'_>,
    map: &(impl Fn(&mut [W]) + Sync + ?Sized),
) -> Result<()> {
    let (from, to) = match operands.pair::<W>(0, 0)? {
        OperandPair::InPlace(elements) => (None, elements),
        OperandPair::Apart(from, to) => (Some(from), to),
    };
    let parallel = to.len() > 2 * CHUNK;
    for_each_chunk(to, CHUNK, parallel, |index, to| {
        for (part, to) in to.chunks_mut(PART).enumerate() {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * CHUNK + part * PART..][..to.len()]);
            }
            map(to);
        }
    });
    Ok(())
}

/// The kernel of a function of elements of type `T`.
fn number_map<T: Number>(
    function: impl Fn(T) -> T + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>, Refusal> {
    let map = move |words: &mut [T::Word]| {
        for word in words {
            *word = function(T::of(*word)).word();
        }
    };
    Ok(Box::new(WordMap { map: Box::new(map) }))
}

/// `Clip` of any type but f32.
struct Clip<T> {
    unbounded: [T; 2],
}

impl<T: Number + Element> UnpreparedWorkload for Clip<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Number + Element> Workload for Clip<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let low = bound::<T>(operands, 1, self.unbounded[0])?;
        let high = bound::<T>(operands, 2, self.unbounded[1])?;
        map_words::<T>(operands, &|elements: &mut [T]| {
            for element in elements {
                // The upper bound where it is below the lower one, as in NumPy; NaN stays NaN.
                let raised = if *element < low { low } else { *element };
                *element = if raised > high { high } else { raised };
            }
        })
    }
}

fn f64_kernel(signature: &Signature<'_>, function: Function) -> Result<Box<dyn Kernel>, Refusal> {
    fn map(
        function: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Result<Box<dyn Kernel>, Refusal> {
        number_map::<f64>(function)
    }
    let float = |name, default| signature.float(name, default).map(f64::from);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let to_unit = |x: f64| x.clamp(0.0, 1.0);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    match signature.op.name {
        "Abs" => map(f64::abs),
        "Neg" => map(|x| -x),
        "Sqrt" => map(f64::sqrt),
        "Reciprocal" => map(f64::recip),
        "Round" => map(f64::round_ties_even),
        "Floor" => map(f64::floor),
        "Ceil" => map(f64::ceil),
        "Exp" => map(f64::exp),
        "Log" => map(f64::ln),
        "Sin" => map(f64::sin),
        "Cos" => map(f64::cos),
        "Tan" => map(f64::tan),
        "Asin" => map(f64::asin),
        "Acos" => map(f64::acos),
        "Atan" => map(f64::atan),
        "Sinh" => map(f64::sinh),
        "Cosh" => map(f64::cosh),
        "Asinh" => map(f64::asinh),
        "Acosh" => map(f64::acosh),
        "Atanh" => map(f64::atanh),
        "Tanh" => map(f64::tanh),
        "Sigmoid" => map(sigmoid),
        "Softplus" => map(softplus),
        "Softsign" => map(|x| x / (1.0 + x.abs())),
        "Sign" => map(|x| {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                1f64.copysign(x)
            }
        }),
        "Relu" => map(|x| if x < 0.0 { 0.0 } else { x }),
        "Clip" => Ok(Box::new(Clip {
            unbounded: [f64::NEG_INFINITY, f64::INFINITY],
        })),
        "LeakyRelu" => {
            let alpha = float("alpha", 0.01)?;
            map(move |x| if x < 0.0 { alpha * x } else { x })
        }
        "ThresholdedRelu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| if x > alpha { x } else { 0.0 })
        }
        "Elu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
        }
        "Celu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| {
                let below = alpha * (x / alpha).exp_m1();
                let positive = if x < 0.0 { 0.0 } else { x };
                positive + if below > 0.0 { 0.0 } else { below }
            })
        }
        "Gelu" if signature.string("approximate", "none")? == "none" => {
            map(|x| 0.5 * x * (1.0 + libm::erf(x * FRAC_1_SQRT_2)))
        }
        "Gelu" => map(|x| {
            let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }),
        "HardSigmoid" => {
            let (alpha, beta) = (float("alpha", 0.2)?, float("beta", 0.5)?);
            map(move |x| to_unit(alpha * x + beta))
        }
        "HardSwish" => map(move |x| x * to_unit(x / 6.0 + 0.5)),
        "Swish" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| x * sigmoid(alpha * x))
        }
        "Mish" => map(move |x| x * softplus(x).tanh()),
        "Erf" => map(libm::erf),
        _ => match function {
            Function::Loop(Elementary::Selu { alpha, gamma }) => {
                let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
                map(move |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
            }
            Function::Loop(Elementary::Shrink { limit, bias }) => {
                shrink_map::<f64>(limit.into(), bias.into())
            }
            _ => {
                let found = DataType::F64;
                Err(Reason::InputType { input: 0, found }.into())
            }
        },
    }
}

/// `Shrink`, which converts integers to f64 and back.
fn shrink_map<T: Number>(limit: f64, bias: f64) -> Result<Box<dyn Kernel>, Refusal> {
    number_map::<T>(move |x| {
        let x = x.to_f64();
        T::of_f64(if x < -limit {
            x + bias
        } else if x > limit {
            x - bias
        } else {
            0.0
        })
    })
}

fn integer_kernel<T: super::arithmetic::Integer + Element>(
    signature: &Signature<'_>,
    function: Function,
) -> Result<Box<dyn Kernel>, Refusal> {
    let (zero, one) = (T::of_f64(0.0), T::of_f64(1.0));
    let minus_one = zero.minus(one);
    match (signature.op.name, function) {
        ("Abs", _) => number_map(move |x: T| if x < zero { zero.minus(x) } else { x }),
        ("Neg", _) => number_map(move |x: T| zero.minus(x)),
        ("Sign", _) => number_map(move |x: T| {
            if x > zero {
                one
            } else if x < zero {
                minus_one
            } else {
                zero
            }
        }),
        ("Relu", _) => number_map(move |x: T| x.greatest(zero)),
        ("BitwiseNot", _) => number_map(move |x: T| x.xor(minus_one)),
        ("Clip", _) => Ok(Box::new(Clip {
            unbounded: [T::of_f64(f64::NEG_INFINITY), T::of_f64(f64::INFINITY)],
        })),
        (_, Function::Loop(Elementary::Shrink { limit, bias })) => {
            shrink_map::<T>(limit.into(), bias.into())
        }
        _ => {
            let found = signature.input(0)?.dtype();
            Err(Reason::InputType { input: 0, found }.into())
        }
    }
}

fn not(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let ty = signature.input(0)?;
    if ty.dtype() != DataType::Bool || signature.typed_output(DataType::Bool)? != ty.shape() {
        let found = ty.dtype();
        return Err(Reason::InputType { input: 0, found }.into());
    }
    number_map::<u8>(|truth| (truth == 0).into())
}

/// A test of the bits of floating-point words.
struct BitTest<W> {
    level: Level,
    test: Test<W>,
}

#[derive(Debug, Clone, Copy)]
enum Test<W> {
    /// Whether the bits of `mask` are above those of infinity.
    Nan { mask: W, infinity: W },
    /// Whether all bits are those of one of two values.
    Infinity([W; 2]),
}

/// The kernel of `IsNaN` or `IsInf`.
fn bit_test(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let ty = signature.input(0)?;
    if signature.typed_output(DataType::Bool)? != ty.shape() {
        return Err(refuse("the shapes do not fit"));
    }
    match ty.dtype() {
        DataType::F16 => test_of(signature, 0x7fff_u16, 0x7c00),
        DataType::BF16 => test_of(signature, 0x7fff_u16, 0x7f80),
        DataType::F32 => test_of(signature, u32::MAX >> 1, f32::INFINITY.to_bits()),
        DataType::F64 => test_of(signature, u64::MAX >> 1, f64::INFINITY.to_bits()),
        found => Err(Reason::InputType { input: 0, found }.into()),
    }
}

/// `mask` has all bits but the sign.
fn test_of<W>(signature: &Signature<'_>, mask: W, infinity: W) -> Result<Box<dyn Kernel>, Refusal>
where
    W: Element
        + PartialOrd
        + BitAnd<Output = W>
        + std::ops::Not<Output = W>
        + std::ops::BitOr<Output = W>,
{
    let test = if signature.op.name == "IsNaN" {
        Test::Nan { mask, infinity }
    } else {
        let negative = infinity | !mask;
        match (
            signature.flag("detect_positive", true)?,
            signature.flag("detect_negative", true)?,
        ) {
            (true, true) => Test::Infinity([infinity, negative]),
            (true, false) => Test::Infinity([infinity; 2]),
            (false, true) => Test::Infinity([negative; 2]),
            // No bits of the mask are above it.
            (false, false) => Test::Nan {
                mask,
                infinity: mask,
            },
        }
    };
    let level = signature.level;
    Ok(Box::new(BitTest { level, test }))
}

impl<W: Element + PartialOrd + BitAnd<Output = W>> UnpreparedWorkload for BitTest<W> {}

impl<W: Element + PartialOrd + BitAnd<Output = W>> Workload for BitTest<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<W>(0)?;
        let to = outputs.slice::<u8>(0)?;
        let parallel = to.len() > 2 * CHUNK;
        for_each_chunk(to, CHUNK, parallel, |index, to| {
            let from = &from[index * CHUNK..][..to.len()];
            let test = self.test;
            self.level.run(BitTestChunk { test, from, to });
        });
        Ok(())
    }
}

struct BitTestChunk<'a, W> {
    test: Test<W>,
    from: &'a [W],
    to: &'a mut [u8],
}

impl<W: Element + PartialOrd + BitAnd<Output = W>> VectorOp for BitTestChunk<'_, W> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let pairs = self.to.iter_mut().zip(self.from);
        match self.test {
            Test::Nan { mask, infinity } => {
                pairs.for_each(|(to, &word)| *to = (word & mask > infinity).into());
            }
            Test::Infinity([positive, negative]) => {
                pairs.for_each(|(to, &word)| {
                    *to = ((word == positive) | (word == negative)).into();
                });
            }
        }
    }
}
