//! Values of plain scalars, in the core schema of YAML 1.2.

/// An integer: decimal, `0x` or `0o`, with a sign.
pub(crate) fn parse_integer(text: &str) -> Option<i64> {
    let (sign, digits, radix) = integer_parts(text);
    if digits.starts_with(['+', '-']) {
        return None;
    }
    Some(sign * i64::from_str_radix(digits, radix).ok()?)
}

/// Whether a text is an integer of any size.
pub(crate) fn is_integer(text: &str) -> bool {
    let (_, digits, radix) = integer_parts(text);
    !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
}

/// Sign, digits and radix of an integer.
fn integer_parts(text: &str) -> (i64, &str, u32) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let radixes = [("0x", 16), ("0X", 16), ("0o", 8)];
    let prefixed = radixes
        .iter()
        .find_map(|&(prefix, radix)| Some((digits.strip_prefix(prefix)?, radix)));
    let (digits, radix) = prefixed.unwrap_or((digits, 10));
    (sign, digits, radix)
}

/// A number: an integer, a decimal fraction with or without an exponent, `.inf` with a sign, `.nan`.
pub(crate) fn parse_number(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" if text.starts_with('-') => Some(f64::NEG_INFINITY),
        ".inf" | ".Inf" | ".INF" => Some(f64::INFINITY),
        _ if [".nan", ".NaN", ".NAN"].contains(&text) => Some(f64::NAN),
        _ => {
            let number = text.parse().ok();
            number.or_else(|| parse_integer(text).map(|value| value as f64))
        }
    }
}

/// The text that [`parse_number`] parses to the same number.
pub(crate) fn number_text(number: impl Into<f64> + Copy + std::fmt::Debug) -> String {
    match number.into() {
        f64::INFINITY => ".inf".to_owned(),
        f64::NEG_INFINITY => "-.inf".to_owned(),
        wide if wide.is_nan() => ".nan".to_owned(),
        _ => format!("{number:?}"),
    }
}

/// A boolean of YAML 1.1, in any letter case.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(&["true", "yes", "on", "1"]) {
        Some(true)
    } else if is(&["false", "no", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_decimal_hexadecimal_or_octal() {
        assert_eq!(parse_integer("0x30000000"), Some(0x3000_0000));
        assert_eq!(parse_integer("-12"), Some(-12));
        assert_eq!(parse_integer("0o17"), Some(15));
        for text in [
            "0x-1",
            "--1",
            "+-1",
            "1.5",
            "",
            "0o8",
            "99999999999999999999",
        ] {
            assert_eq!(parse_integer(text), None, "{text}");
        }
        assert!(is_integer("-99999999999999999999") && is_integer("0xffffffffffffffffff"));
        assert!(!is_integer("0x") && !is_integer("1.5") && !is_integer("f"));
    }

    #[test]
    fn a_number_has_the_forms_of_yaml() {
        let cases = [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            (".5", 0.5),
            ("2.", 2.0),
            ("0x10", 16.0),
            ("0o10", 8.0),
            (".inf", f64::INFINITY),
            ("+.Inf", f64::INFINITY),
            ("-.INF", f64::NEG_INFINITY),
        ];
        for (text, number) in cases {
            assert_eq!(parse_number(text), Some(number), "{text}");
            assert_eq!(parse_number(&number_text(number)), Some(number), "{text}");
        }
        assert!(parse_number(".NaN").unwrap().is_nan());
        assert!(parse_number(&number_text(f64::NAN)).unwrap().is_nan());
        for text in ["", ".", "-.nan", "..inf", "one", "1,5"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }
}
