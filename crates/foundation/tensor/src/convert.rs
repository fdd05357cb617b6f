//! Conversions between data types, with the rules of `docs/dma.md` and the Cast operator:
//!
//! * to a floating-point type: to the nearest value, ties to even, rounded once. Overflow gives
//!   infinity, or NaN in a type without infinities. To `tf32`: truncated towards zero.
//!   To `f8e8m0fnu`, whose values are positive: zero and negative values give NaN. To `f4e2m1fn`, which
//!   has neither infinities nor NaN: saturated, NaN to the zero of the other sign.
//! * floating-point to integer: truncated towards zero, saturating, NaN to 0.
//! * integer to integer: the low bits (two's complement).
//! * to bool: whether the value is nonzero (NaN is nonzero); from bool: 0 or 1.
//! * real to complex: imaginary part 0. Complex to real and strings are not convertible.
//!
//! Wide values are rounded to odd before the final rounding where they pass through a narrower
//! type, so that double rounding gives the correct result (Boldo and Melquiond, "Emulation of FMA
//! and correctly rounded sums: proved algorithms using rounding to odd", 2008).

use crate::packing::Packing;
use crate::small_float::{Format, e8m0_code, e8m0_table};
use crate::{BufferMut, DataType, Tensor, TensorType};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::sync::LazyLock;
use tenon_base::{Error, ErrorKind, Result};

/// Converts packed little-endian elements of any alignment, as many as both slices hold.
pub type ConvertFn = fn(&[u8], &mut [u8]);

/// The conversion between two types whose elements are whole bytes; `None` if undefined.
///
/// ```
/// use tenon_tensor::{DataType, converter};
/// let convert = converter(DataType::F32, DataType::BF16).unwrap();
/// let mut out = [0; 2];
/// convert(&1.5f32.to_le_bytes(), &mut out);
/// assert_eq!(out, 0x3fc0u16.to_le_bytes());
/// ```
pub fn converter(from: DataType, to: DataType) -> Option<ConvertFn> {
    use DataType::*;
    if from == to {
        return (from.bits() >= 8).then_some(copy as ConvertFn);
    }
    match (from, to) {
        (F32 | F32r, F16) => return Some(f32_to_f16),
        (F16, F32 | F32r) => return Some(f16_to_f32),
        (C64, C128) => return Some(each::<f32, f64>),
        (C128, C64) => return Some(each::<f64, f32>),
        _ => {}
    }
    match from {
        F32 | F32r => to_type::<f32>(to),
        Tf32 => to_type::<Truncated>(to),
        F64 => to_type::<f64>(to),
        F16 => to_type::<f16>(to),
        BF16 => to_type::<bf16>(to),
        F8E3M4 => to_type::<E3M4>(to),
        F8E4M3 => to_type::<E4M3>(to),
        F8E4M3Fn => to_type::<E4M3Fn>(to),
        F8E4M3FnUz => to_type::<E4M3FnUz>(to),
        F8E5M2 => to_type::<E5M2>(to),
        F8E5M2FnUz => to_type::<E5M2FnUz>(to),
        I8 => to_type::<i8>(to),
        I16 => to_type::<i16>(to),
        I32 => to_type::<i32>(to),
        I64 => to_type::<i64>(to),
        U8 => to_type::<u8>(to),
        U16 => to_type::<u16>(to),
        U32 => to_type::<u32>(to),
        U64 => to_type::<u64>(to),
        Bool => to_type::<BoolByte>(to),
        F8E8M0Fnu => to_type::<E8M0>(to),
        I2 | U2 | I4 | U4 | F4E2M1Fn | C64 | C128 | String => None,
    }
}

fn to_type<S: Representation>(to: DataType) -> Option<ConvertFn> {
    use DataType::*;
    Some(match to {
        F32 | F32r => each::<S, f32>,
        Tf32 => each::<S, Truncated>,
        F64 => each::<S, f64>,
        F16 => each::<S, f16>,
        BF16 => each::<S, bf16>,
        F8E3M4 => each::<S, E3M4>,
        F8E4M3 => each::<S, E4M3>,
        F8E4M3Fn => each::<S, E4M3Fn>,
        F8E4M3FnUz => each::<S, E4M3FnUz>,
        F8E5M2 => each::<S, E5M2>,
        F8E5M2FnUz => each::<S, E5M2FnUz>,
        I8 => each::<S, i8>,
        I16 => each::<S, i16>,
        I32 => each::<S, i32>,
        I64 => each::<S, i64>,
        U8 => each::<S, u8>,
        U16 => each::<S, u16>,
        U32 => each::<S, u32>,
        U64 => each::<S, u64>,
        Bool => each::<S, BoolByte>,
        C64 => each::<S, Complex<f32>>,
        C128 => each::<S, Complex<f64>>,
        F8E8M0Fnu => each::<S, E8M0>,
        I2 | U2 | I4 | U4 | F4E2M1Fn | String => return None,
    })
}

/// The elements converted to another data type by the rules of the module. Elements of less than a byte
/// are packed ([`Packing`]).
///
/// ```
/// use tenon_tensor::{DataType, Tensor, convert};
/// let tensor = Tensor::from_slice([3], &[1.9f32, -300.0, f32::NAN])?;
/// let bytes = convert(&tensor, DataType::I8)?;
/// assert_eq!(bytes.as_slice::<i8>().unwrap(), [1, -128, 0]);
/// # Ok::<(), tenon_base::Error>(())
/// ```
pub fn convert(tensor: &Tensor, to: DataType) -> Result<Tensor> {
    let from = tensor.dtype();
    if from == to {
        return Ok(tensor.clone());
    }
    let ty = TensorType::new(to, tensor.shape().clone())?;
    let (unpack, pack) = (Packing::of(from), Packing::of(to));
    // Packed elements are converted through types of whole bytes: to saturate from floating point
    // through f64, else through i64, whose low bits are stored.
    let read = unpack.map_or(from, Packing::unpacked);
    let write = match pack {
        None => to,
        Some(_) if from.is_float() || to.is_float() => DataType::F64,
        Some(_) => DataType::I64,
    };
    let convert = converter(read, write).ok_or_else(|| {
        let text = format!("elements of type {from} do not convert to {to}");
        Error::new(ErrorKind::Unsupported, text)
    })?;
    let (source, mut target) = (tensor.bytes(), BufferMut::zeroed(ty.bytes())?);
    if unpack.is_none() && pack.is_none() {
        convert(source, &mut target);
        return Tensor::new(ty, target.freeze());
    }
    let (mut unpacked, mut wide) = ([0; CHUNK], [0; 8 * CHUNK]);
    let offset = |dtype: DataType, index: usize| index * dtype.bits() / 8;
    for first in (0..ty.elements()).step_by(CHUNK) {
        let count = CHUNK.min(ty.elements() - first);
        let from_bytes = if let Some(packing) = unpack {
            packing.unpack(source, first, &mut unpacked[..count]);
            &unpacked[..count]
        } else {
            &source[offset(from, first)..offset(from, first + count)]
        };
        let Some(packing) = pack else {
            let target = &mut target[offset(to, first)..offset(to, first + count)];
            convert(from_bytes, target);
            continue;
        };
        let wide = &mut wide[..8 * count];
        convert(from_bytes, wide);
        for (at, &bytes) in wide.as_chunks::<8>().0.iter().enumerate() {
            let code = if write == DataType::F64 {
                packing.saturated(f64::from_le_bytes(bytes))
            } else {
                packing.wrapped(i64::from_le_bytes(bytes).into())
            };
            packing.set(&mut target, first + at, code);
        }
    }
    Tensor::new(ty, target.freeze())
}

/// Packed elements converted at a time, whole bytes.
const CHUNK: usize = 4096;

/// The representation of a data type. Values are loaded losslessly as one of four carrier types.
trait Representation: Sized {
    const BYTES: usize;
    type Carrier: Carrier;
    /// The value of `bytes`, which are [`Representation::BYTES`] long.
    fn load(bytes: &[u8]) -> Self::Carrier;
    fn store_f32(value: f32, bytes: &mut [u8]);
    fn store_f64(value: f64, bytes: &mut [u8]);
    fn store_i64(value: i64, bytes: &mut [u8]);
    fn store_u64(value: u64, bytes: &mut [u8]);
}

/// A type that represents the values of several data types exactly.
trait Carrier {
    fn store<T: Representation>(self, bytes: &mut [u8]);
}

macro_rules! carriers {
    ($($ty:ty, $store:ident;)*) => {$(
        impl Carrier for $ty {
            #[inline(always)]
            fn store<T: Representation>(self, bytes: &mut [u8]) {
                T::$store(self, bytes);
            }
        }
    )*};
}

carriers! { f32, store_f32; f64, store_f64; i64, store_i64; u64, store_u64; }

fn copy(from: &[u8], to: &mut [u8]) {
    let len = from.len().min(to.len());
    to[..len].copy_from_slice(&from[..len]);
}

fn each<S: Representation, T: Representation>(from: &[u8], to: &mut [u8]) {
    for (from, to) in from
        .chunks_exact(S::BYTES)
        .zip(to.chunks_exact_mut(T::BYTES))
    {
        S::load(from).store::<T>(to);
    }
}

/// The first `N` bytes, as an array.
#[inline(always)]
fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().unwrap_or(&[0; N])
}

macro_rules! integers {
    ($($ty:ty as $carrier:ty;)*) => {$(
        impl Representation for $ty {
            const BYTES: usize = size_of::<$ty>();
            type Carrier = $carrier;
            #[inline(always)]
            fn load(bytes: &[u8]) -> $carrier { <$ty>::from_le_bytes(take(bytes)) as $carrier }
            // `as` saturates from floating point and takes the low bits from integers.
            #[inline(always)]
            fn store_f32(value: f32, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_f64(value: f64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_i64(value: i64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_u64(value: u64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
        }
    )*};
}

integers! {
    i8 as i64; i16 as i64; i32 as i64; i64 as i64;
    u8 as i64; u16 as i64; u32 as i64; u64 as u64;
}

macro_rules! floats {
    ($($ty:ty;)*) => {$(
        impl Representation for $ty {
            const BYTES: usize = size_of::<$ty>();
            type Carrier = $ty;
            #[inline(always)]
            fn load(bytes: &[u8]) -> $ty { <$ty>::from_le_bytes(take(bytes)) }
            #[inline(always)]
            fn store_f32(value: f32, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_f64(value: f64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_i64(value: i64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
            #[inline(always)]
            fn store_u64(value: u64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(value as $ty).to_le_bytes());
            }
        }
    )*};
}

floats! { f32; f64; }

/// Types narrower than binary32. Integers are rounded to odd in binary64 first, so that the final
/// rounding is correct.
macro_rules! narrow {
    ($($ty:ty, $bytes:literal, load $load:expr, f32 $from_f32:expr, f64 $from_f64:expr;)*) => {$(
        impl Representation for $ty {
            const BYTES: usize = $bytes;
            type Carrier = f32;
            #[inline(always)]
            fn load(bytes: &[u8]) -> f32 { $load(take::<$bytes>(bytes)) }
            #[inline(always)]
            fn store_f32(value: f32, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$from_f32(value));
            }
            #[inline(always)]
            fn store_f64(value: f64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$from_f64(value));
            }
            fn store_i64(value: i64, bytes: &mut [u8]) {
                let magnitude = round_to_odd_f64(value.unsigned_abs());
                Self::store_f64(if value < 0 { -magnitude } else { magnitude }, bytes);
            }
            fn store_u64(value: u64, bytes: &mut [u8]) {
                Self::store_f64(round_to_odd_f64(value), bytes);
            }
        }
    )*};
}

/// The integer in binary64, rounded to odd: rounding the result to a narrower type gives the same
/// as rounding the integer itself.
fn round_to_odd_f64(value: u64) -> f64 {
    let excess = (u64::BITS - value.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
    let lost = value & ((1 << excess) - 1) != 0;
    ((value >> excess | u64::from(lost)) << excess) as f64
}

/// Lookup table from the upper half of a binary32 to an 8-bit code.
type CodeTable = Box<[u8; 1 << 16]>;

fn code_table(format: Format) -> CodeTable {
    let mut codes = Box::new([0; 1 << 16]);
    for (upper, code) in codes.iter_mut().enumerate() {
        let value = f32::from_bits((upper as u32) << 16);
        *code = format.encode(value.into()) as u8;
    }
    codes
}

/// The upper half of a binary32, rounded to odd: its 7 explicit mantissa bits are at least two more
/// than those of an 8-bit format, so that rounding it gives the same as rounding the value.
#[inline(always)]
fn round_to_odd_upper_half(value: f32) -> usize {
    let bits = value.to_bits();
    (bits >> 16) as usize | usize::from(bits & 0xffff != 0)
}

macro_rules! float8 {
    ($($name:ident, $format:expr;)*) => {$(
        struct $name;

        impl $name {
            const TABLE: [f32; 256] = $format.table();

            #[inline(always)]
            fn code(value: f32) -> u8 {
                static CODES: LazyLock<CodeTable> = LazyLock::new(|| code_table($format));
                CODES[round_to_odd_upper_half(value)]
            }
        }

        narrow! {
            $name, 1,
            load |bytes: [u8; 1]| {
                static TABLE: [f32; 256] = $name::TABLE;
                TABLE[usize::from(bytes[0])]
            },
            f32 |value: f32| [$name::code(value)],
            f64 |value: f64| [$format.encode(value) as u8];
        }
    )*};
}

float8! {
    E3M4, Format::E3M4;
    E4M3, Format::E4M3;
    E4M3Fn, Format::E4M3_FN;
    E4M3FnUz, Format::E4M3_FNUZ;
    E5M2, Format::E5M2;
    E5M2FnUz, Format::E5M2_FNUZ;
}

/// `f8e8m0fnu`: a biased exponent.
struct E8M0;

/// `tf32`: the upper 19 bits of a binary32.
struct Truncated;

narrow! {
    f16, 2,
    load |bytes| f16::from_le_bytes(bytes).to_f32(),
    f32 |value| f16::from_f32(value).to_le_bytes(),
    f64 |value| (Format::F16.encode(value) as u16).to_le_bytes();
    bf16, 2,
    load |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16),
    f32 |value| bf16_bits(value).to_le_bytes(),
    f64 |value| (Format::BF16.encode(value) as u16).to_le_bytes();
    E8M0, 1,
    load |bytes: [u8; 1]| {
        static TABLE: [f32; 256] = e8m0_table();
        TABLE[usize::from(bytes[0])]
    },
    f32 |value: f32| [e8m0_code(value.into())],
    f64 |value: f64| [e8m0_code(value)];
    Truncated, 4,
    load |bytes| truncated(f32::from_le_bytes(bytes)),
    f32 |value| truncated(value).to_le_bytes(),
    f64 |value| truncated(toward_zero(value)).to_le_bytes();
}

/// Branch-free, so that loops over it are vectorised.
#[inline(always)]
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40;
    if value.is_nan() { quiet } else { rounded }
}

fn truncated(value: f32) -> f32 {
    // The quiet bit of a NaN is set: a mantissa truncated to zero would be an infinity.
    let quiet = if value.is_nan() { 1 << 22 } else { 0 };
    f32::from_bits((value.to_bits() | quiet) & !0x1fff)
}

fn toward_zero(value: f64) -> f32 {
    let nearest = value as f32;
    let too_far = nearest.is_finite() && f64::from(nearest).abs() > value.abs();
    if too_far {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    }
}

/// `bool`: a byte, 0 or 1.
struct BoolByte;

impl Representation for BoolByte {
    const BYTES: usize = 1;
    type Carrier = i64;

    fn load(bytes: &[u8]) -> i64 {
        i64::from(take::<1>(bytes) != [0])
    }

    fn store_f32(value: f32, bytes: &mut [u8]) {
        bytes.fill(u8::from(value != 0.0));
    }

    fn store_f64(value: f64, bytes: &mut [u8]) {
        bytes.fill(u8::from(value != 0.0));
    }

    fn store_i64(value: i64, bytes: &mut [u8]) {
        bytes.fill(u8::from(value != 0));
    }

    fn store_u64(value: u64, bytes: &mut [u8]) {
        bytes.fill(u8::from(value != 0));
    }
}

/// A complex value, stored from a real one with imaginary part 0.
struct Complex<T>(std::marker::PhantomData<T>);

macro_rules! complex {
    ($($store:ident, $ty:ty;)*) => {$(
        fn $store(value: $ty, bytes: &mut [u8]) {
            let (real, imaginary) = bytes.split_at_mut(T::BYTES);
            T::$store(value, real);
            imaginary.fill(0);
        }
    )*};
}

impl<T: Representation> Representation for Complex<T> {
    const BYTES: usize = 2 * T::BYTES;
    type Carrier = T::Carrier;

    fn load(bytes: &[u8]) -> T::Carrier {
        T::load(&bytes[..T::BYTES])
    }

    complex! { store_f32, f32; store_f64, f64; store_i64, i64; store_u64, u64; }
}

/// Elements per call of the vectorised half-precision conversion.
const BLOCK: usize = 64;

/// Uses the vector instructions that the `half` crate detects at run time.
fn f32_to_f16(from: &[u8], to: &mut [u8]) {
    let mut floats = [0f32; BLOCK];
    let mut halves = [f16::ZERO; BLOCK];
    for (from, to) in from.chunks(4 * BLOCK).zip(to.chunks_mut(2 * BLOCK)) {
        for (float, bytes) in floats.iter_mut().zip(from.as_chunks().0) {
            *float = f32::from_le_bytes(*bytes);
        }
        halves.convert_from_f32_slice(&floats);
        for (half, bytes) in halves.iter().zip(to.as_chunks_mut().0) {
            *bytes = half.to_le_bytes();
        }
    }
}

fn f16_to_f32(from: &[u8], to: &mut [u8]) {
    let mut floats = [0f32; BLOCK];
    let mut halves = [f16::ZERO; BLOCK];
    for (from, to) in from.chunks(2 * BLOCK).zip(to.chunks_mut(4 * BLOCK)) {
        for (half, bytes) in halves.iter_mut().zip(from.as_chunks().0) {
            *half = f16::from_le_bytes(*bytes);
        }
        halves.convert_to_f32_slice(&mut floats);
        for (float, bytes) in floats.iter().zip(to.as_chunks_mut().0) {
            *bytes = float.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<T: crate::Element, U: crate::Element + PartialEq + std::fmt::Debug>(value: T) -> U {
        convert(&Tensor::scalar(value).unwrap(), U::DATA_TYPE)
            .unwrap()
            .as_slice()
            .unwrap()[0]
    }

    #[test]
    fn integers_saturate_from_floats_and_wrap_from_integers() {
        assert_eq!(one::<f32, u8>(-1.5), 0);
        assert_eq!(one::<f32, i32>(3e9), i32::MAX);
        assert_eq!(one::<f64, i64>(f64::NEG_INFINITY), i64::MIN);
        assert_eq!(one::<f64, u64>(f64::NAN), 0);
        assert_eq!(one::<i32, u8>(-1), 255);
        assert_eq!(one::<u64, i64>(u64::MAX), -1);
        assert_eq!(one::<i64, u32>(-1), u32::MAX);
        assert_eq!(one::<u64, f64>(u64::MAX), 18446744073709551615.0);
    }

    #[test]
    fn large_integers_are_rounded_once() {
        // One more than halfway between two values of bf16; binary64 cannot represent it.
        let value = (1i64 << 62) + (1 << 54) + 1;
        assert_eq!(one::<i64, bf16>(value).to_bits(), 0x5e81);
        assert_eq!(one::<i64, bf16>(value - 1).to_bits(), 0x5e80);
        assert_eq!(one::<i64, bf16>(-value).to_bits(), 0xde81);
        assert_eq!(one::<u64, f16>(u64::MAX), f16::INFINITY);
        assert_eq!(one::<i64, f32>((1 << 24) + 1), 16777216.0);
    }

    #[test]
    fn tf32_truncates() {
        let tensor = convert(&Tensor::scalar(1.999_999_9f32).unwrap(), DataType::Tf32).unwrap();
        assert_eq!(tensor.bytes(), 0x3fff_e000u32.to_le_bytes());
        let tensor = Tensor::scalar(1.999_999_999_999f64).unwrap();
        let tensor = convert(&tensor, DataType::Tf32).unwrap();
        assert_eq!(tensor.bytes(), 0x3fff_e000u32.to_le_bytes());
        let nan = Tensor::scalar(f32::from_bits(0x7f80_0001)).unwrap();
        let nan = convert(&convert(&nan, DataType::Tf32).unwrap(), DataType::F32).unwrap();
        assert!(nan.as_slice::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn four_bit_elements_are_packed() {
        let tensor = Tensor::from_slice([5], &[-9.0f32, -8.0, 7.9, 100.0, f32::NAN]).unwrap();
        let four = convert(&tensor, DataType::I4).unwrap();
        assert_eq!(four.bytes(), [0x88, 0x77, 0x00]);
        let back = convert(&four, DataType::I32).unwrap();
        assert_eq!(back.as_slice::<i32>().unwrap(), [-8, -8, 7, 7, 0]);
        let four = convert(
            &Tensor::from_slice([3], &[17i64, 15, -1]).unwrap(),
            DataType::U4,
        );
        assert_eq!(four.unwrap().bytes(), [0xf1, 0x0f]);
    }

    #[test]
    fn real_values_convert_to_complex_only() {
        let tensor = convert(&Tensor::from_slice([1], &[2.5f32]).unwrap(), DataType::C128).unwrap();
        let parts: Vec<f64> = tensor
            .bytes()
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| f64::from_le_bytes(bytes))
            .collect();
        assert_eq!(parts, [2.5, 0.0]);
        assert_eq!(
            convert(&tensor, DataType::C64).unwrap().bytes()[..4],
            2.5f32.to_le_bytes()
        );
        let error = convert(&tensor, DataType::F32).unwrap_err();
        assert_eq!(
            error.to_string(),
            "elements of type c128 do not convert to f32"
        );
    }

    #[test]
    fn half_precision_blocks_and_remainders_are_converted() {
        let floats: Vec<f32> = (0..200).map(|i| i as f32 * 0.37 - 20.0).collect();
        let tensor = Tensor::from_slice([200], &floats).unwrap();
        let halves = convert(&tensor, DataType::F16).unwrap();
        for (&half, &float) in halves.as_slice::<f16>().unwrap().iter().zip(&floats) {
            assert_eq!(half, f16::from_f32(float));
        }
        let back = convert(&halves, DataType::F32).unwrap();
        assert_eq!(
            back.as_slice::<f32>().unwrap()[199],
            f16::from_f32(floats[199]).to_f32()
        );
    }
}
