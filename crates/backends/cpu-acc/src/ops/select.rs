//! `Where`: the elements of X where the condition is true, else those of Y. The elements are words of
//! their size.

use super::broadcast::{Broadcast, Operand, PartBuffer, for_each_chunk};
use super::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// A selection of elements that are words `W`.
struct Select<W> {
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
    let refuse_type = |input, found| -> Refusal { Reason::InputType { input, found }.into() };
    if condition.dtype() != DataType::Bool {
        return Err(refuse_type(0, condition.dtype()));
    }
    if y.dtype() != x.dtype() {
        return Err(refuse_type(2, y.dtype()));
    }
    let output = signature.typed_output(x.dtype())?;
    let loops = Broadcast::new(output, [condition.shape(), x.shape(), y.shape()])?;
    let level = signature.level;
    match x.dtype().bits() {
        8 => Ok(Select::<u8>::boxed(level, loops)),
        16 => Ok(Select::<u16>::boxed(level, loops)),
        32 => Ok(Select::<u32>::boxed(level, loops)),
        64 => Ok(Select::<u64>::boxed(level, loops)),
        _ => Err(refuse_type(1, x.dtype())),
    }
}

impl<W: Element + Default> Select<W> {
    fn boxed(level: Level, loops: Broadcast<3>) -> Box<dyn Kernel> {
        Box::new(Self {
            level,
            loops,
            words: PhantomData,
        })
    }
}

impl<W: Element + Default> UnpreparedWorkload for Select<W> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place(self.loops.dense().filter(|&input| input > 0))
    }
}

impl<W: Element + Default> Workload for Select<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let side = |index: usize| -> Result<Option<&[W]>> {
            if inputs.is_replaced(index) {
                Ok(None)
            } else {
                inputs.slice(index).map(Some)
            }
        };
        let condition = inputs.slice::<u8>(0)?;
        let (x, y) = (side(1)?, side(2)?);
        let output = outputs.slice::<W>(0)?;
        let loops = &self.loops;
        for_each_chunk(output, |start, output| {
            let mut conditions = PartBuffer::new();
            let (mut first, mut second) = (PartBuffer::new(), PartBuffer::new());
            loops.for_each_part(start, output, |part, to| {
                let x = loops.elements(1, x, part, to, &mut first);
                let y = loops.elements(2, y, part, to, &mut second);
                match loops.operand(0, Some(condition), part, &mut conditions) {
                    Operand::Elements(condition) => self.level.run(SelectPart {
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

struct SelectPart<'a, W> {
    condition: &'a [u8],
    x: &'a [W],
    y: &'a [W],
    to: &'a mut [W],
}

impl<W: Element> VectorOp for SelectPart<'_, W> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let sides = self.x.iter().zip(self.y);
        for ((to, &condition), (&x, &y)) in self.to.iter_mut().zip(self.condition).zip(sides) {
            *to = if condition != 0 { x } else { y };
        }
    }
}
