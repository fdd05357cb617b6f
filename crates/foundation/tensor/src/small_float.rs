//! Binary floating-point formats of up to 16 bits: decoding, and encoding with one rounding to
//! nearest, ties to even (IEEE 754; OCP OFP8 for the float8 formats).

/// The special values of a format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Specials {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinities; all ones is NaN.
    Finite,
    /// No infinities and no negative zero; the code of negative zero is the one NaN.
    UnsignedZero,
    /// Neither infinities nor NaN: overflow gives the greatest value, NaN the zero of the other sign, as in
    /// ml_dtypes.
    None,
}

/// A format of sign, exponent and mantissa, at most 16 bits in total.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

impl Format {
    const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> Self {
        Self {
            exponent_bits,
            mantissa_bits,
            bias,
            specials,
        }
    }

    pub const E2M1: Self = Self::new(2, 1, 1, Specials::None);
    pub const F16: Self = Self::new(5, 10, 15, Specials::Ieee);
    pub const BF16: Self = Self::new(8, 7, 127, Specials::Ieee);
    pub const E3M4: Self = Self::new(3, 4, 3, Specials::Ieee);
    pub const E4M3: Self = Self::new(4, 3, 7, Specials::Ieee);
    pub const E4M3_FN: Self = Self::new(4, 3, 7, Specials::Finite);
    pub const E4M3_FNUZ: Self = Self::new(4, 3, 8, Specials::UnsignedZero);
    pub const E5M2: Self = Self::new(5, 2, 15, Specials::Ieee);
    pub const E5M2_FNUZ: Self = Self::new(5, 2, 16, Specials::UnsignedZero);

    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The first code, without sign, that is not finite.
    const fn end_of_finite(self) -> u32 {
        match self.specials {
            Specials::Ieee => ((1 << self.exponent_bits) - 1) << self.mantissa_bits,
            Specials::Finite => self.sign_bit() - 1,
            Specials::UnsignedZero | Specials::None => self.sign_bit(),
        }
    }

    /// The value of an 8-bit code, or of a 4-bit code in the low bits. All exponents of such formats are in the normal range of
    /// binary32.
    pub const fn decode(self, code: u32) -> f32 {
        let negative = code & self.sign_bit() != 0;
        let magnitude = code & (self.sign_bit() - 1);
        if matches!(self.specials, Specials::UnsignedZero) && negative && magnitude == 0 {
            return f32::NAN;
        }
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if magnitude >= self.end_of_finite() {
            let infinite = matches!(self.specials, Specials::Ieee) && mantissa == 0;
            if infinite { f32::INFINITY } else { f32::NAN }
        } else {
            let exponent = (magnitude >> self.mantissa_bits) as i32;
            let (significand, exponent) = if exponent == 0 {
                (mantissa, 1 - self.bias)
            } else {
                (mantissa | 1 << self.mantissa_bits, exponent - self.bias)
            };
            significand as f32 * power_of_two(exponent - self.mantissa_bits as i32)
        };
        if negative { -value } else { value }
    }

    /// The values of all 8-bit codes.
    pub const fn table(self) -> [f32; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            table[code] = self.decode(code as u32);
            code += 1;
        }
        table
    }

    /// The code nearest to `value`, ties to even; overflow gives infinity, or NaN in a format
    /// without infinities.
    pub fn encode(self, value: f64) -> u32 {
        let sign = if value.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        if value.is_nan() {
            return self.nan(sign);
        }
        let magnitude = value.abs();
        // At least the exponent of the smallest normal value: below it, the spacing of values is
        // constant. The exponent of a subnormal binary64 is far below.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias);
        if exponent > 1 << self.exponent_bits {
            return self.overflow(sign);
        }
        let scale = f64::from_bits(((1023 + self.mantissa_bits as i32 - exponent) as u64) << 52);
        let significand = (magnitude * scale).round_ties_even() as u32;
        // The implicit bit adds one to the exponent, and so does a carry out of the mantissa.
        let code = (((exponent + self.bias - 1) as u32) << self.mantissa_bits) + significand;
        if code >= self.end_of_finite() {
            return self.overflow(sign);
        }
        if code == 0 && self.specials == Specials::UnsignedZero {
            0
        } else {
            sign | code
        }
    }

    fn overflow(self, sign: u32) -> u32 {
        match self.specials {
            Specials::Ieee => sign | self.end_of_finite(),
            Specials::None => sign | (self.end_of_finite() - 1),
            _ => self.nan(sign),
        }
    }

    fn nan(self, sign: u32) -> u32 {
        match self.specials {
            Specials::Ieee => sign | self.end_of_finite() | 1 << (self.mantissa_bits - 1),
            Specials::Finite => sign | self.end_of_finite(),
            Specials::UnsignedZero => self.sign_bit(),
            Specials::None => sign ^ self.sign_bit(),
        }
    }
}

/// The values of all codes of E8M0, an exponent without sign and mantissa (OCP Microscaling Formats).
pub(crate) const fn e8m0_table() -> [f32; 256] {
    let mut table = [f32::NAN; 256];
    // The smallest value is a subnormal binary32.
    table[0] = f32::from_bits(1 << 22);
    let mut code = 1;
    while code < 255 {
        table[code] = power_of_two(code as i32 - 127);
        code += 1;
    }
    table
}

/// The E8M0 code nearest to `value`; ties go up, which makes the significand even. Overflow, zero and negative values
/// give NaN.
pub(crate) fn e8m0_code(value: f64) -> u8 {
    let is_positive = value > 0.0;
    if !is_positive {
        return E8M0_NAN;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let code = exponent + 127 + (bits >> 51 & 1) as i32;
    if exponent < -127 {
        0
    } else {
        u8::try_from(code).unwrap_or(E8M0_NAN)
    }
}

/// The one code of E8M0 that is NaN.
pub(crate) const E8M0_NAN: u8 = 0xff;

/// 2 to the power of `exponent`, in the normal range of binary32.
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_follows_the_definitions() {
        assert_eq!(Format::E4M3_FN.decode(0x7e), 448.0);
        assert!(Format::E4M3_FN.decode(0x7f).is_nan());
        assert_eq!(Format::E4M3_FN.decode(0x01), 2f32.powi(-9));
        assert_eq!(Format::E4M3.decode(0x77), 240.0);
        assert_eq!(Format::E4M3.decode(0x78), f32::INFINITY);
        assert_eq!(Format::E4M3_FNUZ.decode(0x7f), 240.0);
        assert!(Format::E4M3_FNUZ.decode(0x80).is_nan());
        assert_eq!(Format::E5M2.decode(0x7b), 57344.0);
        assert_eq!(Format::E5M2.decode(0xfc), f32::NEG_INFINITY);
        assert_eq!(Format::E5M2_FNUZ.decode(0x7f), 57344.0);
        assert_eq!(Format::E3M4.decode(0x6f), 15.5);
        assert_eq!(Format::E3M4.decode(0x01), 2f32.powi(-6));
        assert_eq!(Format::E5M2.decode(0x01), 2f32.powi(-16));
    }

    #[test]
    fn encoding_follows_the_definitions() {
        // 464 is halfway between 448 and 480, whose code is NaN; ties go to even, 448.
        assert_eq!(Format::E4M3_FN.encode(464.0), 0x7e);
        assert_eq!(Format::E4M3_FN.encode(464.1), 0x7f);
        assert_eq!(Format::E4M3_FN.encode(f64::NEG_INFINITY), 0xff);
        assert_eq!(Format::E4M3.encode(1e300), 0x78);
        assert_eq!(Format::E5M2_FNUZ.encode(1e9), 0x80);
        assert_eq!(Format::E4M3_FNUZ.encode(-0.0), 0x00);
        assert_eq!(Format::E4M3_FNUZ.encode(-1e-9), 0x00);
        assert_eq!(Format::E5M2.encode(-1e-300), 0x80);
        assert_eq!(Format::F16.encode(65519.9), 0x7bff);
        assert_eq!(Format::F16.encode(65520.0), 0x7c00);
        // Via binary32 the value would be rounded twice, to 0x3c02.
        assert_eq!(Format::F16.encode(1.0 + 1.5 / 1024.0 - 1e-12), 0x3c01);
    }

    #[test]
    fn e2m1_saturates() {
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, &value) in values.iter().enumerate() {
            assert_eq!(f64::from(Format::E2M1.decode(code as u32)), value);
            assert_eq!(Format::E2M1.encode(value), code as u32);
            assert_eq!(Format::E2M1.encode(-value), code as u32 | 8);
        }
        assert_eq!(Format::E2M1.encode(5.0), 6);
        assert_eq!(Format::E2M1.encode(f64::INFINITY), 7);
        assert_eq!(Format::E2M1.encode(-1e300), 15);
        let nan = f64::NAN.copysign(1.0);
        assert_eq!([nan, -nan].map(|nan| Format::E2M1.encode(nan)), [8, 0]);
    }

    #[test]
    fn e8m0_codes_are_exponents() {
        for (code, &value) in e8m0_table().iter().enumerate() {
            let exact = if code == 255 {
                f64::NAN
            } else {
                2f64.powi(code as i32 - 127)
            };
            assert!(f64::from(value) == exact || value.is_nan() && exact.is_nan());
            assert_eq!(usize::from(e8m0_code(value.into())), code);
        }
        assert_eq!(e8m0_code(1.4999), 127);
        assert_eq!(e8m0_code(1.5), 128);
        assert_eq!(e8m0_code(2f64.powi(127) * 1.49), 254);
        assert_eq!(e8m0_code(2f64.powi(-127) * 1.49), 0);
        assert_eq!(e8m0_code(1e-300), 0);
        for value in [
            2f64.powi(127) * 1.5,
            f64::INFINITY,
            f64::NAN,
            0.0,
            -0.0,
            -1.0,
        ] {
            assert_eq!(e8m0_code(value), E8M0_NAN);
        }
    }

    #[test]
    fn codes_round_trip() {
        for format in [
            Format::E3M4,
            Format::E4M3,
            Format::E4M3_FN,
            Format::E4M3_FNUZ,
            Format::E5M2,
            Format::E5M2_FNUZ,
        ] {
            for code in 0..256 {
                let value = format.decode(code);
                if value.is_nan() {
                    assert!(format.decode(format.encode(value.into())).is_nan());
                } else {
                    assert_eq!(format.encode(value.into()), code);
                }
            }
        }
        for code in 0..=u16::MAX {
            let value = half::f16::from_bits(code).to_f64();
            assert!(value.is_nan() || Format::F16.encode(value) == u32::from(code));
            let value = half::bf16::from_bits(code).to_f64();
            assert!(value.is_nan() || Format::BF16.encode(value) == u32::from(code));
        }
    }
}
