//! Integers of 2, 4 or 8 bits in tensors of u8, as operators of `com.microsoft` have them: each row in whole bytes, the first
//! integer of a byte in its low bits.

use tenon_base::Result;
use tenon_tensor::{BufferMut, DataType, Packing, Tensor, TensorType};

/// Rows of integers.
pub(super) struct PackedRows {
    pub rows: usize,
    /// Bytes of a row.
    pub stride: usize,
    /// Integers of a row.
    pub count: usize,
    pub bits: usize,
}

impl PackedRows {
    /// The integers, `[rows, count]`. With a sign they are less than those of the rows by half of the range.
    pub fn integers(&self, from: &[u8], is_signed: bool) -> Result<Tensor> {
        let sign = if is_signed { 1 << (self.bits - 1) } else { 0 };
        let ty = TensorType::new(integer_type(self.bits, is_signed), [self.rows, self.count])?;
        let mut to = BufferMut::zeroed(ty.bytes())?;
        let per_byte = 8 / self.bits;
        if self.count.is_multiple_of(per_byte) && self.stride == self.count / per_byte {
            // All signs of a byte.
            let signs = (0..8)
                .step_by(self.bits)
                .fold(0, |all, at| all | sign << at);
            for (to, from) in to.iter_mut().zip(from) {
                *to = from ^ signs;
            }
            return Tensor::new(ty, to.freeze());
        }
        let packing = Packing::of(integer_type(self.bits, false));
        for (row, bytes) in from.chunks_exact(self.stride).enumerate() {
            for nth in 0..self.count {
                let code = match packing {
                    Some(packing) => packing.code(bytes, nth),
                    None => bytes[nth],
                } ^ sign;
                match packing {
                    Some(packing) => packing.set(&mut to, row * self.count + nth, code),
                    None => to[row * self.count + nth] = code,
                }
            }
        }
        Tensor::new(ty, to.freeze())
    }
}

/// The type of integers of 2, 4 or 8 bits.
pub(super) fn integer_type(bits: usize, is_signed: bool) -> DataType {
    match (bits, is_signed) {
        (2, true) => DataType::I2,
        (2, false) => DataType::U2,
        (4, true) => DataType::I4,
        (4, false) => DataType::U4,
        (_, true) => DataType::I8,
        (_, false) => DataType::U8,
    }
}
