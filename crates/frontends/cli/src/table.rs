//! Tables, sizes and times in text.

use std::fmt;
use std::time::Duration;
use tenon::files::escape_controls;

/// A table whose columns are as wide as their longest cell; the first row is the head.
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&cell| cell.to_owned()).collect()])
    }

    /// Adds a row. Control characters in cells are escaped, line feeds too.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        let escaped = cells.map(|cell| escape_controls(&cell).into_owned());
        self.0.push(escaped.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| {
            self.0
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<_> = (0..columns)
            .map(|column| width(column).unwrap_or(0))
            .collect();
        for (index, row) in self.0.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
            }
            let end = if index + 1 < self.0.len() { "\n" } else { "" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `1.5 MB`: decimal units, one digit.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// `12.3 ms`: three digits in the unit that suits.
pub fn duration(time: Duration) -> String {
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
    fn columns_line_up() {
        let mut table = Table::new(&["a", "bb"]);
        table.row(["long".into(), "x".into()]);
        assert_eq!(table.to_string(), "a     bb\nlong  x");
    }

    #[test]
    fn units_suit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500_000), "1.5 MB");
        assert_eq!(duration(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(duration(Duration::from_nanos(1_500)), "1.50 µs");
    }
}
