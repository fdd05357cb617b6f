//! Sizes and times in text.

/// `1.5 MB`: decimal units, one digit.
pub(crate) fn bytes(count: u64) -> String {
    match count as f64 {
        count if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        count if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        count if count >= 1e3 => format!("{:.1} kB", count / 1e3),
        count => format!("{count} B"),
    }
}

/// `12.34 ms`: two digits in the unit that suits; seconds are given.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal() {
        let cases = [
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1 << 30, "1.1 GB"),
            (64 << 30, "68.7 GB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
        assert_eq!(
            [2.0, 0.0123, 1.5e-6].map(duration),
            ["2.00 s", "12.30 ms", "1.5 µs"]
        );
    }
}
