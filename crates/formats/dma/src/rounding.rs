//! Stochastic rounding (Forsythe, "Round-off errors in numerical integration on automatic machinery",
//! 1950): a value between two neighbours of a narrower type is rounded to either of them with a
//! probability proportional to the distance from the other, so that the expected result is the value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_tensor::{ConvertFn, DataType, converter};

/// Elements that are rounded at once.
const BLOCK: usize = 128;

/// 2^64 divided by the golden ratio: the step of the counter of SplitMix64 (Steele, Lea and
/// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Stochastic rounding of casts from floats to `f16`, `bf16` and the `f8` types. It is reproducible:
/// the result of an element depends on the seed, the count of movements executed before and the index
/// of the element, not on threads.
///
/// ```
/// use std::sync::Arc;
/// use tenon_dma::{Plan, StochasticRounding, VariableId, cast_contiguous};
/// use tenon_tensor::DataType;
/// let (from, to) = ((VariableId(0), 0, DataType::F32), (VariableId(1), 0, DataType::BF16));
/// let cast = cast_contiguous(1, from, to)?;
/// let plan = Plan::with_rounding(&cast, Some(&Arc::new(StochasticRounding::new(7))))?;
/// let between = 1.001953125f32.to_le_bytes(); // a quarter of the way from 1 to the next bf16
/// let mut ones = 0;
/// for _ in 0..1000 {
///     let mut rounded = [0; 2];
///     plan.execute(&[&between], &mut rounded)?;
///     ones += u32::from(u16::from_le_bytes(rounded) == 0x3F80);
/// }
/// assert!((700..800).contains(&ones));
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug)]
pub struct StochasticRounding {
    seed: u64,
    /// Movements executed so far.
    executions: AtomicU64,
}

impl StochasticRounding {
    /// A sequence of roundings from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            executions: AtomicU64::new(0),
        }
    }

    /// The random numbers of the next execution.
    fn next(&self) -> ExecutionRandom {
        let before = self.executions.fetch_add(1, Ordering::Relaxed);
        ExecutionRandom(mixed(self.seed.wrapping_add(before.wrapping_mul(STEP))))
    }
}

/// The random numbers of one execution, indexed by element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExecutionRandom(u64);

impl ExecutionRandom {
    /// A number in [0, 1).
    fn unit(self, element: usize) -> f64 {
        let counter = (element as u64).wrapping_add(1).wrapping_mul(STEP);
        // 53 bits: the precision of binary64.
        (mixed(self.0.wrapping_add(counter)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The output function of SplitMix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// A cast with stochastic rounding.
#[derive(Debug, Clone)]
pub(crate) struct RoundedCast {
    rounding: Arc<StochasticRounding>,
    /// From the source type to binary64, which is exact.
    widen: ConvertFn,
    /// From binary64 to the nearest value of the target type.
    narrow: ConvertFn,
    /// From the target type to binary64.
    decode: ConvertFn,
    from: usize,
    to: usize,
    /// The sign bit.
    sign: u16,
    /// The encoding of a negative value that rounds to zero: 0 in types whose encoding of -0 is NaN.
    negative_zero: u16,
}

impl RoundedCast {
    /// The cast between two types; `None` where the cast is exact, or the target is not one of the
    /// types with stochastic rounding.
    pub fn new(from: DataType, to: DataType, rounding: &Arc<StochasticRounding>) -> Option<Self> {
        use DataType::*;
        let narrow = matches!(
            to,
            F16 | BF16 | F8E3M4 | F8E4M3 | F8E4M3Fn | F8E4M3FnUz | F8E5M2 | F8E5M2FnUz
        );
        if !narrow || !from.is_float() || from == to {
            return None;
        }
        let (bytes, sign) = (to.bits() / 8, 1u16 << (to.bits() - 1));
        let decode = converter(to, F64)?;
        let mut zero = [0; 8];
        decode(&sign.to_le_bytes()[..bytes], &mut zero);
        Some(Self {
            rounding: rounding.clone(),
            widen: converter(from, F64)?,
            narrow: converter(F64, to)?,
            decode,
            from: from.bits() / 8,
            to: bytes,
            sign,
            negative_zero: if f64::from_le_bytes(zero).is_nan() {
                0
            } else {
                sign
            },
        })
    }

    /// The random numbers of the next execution.
    pub fn next_random(&self) -> ExecutionRandom {
        self.rounding.next()
    }

    /// Casts contiguous elements, the first of which has the index `element` in the execution.
    pub fn convert(&self, random: ExecutionRandom, element: usize, from: &[u8], to: &mut [u8]) {
        let blocks = from
            .chunks(BLOCK * self.from)
            .zip(to.chunks_mut(BLOCK * self.to));
        for (block, (from, to)) in blocks.enumerate() {
            self.block(random, element + block * BLOCK, from, to);
        }
    }

    fn block(&self, random: ExecutionRandom, element: usize, from: &[u8], to: &mut [u8]) {
        let count = from.len() / self.from;
        let mut exact = [0; BLOCK * 8];
        let (mut nearest, mut neighbours) = ([0; BLOCK * 8], [0; BLOCK * 8]);
        let exact = &mut exact[..count * 8];
        (self.widen)(from, exact);
        (self.narrow)(exact, to);
        (self.decode)(to, &mut nearest[..count * 8]);
        let mut codes = [0; BLOCK * 2];
        let codes = &mut codes[..count * self.to];
        let rows = || doubles(exact).zip(doubles(&nearest));
        for ((exact, nearest), (rounded, neighbour)) in rows().zip(pairs(to, codes, self.to)) {
            let code = self.neighbour(exact, nearest, code(rounded));
            neighbour.copy_from_slice(&code.to_le_bytes()[..self.to]);
        }
        (self.decode)(codes, &mut neighbours[..count * 8]);
        let rows = rows().zip(doubles(&neighbours)).enumerate();
        for ((index, ((exact, nearest), neighbour)), (rounded, code)) in
            rows.zip(pairs(to, codes, self.to))
        {
            if rounds_to_neighbour(exact, nearest, neighbour, random.unit(element + index)) {
                rounded.copy_from_slice(code);
            }
        }
    }

    /// The encoding of the target value on the other side of `exact` than the nearest one, `code`.
    fn neighbour(&self, exact: f64, nearest: f64, code: u16) -> u16 {
        let magnitude = code & !self.sign;
        let sign = if exact < 0.0 { self.sign } else { 0 };
        if nearest.abs() > exact.abs() {
            match magnitude {
                0 | 1 if sign == 0 => 0,
                0 | 1 => self.negative_zero,
                _ => sign | (magnitude - 1),
            }
        } else {
            sign | (magnitude.wrapping_add(1) & !self.sign)
        }
    }
}

/// Whether a value is rounded to the neighbour instead of the nearest value, for a `random` number in
/// [0, 1). Values that are representable, not finite, or out of the target's range are rounded to the
/// nearest.
fn rounds_to_neighbour(exact: f64, nearest: f64, neighbour: f64, random: f64) -> bool {
    let (exact, nearest, neighbour) = (exact.abs(), nearest.abs(), neighbour.abs());
    // False for NaN.
    let between = nearest.min(neighbour) < exact && exact < nearest.max(neighbour);
    between && neighbour.is_finite() && nearest.is_finite() && {
        let distance = (exact - nearest).abs();
        random < distance / (neighbour - nearest).abs()
    }
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
}

/// The elements of two arrays, pairwise.
fn pairs<'a>(
    first: &'a mut [u8],
    second: &'a mut [u8],
    size: usize,
) -> impl Iterator<Item = (&'a mut [u8], &'a mut [u8])> {
    first
        .chunks_exact_mut(size)
        .zip(second.chunks_exact_mut(size))
}

fn code(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .rev()
        .fold(0, |code, &byte| code << 8 | u16::from(byte))
}

#[cfg(test)]
mod tests;
