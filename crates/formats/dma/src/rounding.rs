//! Stochastic rounding: a number between two of a narrower type becomes the one or the other, the
//! nearer one more often, so that the mean of many roundings is the number itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_tensor::{ConvertFn, DataType, converter};

/// Numbers that are rounded at once.
const BLOCK: usize = 128;

/// 2^64 divided by the golden ratio: the step of the counter of SplitMix64 (Steele, Lea and
/// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Has casts from floats to `f16`, `bf16` and the `f8` types round by chance. One seed gives one
/// succession of roundings: what an element becomes depends on the seed, on how many movements were
/// executed before, and on the element's place, not on threads.
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
    /// Roundings that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            executions: AtomicU64::new(0),
        }
    }

    /// The numbers of one more execution.
    fn next(&self) -> Chances {
        let before = self.executions.fetch_add(1, Ordering::Relaxed);
        Chances(mixed(self.seed.wrapping_add(before.wrapping_mul(STEP))))
    }
}

/// Random numbers of one execution, by element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chances(u64);

impl Chances {
    /// A number from 0 on below 1.
    fn of(self, element: usize) -> f64 {
        let counter = (element as u64).wrapping_add(1).wrapping_mul(STEP);
        // 53 bits are what a binary64 holds.
        (mixed(self.0.wrapping_add(counter)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finishing of SplitMix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// A cast that rounds by chance.
#[derive(Debug, Clone)]
pub(crate) struct RoundedCast {
    rounding: Arc<StochasticRounding>,
    /// From the source to binary64, which holds all its numbers.
    widen: ConvertFn,
    /// From binary64 to the nearest of the target.
    narrow: ConvertFn,
    /// From the target to binary64.
    decode: ConvertFn,
    from: usize,
    to: usize,
    /// The bit of the sign.
    sign: u16,
    /// What a negative number becomes that rounds to zero: types without a negative zero have NaN
    /// in its place.
    negative_zero: u16,
}

impl RoundedCast {
    /// The cast between two types; `None` where the target holds all numbers of the source, or is
    /// none of the types that are rounded so.
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

    /// The numbers of one more execution.
    pub fn chances(&self) -> Chances {
        self.rounding.next()
    }

    /// Casts successive elements, the first of which is `element` of the execution.
    pub fn convert(&self, chances: Chances, element: usize, from: &[u8], to: &mut [u8]) {
        let blocks = from
            .chunks(BLOCK * self.from)
            .zip(to.chunks_mut(BLOCK * self.to));
        for (block, (from, to)) in blocks.enumerate() {
            self.block(chances, element + block * BLOCK, from, to);
        }
    }

    fn block(&self, chances: Chances, element: usize, from: &[u8], to: &mut [u8]) {
        let count = from.len() / self.from;
        let mut exact = [0; BLOCK * 8];
        let (mut nearest, mut others) = ([0; BLOCK * 8], [0; BLOCK * 8]);
        let exact = &mut exact[..count * 8];
        (self.widen)(from, exact);
        (self.narrow)(exact, to);
        (self.decode)(to, &mut nearest[..count * 8]);
        let mut beside = [0; BLOCK * 2];
        let beside = &mut beside[..count * self.to];
        let rows = || numbers(exact).zip(numbers(&nearest));
        for ((exact, nearest), (near, other)) in rows().zip(pairs(to, beside, self.to)) {
            let code = self.beside(exact, nearest, code(near));
            other.copy_from_slice(&code.to_le_bytes()[..self.to]);
        }
        (self.decode)(beside, &mut others[..count * 8]);
        let rows = rows().zip(numbers(&others)).enumerate();
        for ((index, ((exact, nearest), other)), (near, code)) in
            rows.zip(pairs(to, beside, self.to))
        {
            if goes_to_other(exact, nearest, other, chances.of(element + index)) {
                near.copy_from_slice(code);
            }
        }
    }

    /// The target's number on the other side of `exact`, whose nearest is `code`.
    fn beside(&self, exact: f64, nearest: f64, code: u16) -> u16 {
        let magnitude = code & !self.sign;
        let sign = if exact < 0.0 { self.sign } else { 0 };
        match nearest.abs() > exact.abs() {
            true if magnitude <= 1 => match sign {
                0 => 0,
                _ => self.negative_zero,
            },
            true => sign | (magnitude - 1),
            false => sign | (magnitude.wrapping_add(1) & !self.sign),
        }
    }
}

/// Whether a number goes to the neighbour that is not the nearest. Numbers that are exact, not
/// finite, or beyond the last of the target, stay with the nearest.
fn goes_to_other(exact: f64, nearest: f64, other: f64, chance: f64) -> bool {
    let (exact, nearest, other) = (exact.abs(), nearest.abs(), other.abs());
    let between = nearest.min(other) < exact && exact < nearest.max(other);
    // Also false for what is not a number.
    between && other.is_finite() && nearest.is_finite() && {
        let distance = (exact - nearest).abs();
        chance < distance / (other - nearest).abs()
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
}

/// The elements of two arrays, side by side.
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
