//! `Cast` to floating-point types of 8 bits with saturation, and to and from types of 2 and 4 bits.
//! Descriptors move data between all other types.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{ConvertFn, DataType, Packing, converter};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Elements that a thread converts at a time, whole bytes of any type.
const CHUNK: usize = 1 << 12;

/// Elements of a conversion step, which are on the stack as 8 bytes each; whole bytes of any type.
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
    /// To elements of less than a byte, through f64.
    RealToPacked {
        size: usize,
        read: ConvertFn,
        packing: Packing,
    },
    /// To elements of less than a byte, through i64.
    IntegerToPacked {
        size: usize,
        read: ConvertFn,
        packing: Packing,
    },
    /// From elements of less than a byte, through elements of a byte.
    FromPacked {
        packing: Packing,
        size: usize,
        write: ConvertFn,
    },
    /// Between integers of the same packing, whose bits are the same.
    SameBits { per_byte: usize },
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

fn conversion(from: DataType, to: DataType, saturate: bool) -> Result<Conversion, Refusal> {
    use DataType::*;
    let refused = || refuse(format!("no kernel for a cast of {from} to {to}"));
    let size = from.bits() / 8;
    let plain =
        |dtype: DataType| dtype.is_integer() || matches!(dtype, F32 | F64 | F16 | BF16 | Bool);
    match (Packing::of(from), Packing::of(to)) {
        (Some(packing), Some(_))
            if from.bits() == to.bits() && !from.is_float() && !to.is_float() =>
        {
            let per_byte = packing.per_byte();
            return Ok(Conversion::SameBits { per_byte });
        }
        (Some(_), Some(_)) => return Err(refused()),
        (Some(packing), None) => {
            let size = to.bits() / 8;
            let write = converter(packing.unpacked(), to).filter(|_| plain(to));
            let write = write.ok_or_else(refused)?;
            return Ok(Conversion::FromPacked {
                packing,
                size,
                write,
            });
        }
        (None, Some(_)) if !plain(from) => {
            return Err(Reason::InputType {
                input: 0,
                found: from,
            }
            .into());
        }
        // Unsigned integers of 64 bits exceed i64.
        (None, Some(packing)) if from.is_float() || to.is_float() => {
            let read = converter(from, F64).ok_or_else(refused)?;
            return Ok(Conversion::RealToPacked {
                size,
                read,
                packing,
            });
        }
        (None, Some(packing)) => {
            let read = converter(from, I64).ok_or_else(refused)?;
            return Ok(Conversion::IntegerToPacked {
                size,
                read,
                packing,
            });
        }
        (None, None) => {}
    }
    let greatest = to.greatest_quantized().filter(|_| saturate && from != to);
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
            Self::FromPacked { size, .. } => (1, size),
            Self::RealToPacked { packing, .. } | Self::IntegerToPacked { packing, .. } => {
                (packing.per_byte(), 1)
            }
            Self::SameBits { per_byte } => (per_byte, 1),
        }
    }

    /// Converts `count` elements from `first` on, the first of a byte.
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
            Self::RealToPacked {
                size,
                read,
                packing,
            } => {
                let from = &from[first * size..(first + count) * size];
                pack(from, size, read, packing, to, |value| {
                    packing.cast(f64::from_le_bytes(value))
                });
            }
            Self::IntegerToPacked {
                size,
                read,
                packing,
            } => {
                let from = &from[first * size..(first + count) * size];
                pack(from, size, read, packing, to, |value| {
                    packing.wrapped(i64::from_le_bytes(value).into())
                });
            }
            Self::FromPacked {
                packing,
                size,
                write,
            } => {
                let mut bytes = [0; STEP];
                for (step, to) in to.chunks_mut(size * STEP).enumerate() {
                    let bytes = &mut bytes[..to.len() / size];
                    packing.unpack(from, first + step * STEP, bytes);
                    write(bytes, to);
                }
            }
            Self::SameBits { per_byte } => {
                to.copy_from_slice(&from[first / per_byte..][..to.len()]);
                // The bits after the last element are 0.
                let rest = count % per_byte;
                if rest > 0
                    && let Some(last) = to.last_mut()
                {
                    *last &= (1 << (rest * 8 / per_byte)) - 1;
                }
            }
        }
    }
}

/// Converts elements of `size` bytes, read as 8 bytes each, to codes of a packed type.
fn pack(
    from: &[u8],
    size: usize,
    read: ConvertFn,
    packing: Packing,
    to: &mut [u8],
    code: impl Fn([u8; 8]) -> u8,
) {
    let mut wide = [0; 8 * STEP];
    let step_bytes = STEP / packing.per_byte();
    for (from, to) in from.chunks(size * STEP).zip(to.chunks_mut(step_bytes)) {
        let wide = &mut wide[..8 * (from.len() / size)];
        read(from, wide);
        for (at, &value) in wide.as_chunks::<8>().0.iter().enumerate() {
            packing.set(to, at, code(value));
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
