//! The roundings of ONNX's Cast to `f8e8m0fnu`, exponents of scales.

use crate::small_float::E8M0_NAN;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Result};

/// How a value between two powers of two is rounded: the attribute `round_mode` of Cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum E8m0Rounding {
    /// To the greater one.
    Up,
    /// To the smaller one.
    Down,
    /// To the nearer one; ties to the greater one.
    Nearest,
}

impl FromStr for E8m0Rounding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "nearest" => Ok(Self::Nearest),
            _ => Err(
                Error::new(ErrorKind::InvalidArgument, "unknown rounding to f8e8m0fnu")
                    .expected("up, down, nearest")
                    .found(text),
            ),
        }
    }
}

impl E8m0Rounding {
    /// The code of the magnitude of `value`, as ONNX's reference implementation computes it: the exponent of the
    /// binary32, plus one if it is rounded up. Infinity and NaN are NaN; 0 and subnormal values that are not rounded
    /// up are 2^-127. Above 2^127 the result is NaN, or 2^127 if `saturates`.
    pub fn code(self, value: f32, saturates: bool) -> u8 {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 23) as u8, bits & 0x7f_ffff);
        let half = 1 << 22;
        let is_up = match self {
            Self::Up => fraction > 0,
            Self::Down => false,
            Self::Nearest => fraction > half || fraction == half && exponent > 0,
        };
        if exponent == E8M0_NAN || !is_up || saturates && exponent == E8M0_NAN - 1 {
            exponent
        } else {
            exponent + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_between_powers_are_rounded() {
        use E8m0Rounding::{Down, Nearest, Up};
        for (rounding, expected) in [
            (Up, [127, 128, 128, 128]),
            (Down, [127, 127, 127, 127]),
            (Nearest, [127, 127, 128, 128]),
        ] {
            let codes = [1.0, 1.1, 1.5, 1.9].map(|value| rounding.code(value, true));
            assert_eq!(codes, expected, "{rounding:?}");
        }
        let greatest = 2f32.powi(127);
        assert_eq!(Up.code(greatest * 1.1, true), 254);
        assert_eq!(Up.code(greatest * 1.1, false), 255);
        assert_eq!(Up.code(f32::INFINITY, true), 255);
        assert_eq!(Up.code(0.0, true), 0);
        assert!("even".parse::<E8m0Rounding>().is_err());
    }
}
