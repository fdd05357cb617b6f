//! Block floating point: blocks of sixteen elements with a shared exponent (netlist 5.2).

use crate::words::DataFormat;

/// Elements of a block: one row of a face.
pub const BLOCK: usize = 16;

/// Bits of mantissa, and whether the exponent has 8 bits (else 5).
fn block_format(format: DataFormat) -> Option<(u32, bool)> {
    Some(match format {
        DataFormat::Bfp8 => (7, false),
        DataFormat::Bfp8B => (7, true),
        DataFormat::Bfp4 => (3, false),
        DataFormat::Bfp4B => (3, true),
        DataFormat::Bfp2 => (1, false),
        DataFormat::Bfp2B => (1, true),
        _ => return None,
    })
}

/// The exponent and mantissa of a value, saturated to the format's range of exponents.
fn parts(value: f32, eight_bits: bool) -> (u32, u32) {
    let bits = value.to_bits();
    let (exponent, mantissa) = ((bits >> 23) & 0xff, bits & 0x7f_ffff);
    if eight_bits {
        return (exponent, mantissa);
    }
    match exponent as i32 - 127 + 15 {
        32.. => (31, 0x7f_ffff),
        i32::MIN..0 => (0, 0),
        exponent => (exponent as u32, mantissa),
    }
}

/// The shared exponent and the codes, sign on top, of one block; `None` for another format.
pub fn encode_block(format: DataFormat, values: &[f32; BLOCK]) -> Option<(u8, [u8; BLOCK])> {
    let (mantissa_bits, eight_bits) = block_format(format)?;
    let shared = values
        .iter()
        .map(|&value| parts(value, eight_bits).0)
        .max()
        .unwrap_or(0);
    let code = |value: f32| {
        if value == 0.0 {
            return 0;
        }
        let (exponent, mantissa) = parts(value, eight_bits);
        // The leading one is explicit; a shift by 32 and more gives 0.
        let shifted = ((1u32 << 23) | mantissa)
            .checked_shr(shared - exponent)
            .unwrap_or(0);
        let dropped = 24 - mantissa_bits;
        let rounded = (shifted + (1 << (dropped - 1))) >> dropped;
        match rounded.min((1 << mantissa_bits) - 1) {
            0 => 0,
            magnitude => (value.to_bits() >> 31 << mantissa_bits | magnitude) as u8,
        }
    };
    Some((shared as u8, values.map(code)))
}

/// The elements of one block; `None` for another format.
pub fn decode_block(format: DataFormat, shared: u8, codes: &[u8; BLOCK]) -> Option<[f32; BLOCK]> {
    let (mantissa_bits, eight_bits) = block_format(format)?;
    let bias = if eight_bits { 0 } else { 127 - 15 };
    let value = |code: u8| {
        let sign = u32::from(code) >> mantissa_bits & 1;
        let mantissa = u32::from(code) & ((1 << mantissa_bits) - 1);
        if mantissa == 0 {
            return f32::from_bits(sign << 31);
        }
        let shifts = mantissa_bits - (32 - mantissa.leading_zeros());
        let exponent = i32::from(shared) - shifts as i32 + bias;
        // Below the smallest exponent: zero.
        if exponent <= 0 {
            return f32::from_bits(sign << 31);
        }
        let fraction = (mantissa << shifts) & ((1 << (mantissa_bits - 1)) - 1);
        let fraction = fraction << (24 - mantissa_bits);
        f32::from_bits(sign << 31 | (exponent as u32) << 23 | fraction)
    };
    Some(codes.map(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(format: DataFormat, values: &[f32]) -> (u8, Vec<u8>, Vec<f32>) {
        let mut block = [0.0; BLOCK];
        block[..values.len()].copy_from_slice(values);
        let (shared, codes) = encode_block(format, &block).unwrap();
        let back = decode_block(format, shared, &codes).unwrap();
        let n = values.len();
        (shared, codes[..n].to_vec(), back[..n].to_vec())
    }

    #[allow(clippy::approx_constant, reason = "a value of the published vector")]
    #[test]
    fn eight_bits_have_the_published_vectors() {
        let values = [
            100.0, 1.0, -0.5, 0.3, 3.999, -2.71828, 7.0, 2.5, 1.5, -3.5, 64.4,
        ];
        let expected = [100.0, 1.0, -1.0, 0.0, 4.0, -3.0, 7.0, 3.0, 2.0, -4.0, 64.0];
        for (format, exponent) in [(DataFormat::Bfp8B, 133), (DataFormat::Bfp8, 21)] {
            let (shared, codes, back) = round_trip(format, &values);
            assert_eq!(shared, exponent);
            assert_eq!(back, expected);
            assert_eq!((codes[2], codes[5]), (0x81, 0x83));
        }
    }

    #[test]
    fn four_and_two_bits_have_the_published_vectors() {
        let (_, codes, back) = round_trip(DataFormat::Bfp4B, &[100.0, 64.4]);
        assert_eq!((codes, back), (vec![6, 4], vec![96.0, 64.0]));
        let (_, codes, back) = round_trip(DataFormat::Bfp2, &[100.0, 64.4]);
        assert_eq!((codes, back), (vec![1, 1], vec![64.0, 64.0]));
    }

    /// Every code of every exponent without underflow, in a block with one element that has the shared
    /// exponent.
    #[test]
    fn every_code_survives_a_round_trip() {
        use DataFormat::{Bfp2, Bfp2B, Bfp4, Bfp4B, Bfp8, Bfp8B};
        for format in [Bfp8, Bfp8B, Bfp4, Bfp4B, Bfp2, Bfp2B] {
            let (bits, eight_bits) = block_format(format).unwrap();
            let top = 1 << (bits - 1);
            for shared in 8..=if eight_bits { 254 } else { 31 } {
                for code in 0..1u32 << (bits + 1) {
                    // A negative zero is encoded as zero.
                    if code == 1 << bits {
                        continue;
                    }
                    let mut codes = [0u8; BLOCK];
                    (codes[0], codes[1]) = (top, code as u8);
                    let values = decode_block(format, shared, &codes).unwrap();
                    let (exponent, back) = encode_block(format, &values).unwrap();
                    assert_eq!(
                        (exponent, back),
                        (shared, codes),
                        "{format} {shared} {code:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn values_beyond_a_five_bit_exponent_saturate() {
        let (shared, codes, _) = round_trip(DataFormat::Bfp8, &[1e30, 1.0]);
        assert_eq!((shared, codes[0]), (31, 0x7f));
        assert_eq!(codes[1], 0);
    }
}
