//! `Where`: the elements of X where the condition is true, else those of Y. The elements are words of
//! their size.

use super::broadcast::{Broadcast, Operand, PartBuffer, for_each_chunk, unless_replaced};
use super::element_types::sized;
use super::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::Element;

/// The kernel, of elements that are words `W`.
struct Where<W> {
    level: Level,
    loops: Broadcast<3>,
    words: PhantomData<W>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let [condition, x, y] = [
        signature.input(0)?,
        signature.input(1)?,
        signature.input(2)?,
    ];
    let output = signature.output(0)?.shape();
    let loops = Broadcast::new(output, [condition.shape(), x.shape(), y.shape()])?;
    sized!(x.dtype(), 1, W => Ok(Box::new(Where::<W> {
        level: signature.level,
        loops,
        words: PhantomData,
    })))
}

impl<W: Element + Default + Choice> UnpreparedWorkload for Where<W> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place(self.loops.dense().filter(|&input| input > 0))
    }
}

impl<W: Element + Default + Choice> Workload for Where<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let condition = inputs.slice::<u8>(0)?;
        let [x, y] = unless_replaced::<W>(&inputs, [1, 2])?;
        let output = outputs.slice::<W>(0)?;
        let loops = &self.loops;
        for_each_chunk(output, |start, output| {
            let mut conditions = PartBuffer::new();
            let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
            loops.for_each_part(start, output, |part, to| {
                let x = loops.elements(1, x, part, to, &mut first);
                let y = loops.elements(2, y, part, to, &mut second);
                match loops.operand(0, Some(condition), part, &mut conditions) {
                    Operand::Elements(condition) => self.level.run(WherePart {
                        condition,
                        x,
                        y,
                        to,
                    }),
                    Operand::Scalar(condition) => {
                        to.copy_from_slice(if condition != 0 { x } else { y });
                    }
                    // The condition has another type than the output, which never replaces it.
                    Operand::InPlace => {}
                }
            });
        });
        Ok(())
    }
}

/// The elements of a part.
pub(super) struct WherePart<'a, W> {
    pub(super) condition: &'a [u8],
    pub(super) x: &'a [W],
    pub(super) y: &'a [W],
    pub(super) to: &'a mut [W],
}

/// An element that is chosen without a branch: conditions may be random.
pub(super) trait Choice: Copy {
    /// `x` where the condition is not 0, else `y`.
    fn choose(condition: u8, x: Self, y: Self) -> Self;
}

macro_rules! choices {
    ($($word:ty),*) => {$(
        impl Choice for $word {
            #[inline(always)]
            fn choose(condition: u8, x: Self, y: Self) -> Self {
                let mask = Self::from(condition != 0).wrapping_neg();
                x & mask | y & !mask
            }
        }
    )*};
}

choices!(u8, u16, u32, u64);

impl Choice for f32 {
    #[inline(always)]
    fn choose(condition: u8, x: Self, y: Self) -> Self {
        Self::from_bits(u32::choose(condition, x.to_bits(), y.to_bits()))
    }
}

impl<W: Choice> VectorOp for WherePart<'_, W> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let sides = self.x.iter().zip(self.y);
        for ((to, &condition), (&x, &y)) in self.to.iter_mut().zip(self.condition).zip(sides) {
            *to = W::choose(condition, x, y);
        }
    }
}
