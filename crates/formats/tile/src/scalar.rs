//! Scalar formats: one element, one code (netlist 5.1).

use crate::words::DataFormat;

/// A float of `EXPONENT` and `MANTISSA` bits without infinity and NaN: the largest exponent is that of
/// finite values.
struct SmallFloat<const EXPONENT: u32, const MANTISSA: u32>;

impl<const EXPONENT: u32, const MANTISSA: u32> SmallFloat<EXPONENT, MANTISSA> {
    const BIAS: i32 = (1 << (EXPONENT - 1)) - 1;
    const TOP: i32 = (1 << EXPONENT) - 1;

    /// Truncates the mantissa; flushes small values to zero, saturates large ones.
    fn encode(bits: u32) -> u32 {
        let sign = bits >> 31 << (EXPONENT + MANTISSA);
        let exponent = ((bits >> 23) & 0xff) as i32 - 127 + Self::BIAS;
        let largest = (Self::TOP as u32) << MANTISSA | ((1 << MANTISSA) - 1);
        sign | match exponent {
            i32::MIN..=0 => 0,
            _ if exponent > Self::TOP => largest,
            _ => (exponent as u32) << MANTISSA | (bits & 0x7f_ffff) >> (23 - MANTISSA),
        }
    }

    fn decode(code: u32) -> u32 {
        let sign = (code >> (EXPONENT + MANTISSA)) << 31;
        let mantissa = (code & ((1 << MANTISSA) - 1)) << (23 - MANTISSA);
        let exponent = match (code >> MANTISSA) as i32 & Self::TOP {
            0 => 0,
            exponent => exponent - Self::BIAS + 127,
        };
        sign | (exponent as u32) << 23 | mantissa
    }
}

type Float16 = SmallFloat<5, 10>;
type Lf8 = SmallFloat<5, 2>;
type Fp8E4m3 = SmallFloat<4, 3>;

/// Sign and magnitude in `bits` bits.
fn sign_magnitude(negative: bool, magnitude: u32, bits: u32) -> u32 {
    u32::from(negative) << (bits - 1) | magnitude
}

/// The code of an element; `None` for a block format.
///
/// A raw format has the low bits of the f32: raw data are passed as the bits of floats.
pub fn encode_scalar(format: DataFormat, value: f32) -> Option<u32> {
    let bits = value.to_bits();
    // `round` rounds halves away from zero, as the formats do; NaN becomes 0.
    let rounded = value.round();
    Some(match format {
        DataFormat::Float32 | DataFormat::RawUInt32 => bits,
        DataFormat::Float16 => Float16::encode(bits),
        DataFormat::Float16B => bits >> 16,
        DataFormat::Lf8 => Lf8::encode(bits),
        // The original packs this format as Lf8, but unpacks it as Fp8_e4m3; here both are Fp8_e4m3
        // (netlist 5.1).
        DataFormat::Fp8E4m3 => Fp8E4m3::encode(bits),
        DataFormat::Int8 => {
            let magnitude = rounded.abs().clamp(0.0, 127.0) as u32;
            sign_magnitude(rounded < 0.0, magnitude, 8)
        }
        DataFormat::UInt8 => rounded.clamp(0.0, 255.0) as u32,
        DataFormat::UInt16 => rounded.clamp(0.0, 65535.0) as u32,
        // Nonnegative values are truncated, negative ones rounded (netlist 5.1).
        DataFormat::Int32 if value < 0.0 => {
            let magnitude = (rounded.abs() as u32).min(i32::MAX as u32);
            sign_magnitude(magnitude > 0, magnitude, 32)
        }
        DataFormat::Int32 => (value as u32).min(i32::MAX as u32),
        DataFormat::RawUInt16 => bits & 0xffff,
        DataFormat::RawUInt8 => bits & 0xff,
        DataFormat::Bfp8
        | DataFormat::Bfp8B
        | DataFormat::Bfp4
        | DataFormat::Bfp4B
        | DataFormat::Bfp2
        | DataFormat::Bfp2B => return None,
    })
}

/// The element of a code; `None` for a block format.
pub fn decode_scalar(format: DataFormat, code: u32) -> Option<f32> {
    let signed = |bits: u32| {
        let magnitude = (code & ((1 << (bits - 1)) - 1)) as f32;
        if code >> (bits - 1) & 1 == 1 {
            -magnitude
        } else {
            magnitude
        }
    };
    Some(match format {
        DataFormat::Float32
        | DataFormat::RawUInt32
        | DataFormat::RawUInt16
        | DataFormat::RawUInt8 => f32::from_bits(code),
        DataFormat::Float16 => f32::from_bits(Float16::decode(code)),
        DataFormat::Float16B => f32::from_bits(code << 16),
        DataFormat::Lf8 => f32::from_bits(Lf8::decode(code)),
        DataFormat::Fp8E4m3 => f32::from_bits(Fp8E4m3::decode(code)),
        DataFormat::Int8 => signed(8),
        DataFormat::Int32 => signed(32),
        DataFormat::UInt8 | DataFormat::UInt16 => code as f32,
        DataFormat::Bfp8
        | DataFormat::Bfp8B
        | DataFormat::Bfp4
        | DataFormat::Bfp4B
        | DataFormat::Bfp2
        | DataFormat::Bfp2B => return None,
    })
}

/// Truncates the mantissa to 10 bits (TF32), as the math unit of wormhole reads Float32.
pub fn truncate_to_tf32(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0xffff_e000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float16_has_the_published_vectors() {
        let vectors = [
            (1.0, 0x3c00),
            (-2.5, 0xc100),
            (65504.0, 0x7bff),
            (70000.0, 0x7c45),
            (131072.0, 0x7fff),
            (6.2e-5, 0x0410),
            (3e-5, 0x0000),
            (0.1, 0x2e66),
        ];
        for (value, code) in vectors {
            assert_eq!(
                encode_scalar(DataFormat::Float16, value),
                Some(code),
                "{value}"
            );
        }
        assert_eq!(decode_scalar(DataFormat::Float16, 0x7fff), Some(131008.0));
    }

    /// Every code decodes to the value of its fields, and survives a round trip.
    #[test]
    fn every_code_of_a_small_float_survives_a_round_trip() {
        let all = |format, bits: u32, exponent: u32, mantissa: u32, bias: i32| {
            for code in 0..1u32 << bits {
                let field = (code >> mantissa & ((1 << exponent) - 1)) as i32;
                if field == 0 {
                    continue;
                }
                let fraction = f64::from(code & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
                let sign = if code >> (bits - 1) == 1 { -1.0 } else { 1.0 };
                let value = sign * (1.0 + fraction) * 2f64.powi(field - bias);
                assert_eq!(
                    decode_scalar(format, code),
                    Some(value as f32),
                    "{format} {code:#x}"
                );
                assert_eq!(
                    encode_scalar(format, value as f32),
                    Some(code),
                    "{format} {code:#x}"
                );
            }
        };
        all(DataFormat::Float16, 16, 5, 10, 15);
        all(DataFormat::Lf8, 8, 5, 2, 15);
        all(DataFormat::Fp8E4m3, 8, 4, 3, 7);
    }

    #[test]
    fn integers_round_and_clamp() {
        let int8 = |value| encode_scalar(DataFormat::Int8, value);
        assert_eq!(int8(2.5), Some(3));
        assert_eq!(int8(-2.5), Some(0x83));
        assert_eq!(int8(300.0), Some(0x7f));
        assert_eq!(int8(-300.0), Some(0xff));
        assert_eq!(decode_scalar(DataFormat::Int8, 0x83), Some(-3.0));
        assert_eq!(encode_scalar(DataFormat::UInt8, -1.0), Some(0));
        assert_eq!(encode_scalar(DataFormat::UInt16, 1e9), Some(65535));
        assert_eq!(encode_scalar(DataFormat::Int32, 2.9), Some(2));
        assert_eq!(encode_scalar(DataFormat::Int32, -2.9), Some(0x8000_0003));
        assert_eq!(encode_scalar(DataFormat::Int32, -1e12), Some(0xffff_ffff));
        assert_eq!(encode_scalar(DataFormat::Int8, f32::NAN), Some(0));
    }

    #[test]
    fn bfloat16_and_raw_formats_truncate() {
        assert_eq!(
            encode_scalar(DataFormat::Float16B, f32::from_bits(0x3f80_ffff)),
            Some(0x3f80)
        );
        assert_eq!(
            encode_scalar(DataFormat::RawUInt16, f32::from_bits(0x1234_5678)),
            Some(0x5678)
        );
        assert_eq!(
            decode_scalar(DataFormat::RawUInt8, 0xff).map(f32::to_bits),
            Some(0xff)
        );
        assert_eq!(
            truncate_to_tf32(f32::from_bits(0x3f80_3fff)).to_bits(),
            0x3f80_2000
        );
    }
}
