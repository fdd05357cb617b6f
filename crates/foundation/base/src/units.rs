//! Sizes and times as text, for every command and report.

use std::time::Duration;

/// `1.5 MB`: decimal units, one decimal.
pub fn format_bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// `12.3 ms`: three significant digits in seconds, milliseconds or microseconds.
pub fn format_duration(time: Duration) -> String {
    let (value, unit) = match time.as_secs_f64() {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_units() {
        let cases = [
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_500_000, "1.5 MB"),
            (1 << 30, "1.1 GB"),
        ];
        for (count, expected) in cases {
            assert_eq!(format_bytes(count), expected);
        }
    }

    #[test]
    fn times_have_three_significant_digits() {
        let cases = [
            (2_000_000_000, "2.00 s"),
            (12_345_000, "12.3 ms"),
            (123_456_000, "123 ms"),
            (1_500, "1.50 µs"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), expected);
        }
    }
}
