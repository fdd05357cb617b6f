//! The text of a netlist, and source spans.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// A range of bytes of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
}

/// A value with its source span. Equality ignores the span.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its source span.
    pub span: Span,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Spanned<T> {
    /// A value read at `span`.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// Another value with the same span.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned::new(convert(self.value), self.span)
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The text of a netlist and its path.
#[derive(Debug, Clone, Default)]
pub struct Source {
    path: PathBuf,
    text: String,
    /// The byte at which each line starts.
    lines: Vec<u32>,
}

impl Source {
    /// The text of the file at `path`, which is used in messages only. A [`Span`] addresses at most
    /// 4 GiB: callers limit the size of files.
    pub fn new(path: impl AsRef<Path>, text: impl Into<String>) -> Self {
        let text = text.into();
        let starts = text.match_indices('\n').map(|(at, _)| at as u32 + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self {
            path: path.as_ref().to_owned(),
            text,
            lines,
        }
    }

    /// The path, as specified by the user.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub fn line_column(&self, byte: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|&start| start <= byte).max(1) - 1;
        let start = self.lines[line] as usize;
        let before = self.text.get(start..byte as usize).unwrap_or_default();
        (line as u32 + 1, before.chars().count() as u32 + 1)
    }

    /// A line without its end; `line` from 1.
    pub fn line(&self, line: u32) -> &str {
        let index = line.saturating_sub(1) as usize;
        let Some(&start) = self.lines.get(index) else {
            return "";
        };
        let end = self
            .lines
            .get(index + 1)
            .map_or(self.text.len(), |&next| next as usize);
        let text = self.text.get(start as usize..end).unwrap_or_default();
        text.trim_end_matches(['\n', '\r'])
    }

    /// The text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or_default()
    }
}

impl Span {
    /// The byte range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// An empty span at its first byte: a position without extent.
    pub fn first(self) -> Span {
        Span {
            start: self.start,
            end: self.start,
        }
    }

    /// The smallest span that covers this one and `other`.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("a.yaml", "ab\nü: x\r\nlast");
        assert_eq!(source.line_column(0), (1, 1));
        assert_eq!(source.line_column(3), (2, 1));
        assert_eq!(source.line_column(7), (2, 4));
        assert_eq!(source.line(2), "ü: x");
        assert_eq!(source.line(3), "last");
        assert_eq!(source.line(9), "");
    }
}
