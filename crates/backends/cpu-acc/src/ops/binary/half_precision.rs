//! Functions of two operands of f16 or bf16, computed in f32.

use super::float::Apply;
use super::words::{ScaleFn, tests, words};
use crate::floats::Half;
use crate::ops::Kernel;
use crate::ops::arithmetic::{BinaryFunction, Comparison, vector_comparison};
use crate::ops::broadcast::Operand;
use crate::signature::Signature;
use crate::simd::Level;
use tenon_backend::Refusal;

/// Elements of half precision that are converted at once.
const BLOCK: usize = 512;

/// A function of f16 or bf16, computed in f32.
pub(super) fn halves<H: Half>(
    signature: &Signature<'_>,
    function: BinaryFunction,
    factor: Option<f64>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let apply = move |level: Level, a: &[H], b: &[H], to: &mut [H]| {
        let (mut x, mut y) = ([0.0; BLOCK], [0.0; BLOCK]);
        let operands = a.chunks(BLOCK).zip(b.chunks(BLOCK));
        for ((a, b), to) in operands.zip(to.chunks_mut(BLOCK)) {
            let len = to.len();
            let (x, y) = (&mut x[..len], &mut y[..len]);
            H::floats(a).copy(level, 0..len, x);
            H::floats(b).copy(level, 0..len, y);
            let (a, b) = (Operand::InPlace, Operand::Elements(&*y));
            level.run(Apply {
                function,
                a,
                b,
                to: x,
            });
            H::floats_mut(to).write(level, 0..len, x);
        }
    };
    let level = signature.level;
    let scale: ScaleFn<H> = Box::new(move |elements, factor| {
        let mut x = [0.0; BLOCK];
        for elements in elements.chunks_mut(BLOCK) {
            let len = elements.len();
            let x = &mut x[..len];
            H::floats(elements).copy(level, 0..len, x);
            x.iter_mut().for_each(|x| *x *= factor as f32);
            H::floats_mut(elements).write(level, 0..len, x);
        }
    });
    words(signature, apply, factor.map(|factor| (scale, factor)))
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
