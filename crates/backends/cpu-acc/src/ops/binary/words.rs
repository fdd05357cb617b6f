//! Functions and tests of two operands whose elements are unsigned words of their size.

use super::OperandLoops;
use crate::ops::broadcast::{PartBuffer, for_each_chunk, unless_replaced};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::Level;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::Element;

/// The kernel of `apply`, and of a factor of its result.
pub(super) fn words<W: Element + Default>(
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

/// The kernel of `test`.
pub(super) fn tests<W: Element + Default>(
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

/// A function of the elements of two operands, whose results are written to the third slice.
type ApplyFn<W, C> = Box<dyn Fn(Level, &[W], &[W], &mut [C]) + Send + Sync>;

/// Multiplies the elements of a part by a factor.
pub(super) type ScaleFn<W> = Box<dyn Fn(&mut [W], f64) + Send + Sync>;

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
        let sides = unless_replaced(&inputs, loops.order)?;
        let output = outputs.slice::<W>(0)?;
        let further = loops.further(&inputs)?;
        for_each_chunk(output, |start, output| {
            let (mut buffer, mut sums) = (PartBuffer::new(), PartBuffer::new());
            for (start, output) in loops.blocks(start, output) {
                run_pair(
                    loops,
                    sides,
                    (start, &mut *output),
                    |output| output,
                    |a, b, to| apply(level, a, b, to),
                );
                for (loops, elements) in &further {
                    buffer.forget();
                    loops.for_each_part(start, output, |part, to| {
                        let b = loops.elements(0, Some(elements), part, &[], &mut buffer);
                        let a = sums.elements_mut(to.len());
                        a.copy_from_slice(to);
                        apply(level, a, b, to);
                    });
                }
                if let Some((scale, factor)) = &self.scale {
                    scale(output, *factor);
                }
            }
        });
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
        for_each_chunk(output, |start, output| {
            run_pair(
                &self.loops,
                sides,
                (start, output),
                |_| &[],
                |a, b, to| test(level, a, b, to),
            );
        });
        Ok(())
    }
}

/// Calls `apply` with the first two operands and the output of each part of a chunk, with the position of its first
/// element. `replaced` returns the elements of a part of the output that is computed in place of an operand.
fn run_pair<W: Element + Default, C: Element>(
    loops: &OperandLoops,
    sides: [Option<&[W]>; 2],
    (start, output): (usize, &mut [C]),
    replaced: fn(&[C]) -> &[W],
    apply: impl Fn(&[W], &[W], &mut [C]),
) {
    let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
    loops.pair.for_each_part(start, output, |part, to| {
        let a = (loops.pair).elements(0, sides[0], part, replaced(to), &mut first);
        let b = (loops.pair).elements(1, sides[1], part, replaced(to), &mut second);
        apply(a, b, to);
    });
}
