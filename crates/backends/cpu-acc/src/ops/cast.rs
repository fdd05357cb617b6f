//! `Cast` to floating-point types of 8 bits with saturation, and to and from integers of 4 bits. Descriptors
//! move data between all other types.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{ConvertFn, DataType, converter};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Elements that a thread converts at a time; even.
const CHUNK: usize = 1 << 12;

/// Elements of a conversion step, which are on the stack as 8 bytes each; even.
const STEP: usize = 64;

/// A conversion of elements.
#[derive(Clone, Copy)]
enum Conversion {
    /// To a type of 8 bits, through f64. f64 is exact enough: values that it cannot hold saturate.
    Saturating {
        size: usize,
        read: ConvertFn,
        write: ConvertFn,
        greatest: f64,
    },
    /// To integers of 4 bits, through f64.
    RealToNibbles { size: usize, read: ConvertFn },
    /// To integers of 4 bits, through i64.
    IntegerToNibbles { size: usize, read: ConvertFn },
    /// From integers of 4 bits, through i64.
    FromNibbles {
        signed: bool,
        size: usize,
        write: ConvertFn,
    },
    /// Between integers of 4 bits, whose low bits are the same.
    Nibbles,
}

/// A cast of `elements` elements.
struct Cast {
    elements: usize,
    conversion: Conversion,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let (from, to) = (input.dtype(), signature.output(0)?.dtype());
    let conversion = conversion(from, to, signature.flag("saturate", true)?)?;
    let elements = input.elements();
    Ok(Box::new(Cast {
        elements,
        conversion,
    }))
}

fn is_nibble(dtype: DataType) -> bool {
    matches!(dtype, DataType::I4 | DataType::U4)
}

fn conversion(from: DataType, to: DataType, saturate: bool) -> Result<Conversion, Refusal> {
    use DataType::*;
    let refused = || refuse(format!("no kernel for a cast of {from} to {to}"));
    let size = from.bits() / 8;
    let plain =
        |dtype: DataType| dtype.is_integer() || matches!(dtype, F32 | F64 | F16 | BF16 | Bool);
    if is_nibble(from) && is_nibble(to) {
        return Ok(Conversion::Nibbles);
    }
    if is_nibble(from) {
        let (signed, size) = (from == I4, to.bits() / 8);
        let write = converter(I64, to)
            .filter(|_| plain(to))
            .ok_or_else(refused)?;
        return Ok(Conversion::FromNibbles {
            signed,
            size,
            write,
        });
    }
    if is_nibble(to) {
        if !plain(from) {
            return Err(Reason::InputType {
                input: 0,
                found: from,
            }
            .into());
        }
        return Ok(if from.is_float() {
            let read = converter(from, F64).ok_or_else(refused)?;
            Conversion::RealToNibbles { size, read }
        } else {
            let read = converter(from, I64).ok_or_else(refused)?;
            Conversion::IntegerToNibbles { size, read }
        });
    }
    let greatest = to.greatest_f8().filter(|_| saturate && from != to);
    match (greatest, converter(from, F64), converter(F64, to)) {
        (Some(greatest), Some(read), Some(write)) if size > 0 => Ok(Conversion::Saturating {
            size,
            read,
            write,
            greatest,
        }),
        _ => Err(refused()),
    }
}

impl Conversion {
    /// Elements of a byte of the output, and bytes of an element.
    fn packing(self) -> (usize, usize) {
        match self {
            Self::Saturating { .. } => (1, 1),
            Self::FromNibbles { size, .. } => (1, size),
            _ => (2, 1),
        }
    }

    /// Converts `count` elements from `first` on, which is even.
    fn convert(self, from: &[u8], first: usize, count: usize, to: &mut [u8]) {
        match self {
            Self::Saturating {
                size,
                read,
                write,
                greatest,
            } => {
                let from = &from[first * size..(first + count) * size];
                let mut wide = [0; 8 * STEP];
                for (from, to) in from.chunks(size * STEP).zip(to.chunks_mut(STEP)) {
                    let wide = &mut wide[..8 * to.len()];
                    read(from, wide);
                    for value in wide.as_chunks_mut::<8>().0 {
                        let clamped = f64::from_le_bytes(*value).clamp(-greatest, greatest);
                        *value = clamped.to_le_bytes();
                    }
                    write(wide, to);
                }
            }
            Self::RealToNibbles { size, read } => {
                let from = &from[first * size..(first + count) * size];
                to_nibbles(from, size, read, to, |value| {
                    f64::from_le_bytes(value) as i128 as u8
                });
            }
            Self::IntegerToNibbles { size, read } => {
                let from = &from[first * size..(first + count) * size];
                to_nibbles(from, size, read, to, |value| value[0]);
            }
            Self::FromNibbles {
                signed,
                size,
                write,
            } => {
                let from = &from[first / 2..];
                let mut wide = [0; 8 * STEP];
                for (from, to) in from.chunks(STEP / 2).zip(to.chunks_mut(size * STEP)) {
                    let count = to.len() / size;
                    for (at, value) in wide
                        .as_chunks_mut::<8>()
                        .0
                        .iter_mut()
                        .enumerate()
                        .take(count)
                    {
                        *value = nibble(from[at / 2] >> (at % 2 * 4), signed).to_le_bytes();
                    }
                    write(&wide[..8 * count], to);
                }
            }
            Self::Nibbles => {
                to.copy_from_slice(&from[first / 2..][..to.len()]);
                // The half byte after the last element is 0.
                if count % 2 == 1
                    && let Some(last) = to.last_mut()
                {
                    *last &= 15;
                }
            }
        }
    }
}

/// The integer of the low 4 bits.
pub(super) fn nibble(bits: u8, signed: bool) -> i64 {
    if signed {
        // Bit 3 is the sign.
        ((bits << 4) as i8 >> 4).into()
    } else {
        (bits & 15).into()
    }
}

/// Converts elements of `size` bytes, read as 8 bytes each, to their low 4 bits.
fn to_nibbles(
    from: &[u8],
    size: usize,
    read: ConvertFn,
    to: &mut [u8],
    low: impl Fn([u8; 8]) -> u8,
) {
    let mut wide = [0; 8 * STEP];
    for (from, to) in from.chunks(size * STEP).zip(to.chunks_mut(STEP / 2)) {
        let wide = &mut wide[..8 * (from.len() / size)];
        read(from, wide);
        for (to, pair) in to.iter_mut().zip(wide.as_chunks::<8>().0.chunks(2)) {
            let high = pair.get(1).map_or(0, |&value| low(value));
            *to = low(pair[0]) & 15 | high << 4;
        }
    }
}

impl UnpreparedWorkload for Cast {}

impl Workload for Cast {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<u8>(0)?, outputs.slice::<u8>(0)?);
        let (per_byte, size) = self.conversion.packing();
        let parallel = self.elements >= PARALLEL;
        for_each_chunk(to, CHUNK / per_byte * size, parallel, |index, to| {
            let first = index * CHUNK;
            let count = CHUNK.min(self.elements - first);
            self.conversion.convert(from, first, count, to);
        });
        Ok(())
    }
}
