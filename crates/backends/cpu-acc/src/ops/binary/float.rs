//! Functions of two operands of f32, with vector instructions.

use super::OperandLoops;
use crate::elementary;
use crate::ops::UnpreparedWorkload;
use crate::ops::arithmetic::BinaryFunction;
use crate::ops::broadcast::{Operand, PART, PartBuffer, for_each_chunk, unless_replaced};
use crate::ops::number::Number;
use crate::signature::Signature;
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;

/// An operator on f32, with vector instructions.
pub(super) struct F32Binary {
    level: Level,
    function: BinaryFunction,
    /// The factor of the result of `Mean`.
    factor: Option<f64>,
    loops: OperandLoops,
}

impl F32Binary {
    pub(super) fn of(
        signature: &Signature<'_>,
        function: BinaryFunction,
        factor: Option<f64>,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            level: signature.level,
            function,
            factor,
            loops: OperandLoops::of(signature, [0, 1])?,
        })
    }
}

impl UnpreparedWorkload for F32Binary {
    fn workload_plan(&self) -> WorkloadPlan {
        self.loops.in_place()
    }
}

impl Workload for F32Binary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let sides = unless_replaced(&inputs, self.loops.order)?;
        let output = outputs.slice::<f32>(0)?;
        let (level, function) = (self.level, self.function);
        let pair = &self.loops.pair;
        let further = self.loops.further(&inputs)?;
        for_each_chunk(output, |start, output| {
            let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
            let mut other = PartBuffer::new();
            for (start, output) in self.loops.blocks(start, output) {
                pair.for_each_part(start, output, |part, to| {
                    let a = pair.operand(0, sides[0], part, &mut first);
                    let b = pair.operand(1, sides[1], part, &mut second);
                    level.run(Apply { function, a, b, to });
                });
                for (loops, elements) in &further {
                    other.forget();
                    loops.for_each_part(start, output, |part, to| {
                        let a = Operand::InPlace;
                        let b = loops.operand(0, Some(elements), part, &mut other);
                        level.run(Apply { function, a, b, to });
                    });
                }
                if let Some(factor) = self.factor {
                    output.iter_mut().for_each(|x| *x *= factor as f32);
                }
            }
        });
        Ok(())
    }
}

/// A part of the output and its operands. The loop over the parts is outside of it: its closure would
/// be compiled without the instructions of the level.
pub(in crate::ops) struct Apply<'a> {
    pub(in crate::ops) function: BinaryFunction,
    pub(in crate::ops) a: Operand<'a, f32>,
    pub(in crate::ops) b: Operand<'a, f32>,
    pub(in crate::ops) to: &'a mut [f32],
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
pub(super) fn apply<S: Simd>(
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
        BinaryFunction::Min => zip_apart(a, b, to, f32::least),
        BinaryFunction::Max => zip_apart(a, b, to, f32::greatest),
        BinaryFunction::PRelu => zip_apart(a, b, to, |a, b| if a < 0.0 { a * b } else { a }),
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
        BinaryFunction::Mod | BinaryFunction::Remainder => {
            let (mut x, mut y) = ([0.0; PART], [0.0; PART]);
            let (x, y) = (&mut x[..to.len()], &mut y[..to.len()]);
            copy(a, to, x);
            copy(b, to, y);
            if function == BinaryFunction::Mod {
                let pairs = to.iter_mut().zip(x).zip(y);
                pairs.for_each(|((to, x), y)| *to = x.modulo(*y));
            } else {
                remainders(x, y, to);
            }
        }
        // Of integers and bool only, by shape inference.
        BinaryFunction::And
        | BinaryFunction::Or
        | BinaryFunction::Xor
        | BinaryFunction::ShiftLeft
        | BinaryFunction::ShiftRight => {}
    }
}

/// The remainders of divisions with truncated quotients, exactly.
#[inline(always)]
fn remainders(x: &[f32], y: &[f32], to: &mut [f32]) {
    /// Quotients below this are not rounded up to an integer in f64, and their products with a divisor are exact.
    const LIMIT: f64 = (1 << 28) as f64;
    let parts = |x: f32, y: f32| {
        let (x, y) = (f64::from(x), f64::from(y));
        let quotient = (x / y).trunc();
        (quotient, x - quotient * y)
    };
    // Of an infinite divisor, the rest is NaN.
    let is_exact = |quotient: f64, rest: f64| quotient.abs() < LIMIT && !rest.is_nan();
    let mut all_exact = true;
    for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
        let (quotient, rest) = parts(x, y);
        all_exact &= is_exact(quotient, rest);
        *to = (rest as f32).copysign(x);
    }
    if all_exact {
        return;
    }
    for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
        let (quotient, rest) = parts(x, y);
        if !is_exact(quotient, rest) {
            *to = x % y;
        }
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

/// [`zip`] of a function whose result is an operand itself for some elements. Where the output replaces that operand,
/// the store would be compiled to a masked one, which is slow on some CPUs: the old elements are copied.
#[inline(always)]
fn zip_apart(
    a: Operand<'_, f32>,
    b: Operand<'_, f32>,
    output: &mut [f32],
    f: impl Fn(f32, f32) -> f32,
) {
    use Operand::*;
    const BLOCK: usize = 256;
    if !matches!((a, b), (InPlace, _) | (_, InPlace)) {
        return zip(a, b, output, f);
    }
    for (index, output) in output.chunks_mut(BLOCK).enumerate() {
        let mut old = [0.0; BLOCK];
        let old = &mut old[..output.len()];
        old.copy_from_slice(output);
        let [a, b] = [a, b].map(|operand| match operand {
            Elements(elements) => Elements(&elements[index * BLOCK..][..old.len()]),
            Scalar(element) => Scalar(element),
            InPlace => Elements(old),
        });
        zip(a, b, output, &f);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_exact() {
        let values = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            7.0,
            1e-40,
            f32::MIN_POSITIVE,
            16_777_217.0,
            -1e30,
            f32::MAX,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        for y in values {
            let mut found = values;
            remainders(&values, &[y; 14], &mut found);
            for (x, found) in values.into_iter().zip(found) {
                let expected = x % y;
                let is_equal = found.to_bits() == expected.to_bits();
                assert!(
                    is_equal || found.is_nan() && expected.is_nan(),
                    "{x} % {y}: {found}"
                );
            }
        }
    }
}
