//! The elements of host tensors: conversion to bytes, printing and comparison.

use super::float_format::Scientific;
use std::fmt;
use tenon_bef::DType;
use tenon_executor::{BF16, Complex64, Complex128, F16};

/// An element of a dense tensor.
pub trait HostElement: Copy + PartialEq + Send + Sync + 'static {
    /// Its type.
    const DTYPE: DType;

    /// Reads the element from `bytes`, which have the size of the type.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the element to `bytes`, which have the size of the type.
    fn write(self, bytes: &mut [u8]);

    /// Whether two elements are equal, floating-point ones up to `ulps` units in the last place.
    fn close(self, other: Self, ulps: u32) -> bool;

    /// Prints it as a value of a tensor.
    fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

macro_rules! integers {
    ($($type:ty => $dtype:ident,)*) => {$(
        impl HostElement for $type {
            const DTYPE: DType = DType::$dtype;

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn close(self, other: Self, _: u32) -> bool {
                self == other
            }

            fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

integers! {
    u8 => UI8, u16 => UI16, u32 => UI32, u64 => UI64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
}

macro_rules! floats {
    ($($type:ty => $dtype:ident, $complex:ident;)*) => {$(
        impl HostElement for $type {
            const DTYPE: DType = DType::$dtype;

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            /// Epsilon is scaled by the sum of the magnitudes; differences below the smallest
            /// normal value do not count.
            fn close(self, other: Self, ulps: u32) -> bool {
                let difference = (self - other).abs();
                let unit = <$type>::EPSILON * (self + other).abs();
                difference <= unit * ulps as $type || difference < <$type>::MIN_POSITIVE
            }

            fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", Scientific(self.into()))
            }
        }

        impl HostElement for $complex {
            const DTYPE: DType = DType::$complex;

            fn read(bytes: &[u8]) -> Self {
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                Self {
                    real: <$type>::read(real),
                    imaginary: <$type>::read(imaginary),
                }
            }

            fn write(self, bytes: &mut [u8]) {
                let (real, imaginary) = bytes.split_at_mut(bytes.len() / 2);
                self.real.write(real);
                self.imaginary.write(imaginary);
            }

            fn close(self, other: Self, ulps: u32) -> bool {
                self.real.close(other.real, ulps) && self.imaginary.close(other.imaginary, ulps)
            }

            fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [real, imaginary] = [self.real, self.imaginary].map(f64::from).map(Scientific);
                write!(f, "({real},{imaginary})")
            }
        }
    )*};
}

floats! {
    f32 => F32, Complex64;
    f64 => F64, Complex128;
}

macro_rules! raw_floats {
    ($($type:ident => $dtype:ident, $name:literal;)*) => {$(
        impl HostElement for $type {
            const DTYPE: DType = DType::$dtype;

            fn read(bytes: &[u8]) -> Self {
                Self(u16::read(bytes))
            }

            fn write(self, bytes: &mut [u8]) {
                self.0.write(bytes);
            }

            /// Compared by bits, as in the original.
            fn close(self, other: Self, _: u32) -> bool {
                self == other
            }

            fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", $name, self.0)
            }
        }
    )*};
}

raw_floats! {
    F16 => F16, "fp16";
    BF16 => BF16, "bf16";
}

impl HostElement for bool {
    const DTYPE: DType = DType::I1;

    fn read(bytes: &[u8]) -> Self {
        bytes.iter().any(|&byte| byte != 0)
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.fill(self.into());
    }

    fn close(self, other: Self, _: u32) -> bool {
        self == other
    }

    fn print(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u8::from(self))
    }
}

/// Prints the element of type `dtype` in `bytes`; nothing for types that are not tensor elements.
pub(super) fn print(dtype: DType, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match dtype {
        DType::UI8 => u8::read(bytes).print(f),
        DType::UI16 => u16::read(bytes).print(f),
        DType::UI32 => u32::read(bytes).print(f),
        DType::UI64 => u64::read(bytes).print(f),
        DType::I1 => bool::read(bytes).print(f),
        DType::I8 => i8::read(bytes).print(f),
        DType::I16 => i16::read(bytes).print(f),
        DType::I32 => i32::read(bytes).print(f),
        DType::I64 => i64::read(bytes).print(f),
        DType::F32 => f32::read(bytes).print(f),
        DType::F64 => f64::read(bytes).print(f),
        DType::F16 => F16::read(bytes).print(f),
        DType::BF16 => BF16::read(bytes).print(f),
        DType::Complex64 => Complex64::read(bytes).print(f),
        DType::Complex128 => Complex128::read(bytes).print(f),
        _ => Ok(()),
    }
}

/// The name of a type in printed tensors: `u` for unsigned integers, the total size for
/// complex types.
pub(super) fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::UI8 => "u8",
        DType::UI16 => "u16",
        DType::UI32 => "u32",
        DType::UI64 => "u64",
        DType::Complex64 => "complex64",
        DType::Complex128 => "complex128",
        other => other.mlir(),
    }
}
