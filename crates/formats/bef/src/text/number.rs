//! Number literals of MLIR text.

use crate::syntax::Cursor;
use crate::{Attribute, DType};
use std::fmt::LowerExp;
use std::ops::Neg;
use std::str::FromStr;
use tenon_base::{Result, round_to_odd};

/// The text of a number without its type, the bits of a float that is not finite; `None` when
/// `attribute` is no number.
pub(crate) fn print_number(attribute: &Attribute) -> Option<String> {
    Some(match attribute {
        Attribute::I1(value) => value.to_string(),
        Attribute::F32(value) if value.is_finite() => print_finite(*value),
        Attribute::F32(value) => format!("0x{:08X}", value.to_bits()),
        Attribute::F64(value) if value.is_finite() => print_finite(*value),
        Attribute::F64(value) => format!("0x{:016X}", value.to_bits()),
        Attribute::F16(bits) => print_half(*bits, half::f16::from_bits(*bits).to_f32()),
        Attribute::BF16(bits) => print_half(*bits, half::bf16::from_bits(*bits).to_f32()),
        Attribute::UI64(value) => value.to_string(),
        other => {
            other.number_type()?;
            other.as_i64()?.to_string()
        }
    })
}

/// The digits of a finite float: six if exact, else as many as needed.
fn print_finite<T: LowerExp + FromStr + PartialEq>(value: T) -> String {
    let six = format!("{value:.6e}");
    let exact = six.parse::<T>().is_ok_and(|back| back == value);
    c_style(if exact { six } else { format!("{value:e}") })
}

/// A 16-bit float by its exact value, which has few digits or is restored by rounding.
fn print_half(bits: u16, value: f32) -> String {
    if value.is_finite() {
        print_finite(value)
    } else {
        format!("0x{bits:04X}")
    }
}

/// `1.5e1` as `1.5e+01`.
fn c_style(text: String) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}{point}e{exponent:+03}")
}

/// A number literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Literal<'a> {
    pub(crate) negative: bool,
    /// Digits without the sign.
    pub(crate) digits: &'a str,
}

impl Literal<'_> {
    pub(crate) fn is_float(self) -> bool {
        !self.is_hex() && self.digits.contains(['.', 'e', 'E'])
    }

    fn is_hex(self) -> bool {
        self.digits.starts_with("0x")
    }

    fn integer(self) -> Option<i128> {
        let value = match self.digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok()?,
            None => self.digits.parse().ok()?,
        };
        Some(if self.negative { -value } else { value })
    }

    fn float<T: FromStr + Neg<Output = T>>(self) -> Option<T> {
        let value: T = self.digits.parse().ok()?;
        Some(if self.negative { -value } else { value })
    }

    /// The number as an attribute of type `dtype`; `None` if out of range. A hexadecimal literal
    /// gives the bits of a float.
    pub(crate) fn typed(self, dtype: DType) -> Option<Attribute> {
        match dtype {
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 => self.typed_float(dtype),
            _ => self.typed_integer(dtype),
        }
    }

    fn typed_float(self, dtype: DType) -> Option<Attribute> {
        if self.is_hex() {
            let bits = u64::try_from(self.integer()?).ok()?;
            return Some(match dtype {
                DType::F32 => Attribute::F32(f32::from_bits(u32::try_from(bits).ok()?)),
                DType::F16 => Attribute::F16(u16::try_from(bits).ok()?),
                DType::BF16 => Attribute::BF16(u16::try_from(bits).ok()?),
                _ => Attribute::F64(f64::from_bits(bits)),
            });
        }
        let finite: f64 = self.float()?;
        Some(match dtype {
            DType::F32 => Attribute::F32(self.float()?),
            DType::F16 => Attribute::F16(half::f16::from_f32(round_to_odd(finite)).to_bits()),
            DType::BF16 => Attribute::BF16(half::bf16::from_f32(round_to_odd(finite)).to_bits()),
            _ => Attribute::F64(finite),
        })
    }

    /// A signless type accepts the signed and the unsigned range, as in MLIR.
    fn typed_integer(self, dtype: DType) -> Option<Attribute> {
        if self.is_float() {
            return None;
        }
        let value = self.integer()?;
        let fits = |low: i128, high: i128| (low..=high).contains(&value).then_some(());
        let signless = |bits: u32| fits(-(1 << (bits - 1)), (1 << bits) - 1);
        Some(match dtype {
            DType::I1 => {
                fits(-1, 1)?;
                Attribute::I1(value != 0)
            }
            DType::I8 => signless(8).map(|()| Attribute::I8(value as i8))?,
            DType::I16 => signless(16).map(|()| Attribute::I16(value as i16))?,
            DType::I32 => signless(32).map(|()| Attribute::I32(value as i32))?,
            DType::I64 => signless(64).map(|()| Attribute::I64(value as i64))?,
            DType::UI8 => Attribute::UI8(value.try_into().ok()?),
            DType::UI16 => Attribute::UI16(value.try_into().ok()?),
            DType::UI32 => Attribute::UI32(value.try_into().ok()?),
            DType::UI64 => Attribute::UI64(value.try_into().ok()?),
            _ => return None,
        })
    }
}

/// A number literal without its type.
pub(crate) fn literal<'a>(cursor: &mut Cursor<'a>) -> Result<Literal<'a>> {
    cursor.skip();
    let start = *cursor;
    let negative = cursor.eat("-");
    let at = cursor.position();
    if !cursor.rest().starts_with(|c: char| c.is_ascii_digit()) {
        return Err(start.error("expected a number"));
    }
    if cursor.rest().starts_with("0x") {
        cursor.eat("0x");
        cursor.take_while(|c| c.is_ascii_hexdigit());
        return Ok(Literal {
            negative,
            digits: cursor.since(at),
        });
    }
    cursor.take_while(|c| c.is_ascii_digit());
    if cursor.rest().starts_with('.') {
        cursor.eat(".");
        cursor.take_while(|c| c.is_ascii_digit());
        let mut ahead = *cursor;
        if ahead.rest().starts_with(['e', 'E']) {
            ahead.take_while(|c| matches!(c, 'e' | 'E'));
            ahead.take_while(|c| matches!(c, '+' | '-'));
            if !ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
                *cursor = ahead;
            }
        }
    }
    Ok(Literal {
        negative,
        digits: cursor.since(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Literal<'_> {
        let digits = text.trim_start_matches('-');
        Literal {
            negative: digits.len() < text.len(),
            digits,
        }
    }

    #[test]
    fn floats_have_six_digits_if_exact() {
        assert_eq!(print_number(&1.0f32.into()).unwrap(), "1.000000e+00");
        assert_eq!(print_number(&(-0.5f64).into()).unwrap(), "-5.000000e-01");
        assert_eq!(print_number(&0.1234567f32.into()).unwrap(), "1.234567e-01");
        assert_eq!(
            print_number(&f64::MIN_POSITIVE.into()).unwrap(),
            "2.2250738585072014e-308"
        );
        assert_eq!(print_number(&1e300f64.into()).unwrap(), "1.000000e+300");
        assert_eq!(print_number(&f32::INFINITY.into()).unwrap(), "0x7F800000");
        assert_eq!(
            print_number(&Attribute::BF16(0x3F80)).unwrap(),
            "1.000000e+00"
        );
        assert_eq!(
            print_number(&u64::MAX.into()).unwrap(),
            "18446744073709551615"
        );
    }

    #[test]
    fn every_half_round_trips() {
        for bits in 0..=u16::MAX {
            for half in [Attribute::F16(bits), Attribute::BF16(bits)] {
                let text = print_number(&half).unwrap();
                let back = literal(&text).typed(half.number_type().unwrap());
                assert_eq!(back, Some(half), "{text}");
            }
        }
    }

    #[test]
    fn integers_out_of_range_are_refused() {
        assert_eq!(literal("255").typed(DType::I8), Some(Attribute::I8(-1)));
        assert_eq!(literal("256").typed(DType::I8), None);
        assert_eq!(literal("-1").typed(DType::UI8), None);
        assert_eq!(literal("1").typed(DType::I1), Some(Attribute::I1(true)));
        assert_eq!(literal("1.0").typed(DType::I32), None);
        assert_eq!(literal("0xFF").typed(DType::I32), Some(Attribute::I32(255)));
    }
}
