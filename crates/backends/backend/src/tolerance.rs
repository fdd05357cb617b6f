//! The numeric tolerance that a backend states for outputs of one element type.

use crate::Backend;
use std::fmt;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// The largest difference of an output of this element type from the exact result: an element is right if it
/// meets one of the two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The element type of the output: a float, complex numbers, or integers of 16 bits or fewer.
    pub dtype: DataType,
    /// The largest difference over the largest magnitude of the output, in 0..1; 0 for integers.
    pub relative: f64,
    /// The largest difference of an element; a whole number for integers.
    pub absolute: f64,
}

impl Tolerance {
    /// Checks the list of a backend: types that have a tolerance, each once, and bounds in their ranges. All problems
    /// are reported together.
    pub fn check(list: &[Tolerance]) -> Result<()> {
        let problem = |(index, one): (usize, &Tolerance)| {
            let error = |rule: &str| {
                let text = format!("the tolerance of {}: {rule}", one.dtype);
                Error::new(ErrorKind::InvalidArgument, text)
            };
            let seen = list[..index].iter().any(|other| other.dtype == one.dtype);
            let is_approximate = one.is_approximate();
            let is_quantised = one.dtype.is_integer() && one.dtype.bits() <= 16;
            let bounds = format!("relative {}, absolute {}", one.relative, one.absolute);
            Some(if seen {
                error("the type is listed twice")
            } else if !is_approximate && !is_quantised {
                error("the type is always compared exactly")
                    .expected("a floating-point type, or integers of 16 bits or fewer")
            } else if !(0.0..1.0).contains(&one.relative)
                || !(0.0..f64::INFINITY).contains(&one.absolute)
            {
                error("a bound is out of range")
                    .expected("relative in 0..1, absolute finite and not negative")
                    .found(bounds)
            } else if is_quantised && (one.relative != 0.0 || one.absolute.fract() != 0.0) {
                error("integers have a whole number of steps")
                    .expected("relative 0, absolute a whole number")
                    .found(bounds)
            } else {
                return None;
            })
        };
        let problems: Vec<Error> = list.iter().enumerate().filter_map(problem).collect();
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// Whether an element may differ by `difference` in an output whose largest magnitude is `largest`.
    pub fn accepts(&self, difference: f64, largest: f64) -> bool {
        difference <= self.absolute || difference <= self.relative * largest
    }

    /// Whether results of the type are rounded: floats and complex numbers.
    fn is_approximate(&self) -> bool {
        self.dtype.is_float() || matches!(self.dtype, DataType::C64 | DataType::C128)
    }
}

impl fmt::Display for Tolerance {
    /// `f16 0.01 relative, 0.001 absolute`, or `i8 1 absolute`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.dtype)?;
        if self.is_approximate() {
            write!(f, "{} relative, ", self.relative)?;
        }
        write!(f, "{} absolute", self.absolute)
    }
}

impl dyn Backend + '_ {
    /// The tolerance that it states for outputs of a type.
    pub fn tolerance(&self, dtype: DataType) -> Option<Tolerance> {
        let mut all = self.tolerances().into_iter();
        all.find(|tolerance| tolerance.dtype == dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(dtype: DataType, relative: f64, absolute: f64) -> Tolerance {
        Tolerance {
            dtype,
            relative,
            absolute,
        }
    }

    #[test]
    fn lists_are_checked() {
        let right = [
            tolerance(DataType::F16, 0.01, 1e-3),
            tolerance(DataType::C64, 0.0, 0.0),
            tolerance(DataType::I8, 0.0, 2.0),
        ];
        Tolerance::check(&right).unwrap();
        assert_eq!(right[0].to_string(), "f16 0.01 relative, 0.001 absolute");
        assert_eq!(right[2].to_string(), "i8 2 absolute");
        for (wrong, text) in [
            (tolerance(DataType::I32, 0.0, 1.0), "compared exactly"),
            (tolerance(DataType::Bool, 0.0, 1.0), "compared exactly"),
            (tolerance(DataType::F32, 1.0, 0.0), "out of range"),
            (tolerance(DataType::F32, f64::NAN, 0.0), "out of range"),
            (tolerance(DataType::F32, 0.0, -1.0), "out of range"),
            (tolerance(DataType::F32, 0.0, f64::INFINITY), "out of range"),
            (tolerance(DataType::I4, 0.1, 1.0), "whole number"),
            (tolerance(DataType::U8, 0.0, 0.5), "whole number"),
            (tolerance(DataType::F16, 0.0, 0.0), "listed twice"),
        ] {
            let error = Tolerance::check(&[right[0], wrong]).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let both = [
            tolerance(DataType::I32, 0.0, 1.0),
            tolerance(DataType::F32, 2.0, 0.0),
        ];
        let text = Tolerance::check(&both).unwrap_err().to_string();
        assert!(text.contains("i32") && text.contains("f32"), "{text}");
    }

    #[test]
    fn an_element_meets_one_of_the_bounds() {
        let f16 = tolerance(DataType::F16, 0.01, 1e-3);
        assert!(f16.accepts(0.05, 10.0) && f16.accepts(1e-3, 0.0));
        assert!(!f16.accepts(0.2, 10.0) && !f16.accepts(f64::NAN, 10.0));
    }
}
