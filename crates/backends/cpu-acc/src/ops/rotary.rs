//! RotaryEmbedding: pairs of features are rotated by the angle of their position (Su et al., "RoFormer",
//! 2021).

use super::attention::head_extents;
use super::element_types::of_float;
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatElement, FloatType, FloatsMut};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk2;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Error, ErrorKind, Result};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Chunks of rows, each with a slot of scratch memory where elements are converted.
const CHUNKS: usize = 32;

/// A rotary embedding; a row is one head at one step of a batch.
struct Rotary {
    level: Level,
    float: FloatType,
    batch: usize,
    heads: usize,
    steps: usize,
    /// Elements of a row.
    width: usize,
    /// Pairs of a row that are rotated.
    pairs: usize,
    /// Whether the heads are a dimension before the steps.
    separate: bool,
    interleaved: bool,
    /// The number of rows of the caches, if there is an input of positions in them.
    positions: Option<usize>,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let [batch, heads, steps, width] = head_extents(signature, 0, "num_heads")?;
    let rotated = match signature.int("rotary_embedding_dim", 0)? {
        0 => width,
        given => usize::try_from(given).unwrap_or(width),
    };
    let cache = signature.input(1)?.shape();
    Ok(Box::new(Rotary {
        level: signature.level,
        float,
        batch,
        heads,
        steps,
        width,
        pairs: rotated / 2,
        separate: signature.input(0)?.shape().len() == 4,
        interleaved: signature.flag("interleaved", false)?,
        positions: signature.optional(3).map(|_| cache[0]),
    }))
}

impl Rotary {
    fn rows(&self) -> usize {
        self.batch * self.heads * self.steps
    }

    /// The batch and step of each row from one on, as one index.
    #[inline(always)]
    fn steps_from(&self, row: usize) -> impl Iterator<Item = usize> {
        let (heads, steps) = (self.heads, self.steps);
        // The rows of a batch, whose heads each have all steps, or those of one step.
        let (period, advance) = if self.separate {
            (heads * steps, steps)
        } else {
            (heads, 1)
        };
        // Divisions only for the first row.
        let (mut first, mut within) = (row / period * advance, row % period);
        let mut step = within % advance;
        std::iter::from_fn(move || {
            let found = first + step;
            (within, step) = (within + 1, step + 1);
            if step == advance {
                step = 0;
            }
            if within == period {
                (within, first) = (0, first + advance);
            }
            Some(found)
        })
    }

    fn chunk_rows(&self) -> usize {
        self.rows().div_ceil(CHUNKS)
    }

    /// Elements of scratch memory for a chunk: a row and its angles in f32.
    fn slot(&self) -> usize {
        match self.float {
            FloatType::F32 => 0,
            _ => self.width.saturating_add(2 * self.pairs),
        }
    }

    fn execute_as<T: FloatElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = if inputs.is_replaced(0) {
            None
        } else {
            Some(inputs.slice::<T>(0)?)
        };
        let caches = [inputs.slice::<T>(1)?, inputs.slice::<T>(2)?];
        let positions = match self.positions {
            Some(_) => Some(inputs.slice::<i64>(3)?),
            None => None,
        };
        for &position in positions.unwrap_or_default() {
            self.position(position)?;
        }
        let to = outputs.slice::<T>(0)?;
        let scratch = super::scratch(&mut outputs, self.slot().saturating_mul(CHUNKS))?;
        let chunk = self.chunk_rows() * self.width;
        let parallel = to.len() >= PARALLEL;
        for_each_chunk2(
            (to, chunk),
            (scratch, self.slot()),
            parallel,
            |index, to, scratch| {
                if let Some(from) = from {
                    to.copy_from_slice(&from[index * chunk..][..to.len()]);
                }
                self.level.run(RotatedRows {
                    rotary: self,
                    first: index * self.chunk_rows(),
                    rows: to,
                    scratch,
                    caches,
                    positions,
                });
            },
        );
        Ok(())
    }

    /// A row of the caches; negative positions count from the end.
    fn position(&self, given: i64) -> Result<usize> {
        let count = self.positions.unwrap_or(0);
        let position = if given < 0 {
            given.saturating_add_unsigned(count as u64)
        } else {
            given
        };
        let position = usize::try_from(position).ok();
        position.filter(|&at| at < count).ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfBounds,
                "an index is out of the bounds of its dimension",
            )
            .expected(format_args!("-{count} to {}", count as i64 - 1))
            .found(given)
        })
    }
}

impl UnpreparedWorkload for Rotary {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.slot().saturating_mul(CHUNKS * size_of::<f32>()),
            ..WorkloadPlan::in_place([0])
        }
    }
}

impl Workload for Rotary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        of_float!(self.float, T => self.execute_as::<T>(operands))
    }
}

/// Rotates some rows in place.
struct RotatedRows<'a, T> {
    rotary: &'a Rotary,
    /// The number of the first row.
    first: usize,
    rows: &'a mut [T],
    scratch: &'a mut [f32],
    caches: [&'a [T]; 2],
    positions: Option<&'a [i64]>,
}

impl<T: FloatElement> VectorOp for RotatedRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Rotary {
            level,
            width,
            pairs,
            interleaved,
            ..
        } = *self.rotary;
        let steps = self.rotary.steps_from(self.first);
        for (row, step) in self.rows.chunks_exact_mut(width).zip(steps) {
            let angle = match self.positions {
                Some(positions) => self.rotary.position(positions[step]).unwrap_or(0),
                None => step,
            };
            let own = angle * pairs..(angle + 1) * pairs;
            let (buffer, rest) = self.scratch.split_at_mut(self.scratch.len().min(width));
            let (cos, sin) = rest.split_at_mut(rest.len() / 2);
            let cos = T::floats(self.caches[0]).load(level, own.clone(), cos);
            let sin = T::floats(self.caches[1]).load(level, own, sin);
            let rotated = 0..2 * pairs;
            if let FloatsMut::F32(row) = T::floats_mut(row) {
                rotate(s, &mut row[rotated], [cos, sin], interleaved);
                continue;
            }
            let elements = &mut buffer[rotated.clone()];
            T::floats(row).copy(level, rotated.clone(), elements);
            rotate(s, elements, [cos, sin], interleaved);
            T::floats_mut(row).write_by(s, rotated, elements);
        }
    }
}

/// Rotates the pairs of a row in place.
#[inline(always)]
fn rotate<S: Simd>(s: S, row: &mut [f32], [cos, sin]: [&[f32]; 2], interleaved: bool) {
    if interleaved {
        let angles = cos.iter().zip(sin);
        for ([x, y], (cos, sin)) in row.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
            (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
        }
        return;
    }
    let (first, second) = row.split_at_mut(cos.len());
    let angles = cos.chunks(S::LANES).zip(sin.chunks(S::LANES));
    let pairs = first.chunks_mut(S::LANES).zip(second.chunks_mut(S::LANES));
    for ((first, second), (cos, sin)) in pairs.zip(angles) {
        let (cos, sin) = (s.load_part(cos), s.load_part(sin));
        let (x, y) = (s.load_part(first), s.load_part(second));
        s.store_part(s.sub(s.mul(cos, x), s.mul(sin, y)), first);
        s.store_part(s.fma(cos, y, s.mul(sin, x)), second);
    }
}
