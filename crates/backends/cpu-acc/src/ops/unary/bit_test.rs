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

/// A test of a floating-point word.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) enum Test<W> {
    /// Whether the bits of `mask` are above those of infinity.
    Nan { mask: W, infinity: W },
    /// Whether all bits are those of one of two values.
    Infinity([W; 2]),
}

/// The kernel of `IsNaN` or `IsInf`.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.input(0)?.dtype() {
        DataType::F16 => bound(signature, test_of(signature, 0x7fff_u16, 0x7c00)?),
        DataType::BF16 => bound(signature, test_of(signature, 0x7fff_u16, 0x7f80)?),
        DataType::F32 => bound(signature, f32_test(signature)?),
        DataType::F64 => {
            let infinity = f64::INFINITY.to_bits();
            bound(signature, test_of(signature, u64::MAX >> 1, infinity)?)
        }
        found => Err(refuse_type(0, found)),
    }
}

/// The test of `IsNaN` or `IsInf` on f32.
pub(in crate::ops) fn f32_test(signature: &Signature<'_>) -> Result<Test<u32>, Refusal> {
    test_of(signature, u32::MAX >> 1, f32::INFINITY.to_bits())
}

/// The kernel of `test`.
fn bound<W>(signature: &Signature<'_>, test: Test<W>) -> Result<Box<dyn Kernel>, Refusal>
where
    W: Element + PartialOrd + BitAnd<Output = W>,
{
    let level = signature.level;
    Ok(Box::new(BitTest { level, test }))
}

/// `mask` has all bits but the sign.
fn test_of<W>(signature: &Signature<'_>, mask: W, infinity: W) -> Result<Test<W>, Refusal>
where
    W: Copy + Not<Output = W> + BitOr<Output = W>,
{
    Ok(if signature.op.name == "IsNaN" {
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
    })
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

/// The test of a chunk.
pub(in crate::ops) struct BitTestChunk<'a, W> {
    pub(in crate::ops) test: Test<W>,
    pub(in crate::ops) from: &'a [W],
    pub(in crate::ops) to: &'a mut [u8],
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
