//! Formatting of floating-point values as by C's `printf`.

use std::fmt;

/// A value as `%e` prints it: six decimals, an exponent of at least two digits.
///
/// ```
/// use tenon_kernels::host::float_format::Scientific;
/// assert_eq!(Scientific(1.0).to_string(), "1.000000e+00");
/// assert_eq!(Scientific(-2.5e-100).to_string(), "-2.500000e-100");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Scientific(pub f64);

/// A value as `%f` prints it: six decimals.
///
/// ```
/// use tenon_kernels::host::float_format::Fixed;
/// assert_eq!(Fixed(1.5).to_string(), "1.500000");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Fixed(pub f64);

impl fmt::Display for Scientific {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return f.write_str(special(self.0));
        }
        let text = format!("{:.6e}", self.0);
        // Rust writes the exponent without a plus and without a leading zero.
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        write!(f, "{mantissa}e{sign}{digits:0>2}")
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return f.write_str(special(self.0));
        }
        write!(f, "{:.6}", self.0)
    }
}

/// The name of an infinity or a NaN.
fn special(number: f64) -> &'static str {
    match (number.is_nan(), number.is_sign_negative()) {
        (true, false) => "nan",
        (true, true) => "-nan",
        (false, false) => "inf",
        (false, true) => "-inf",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with their text by Python's `'%e' % x` and `'%f' % x` (C's rules).
    const PYTHON: &[(f64, &str, &str)] = &[
        (0.0, "0.000000e+00", "0.000000"),
        (-0.0, "-0.000000e+00", "-0.000000"),
        (1.0, "1.000000e+00", "1.000000"),
        (-1.0, "-1.000000e+00", "-1.000000"),
        (0.1, "1.000000e-01", "0.100000"),
        (0.3333333333333333, "3.333333e-01", "0.333333"),
        (0.6666666666666666, "6.666667e-01", "0.666667"),
        (123456.789, "1.234568e+05", "123456.789000"),
        (10000000000.0, "1.000000e+10", "10000000000.000000"),
        (1e-05, "1.000000e-05", "0.000010"),
        (1.0000005, "1.000001e+00", "1.000001"),
        (1.00000050000001, "1.000001e+00", "1.000001"),
        (2.5e-07, "2.500000e-07", "0.000000"),
        (5e-07, "5.000000e-07", "0.000000"),
        (1.5e-06, "1.500000e-06", "0.000002"),
        (2.5e-06, "2.500000e-06", "0.000003"),
        (
            1e+100,
            "1.000000e+100",
            "10000000000000000159028911097599180468360808563945281389781327557747838772170381060813469985856815104.000000",
        ),
        (
            1.7976931348623157e+308,
            "1.797693e+308",
            "179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236903222948165808559332123348274797826204144723168738177180919299881250404026184124858368.000000",
        ),
        (5e-324, "4.940656e-324", "0.000000"),
        (2.2250738585072014e-308, "2.225074e-308", "0.000000"),
        (9.9999995, "9.999999e+00", "9.999999"),
        (9.99999949, "9.999999e+00", "9.999999"),
        (0.00390625, "3.906250e-03", "0.003906"),
        (3.0517578125e-05, "3.051758e-05", "0.000031"),
        (1.00048828125, "1.000488e+00", "1.000488"),
        (
            1.2345678901234568e+17,
            "1.234568e+17",
            "123456789012345680.000000",
        ),
        (16777217.0, "1.677722e+07", "16777217.000000"),
        (0.30000001192092896, "3.000000e-01", "0.300000"),
        (4194304.5, "4.194304e+06", "4194304.500000"),
        (2097152.0625002384, "2.097152e+06", "2097152.062500"),
        (1048576.0000005, "1.048576e+06", "1048576.000000"),
    ];

    #[test]
    fn values_print_as_in_c() {
        for &(number, scientific, fixed) in PYTHON {
            assert_eq!(Scientific(number).to_string(), scientific);
            assert_eq!(Fixed(number).to_string(), fixed);
        }
    }

    #[test]
    fn infinities_and_nans_print_as_names() {
        let all = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
        let expected = ["inf", "-inf", "nan", "-nan"];
        assert_eq!(all.map(|x| Scientific(x).to_string()), expected);
        assert_eq!(all.map(|x| Fixed(x).to_string()), expected);
    }
}
