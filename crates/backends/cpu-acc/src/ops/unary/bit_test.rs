//! `IsNaN` and `IsInf`: tests of the bits of floating-point words.

use crate::ops::element_types::refuse_type;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::{BitAnd, BitOr, Not};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// Elements of a chunk; one thread is used for at most two.
const CHUNK: usize = 1 << 14;

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
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.input(0)?.dtype() {
        DataType::F16 => test_of(signature, 0x7fff_u16, 0x7c00),
        DataType::BF16 => test_of(signature, 0x7fff_u16, 0x7f80),
        DataType::F32 => test_of(signature, u32::MAX >> 1, f32::INFINITY.to_bits()),
        DataType::F64 => test_of(signature, u64::MAX >> 1, f64::INFINITY.to_bits()),
        found => Err(refuse_type(0, found)),
    }
}

/// `mask` has all bits but the sign.
fn test_of<W>(signature: &Signature<'_>, mask: W, infinity: W) -> Result<Box<dyn Kernel>, Refusal>
where
    W: Element + PartialOrd + BitAnd<Output = W> + Not<Output = W> + BitOr<Output = W>,
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
