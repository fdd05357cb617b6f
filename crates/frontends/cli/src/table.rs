//! Tables, sizes and times in text.

use std::fmt;
use tenon::files::escape_controls;
pub use tenon_base::{format_bytes as bytes, format_duration as duration};

/// A table whose columns are as wide as their longest cell.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Whether the first column is aligned to the right.
    starts_with_counts: bool,
}

impl Table {
    /// A table with a head, its first row.
    pub fn new(head: &[&str]) -> Self {
        let mut table = Self::default();
        table.row(head.iter().map(|&cell| cell.to_owned()));
        table
    }

    /// A table without a head, whose first column has counts, aligned to the right.
    pub fn of_counts() -> Self {
        Self {
            starts_with_counts: true,
            ..Self::default()
        }
    }

    /// Adds a row. Control characters in cells are escaped, line feeds too.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        let escaped = cells.map(|cell| escape_controls(&cell).into_owned());
        self.rows.push(escaped.collect());
    }

    /// Its lines.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, &width))| {
                if column == 0 && self.starts_with_counts {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                }
            });
            cells.collect::<String>().trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
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
    fn counts_are_aligned_to_the_right() {
        let mut table = Table::of_counts();
        table.row(["10".into(), "x".into()]);
        table.row(["9".into(), "y".into()]);
        assert_eq!(table.lines(), ["10  x", " 9  y"]);
    }
}
