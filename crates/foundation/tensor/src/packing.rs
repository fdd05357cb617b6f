//! Elements of less than a byte, several in each byte: the first in the lowest bits, as ONNX stores
//! them.

use crate::DataType;
use crate::small_float::Format;

/// How the elements of a data type of 2 or 4 bits are packed, and what their codes mean.
///
/// ```
/// use tenon_tensor::{DataType, Packing};
/// let packing = Packing::of(DataType::I2).unwrap();
/// let mut packed = [0; 2];
/// for (at, value) in [1, -1, -2, 0, 1].into_iter().enumerate() {
///     packing.set(&mut packed, at, packing.wrapped(value));
/// }
/// assert_eq!(packed, [0b00_10_11_01, 0b01]);
/// assert_eq!(packing.value(&packed, 2), -2.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    dtype: DataType,
    /// Bits of an element.
    bits: usize,
    /// The type of whole bytes that has the same values.
    unpacked: DataType,
    /// The element of each code, as a byte of the unpacked type.
    bytes: [u8; 16],
}

impl Packing {
    /// The packing of a type of less than a byte; `None` for other types.
    pub fn of(dtype: DataType) -> Option<Self> {
        let unpacked = match dtype {
            DataType::I2 | DataType::I4 => DataType::I8,
            DataType::U2 | DataType::U4 => DataType::U8,
            DataType::F4E2M1Fn => DataType::F8E4M3Fn,
            _ => return None,
        };
        let unused = 8 - dtype.bits();
        let byte = |code: u8| match unpacked {
            DataType::I8 => ((code << unused) as i8 >> unused) as u8,
            DataType::U8 => code,
            _ => Format::E4M3_FN.encode(Format::E2M1.decode(code.into()).into()) as u8,
        };
        let mut bytes = [0; 16];
        for (code, entry) in (0..1 << dtype.bits()).zip(&mut bytes) {
            *entry = byte(code);
        }
        Some(Self {
            dtype,
            bits: dtype.bits(),
            unpacked,
            bytes,
        })
    }

    /// The type of whole bytes that has the same values.
    pub fn unpacked(self) -> DataType {
        self.unpacked
    }

    /// The elements in a byte.
    pub fn per_byte(self) -> usize {
        8 / self.bits
    }

    /// The code of element `at`.
    #[inline]
    pub fn code(self, packed: &[u8], at: usize) -> u8 {
        let first_bit = at * self.bits;
        packed[first_bit / 8] >> (first_bit % 8) & self.mask()
    }

    /// The exact value of element `at`.
    #[inline]
    pub fn value(self, packed: &[u8], at: usize) -> f64 {
        let code = self.code(packed, at);
        match self.unpacked {
            DataType::I8 => f64::from(self.bytes[usize::from(code)] as i8),
            DataType::U8 => f64::from(code),
            _ => f64::from(Format::E2M1.decode(code.into())),
        }
    }

    /// Element `at` of an integer type.
    #[inline]
    pub fn integer(self, packed: &[u8], at: usize) -> Option<i8> {
        let code = self.code(packed, at);
        (!self.dtype.is_float()).then(|| self.bytes[usize::from(code)] as i8)
    }

    /// The elements from `first` on, as many as `bytes` holds, as bytes of the unpacked type.
    pub fn unpack(self, packed: &[u8], first: usize, bytes: &mut [u8]) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.bytes[usize::from(self.code(packed, first + at))];
        }
    }

    /// Sets element `at` to a code. The elements of a byte are set in order: the first clears the others,
    /// which may be beyond the end.
    #[inline]
    pub fn set(self, packed: &mut [u8], at: usize, code: u8) {
        let first_bit = at * self.bits;
        let byte = &mut packed[first_bit / 8];
        let lower = if first_bit.is_multiple_of(8) {
            0
        } else {
            *byte
        };
        *byte = lower | code << (first_bit % 8);
    }

    /// The code of a value: truncated and saturated to an integer type (NaN is 0), rounded and saturated to a
    /// floating-point type.
    pub fn saturated(self, value: f64) -> u8 {
        match self.dtype.quantized_range() {
            Some([least, greatest]) => value.clamp(least, greatest) as i8 as u8 & self.mask(),
            None => Format::E2M1.encode(value) as u8,
        }
    }

    /// The code of an integer: its low bits, or the nearest value of a floating-point type.
    #[inline]
    pub fn wrapped(self, value: i128) -> u8 {
        if self.dtype.is_float() {
            return Format::E2M1.encode(value as f64) as u8;
        }
        value as u8 & self.mask()
    }

    /// The code of a value, by the rules of ONNX's Cast: truncated to an integer, of which the low bits are
    /// kept, or the nearest value of a floating-point type.
    pub fn cast(self, value: f64) -> u8 {
        if self.dtype.is_float() {
            return Format::E2M1.encode(value) as u8;
        }
        self.wrapped(value as i128)
    }

    /// The bits of a code.
    fn mask(self) -> u8 {
        (1 << self.bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: [DataType; 5] = [
        DataType::I2,
        DataType::U2,
        DataType::I4,
        DataType::U4,
        DataType::F4E2M1Fn,
    ];

    #[test]
    fn types_of_less_than_a_byte_are_packed() {
        for &dtype in DataType::ALL {
            let is_packed = (1..8).contains(&dtype.bits());
            assert_eq!(Packing::of(dtype).is_some(), is_packed, "{dtype}");
            assert_eq!(PACKED.contains(&dtype), is_packed, "{dtype}");
        }
    }

    #[test]
    fn every_code_keeps_its_value() {
        for packing in PACKED.into_iter().filter_map(Packing::of) {
            let dtype = packing.dtype;
            let mut packed = [0xff; 8];
            let count = 1 << dtype.bits();
            for code in 0..count {
                packing.set(&mut packed, code, code as u8);
            }
            let mut bytes = [0; 16];
            packing.unpack(&packed, 0, &mut bytes[..count]);
            for (code, &byte) in bytes.iter().enumerate().take(count) {
                let value = packing.value(&packed, code);
                assert_eq!(usize::from(packing.code(&packed, code)), code);
                assert_eq!(usize::from(packing.saturated(value)), code);
                assert_eq!(usize::from(packing.cast(value)), code);
                let mut wide = [0; 8];
                let convert = crate::converter(packing.unpacked, DataType::F64).unwrap();
                convert(&[byte], &mut wide);
                assert_eq!(f64::from_le_bytes(wide), value, "{dtype}");
                let integer = packing.integer(&packed, code);
                assert_eq!(integer.is_none(), dtype.is_float());
                assert!(integer.is_none_or(|integer| f64::from(integer) == value));
            }
        }
    }

    #[test]
    fn values_out_of_range_saturate_or_wrap() {
        let packing = |dtype| Packing::of(dtype).unwrap();
        assert_eq!(packing(DataType::I2).saturated(-1e9), 0b10);
        assert_eq!(packing(DataType::U2).saturated(f64::NAN), 0);
        assert_eq!(packing(DataType::U2).cast(-1.9), 0b11);
        assert_eq!(packing(DataType::I2).cast(3.7), 0b11);
        assert_eq!(packing(DataType::F4E2M1Fn).cast(f64::NEG_INFINITY), 0xf);
        assert_eq!(packing(DataType::F4E2M1Fn).wrapped(-5), 0xe);
    }
}
