//! Tables, sizes and times in text.

use std::fmt;
use tenon::files::escape_controls;
pub use tenon_base::{format_bytes as bytes, format_duration as duration};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["a", "bb"]);
        table.row(["long".into(), "x".into()]);
        assert_eq!(table.to_string(), "a     bb\nlong  x");
    }
}
