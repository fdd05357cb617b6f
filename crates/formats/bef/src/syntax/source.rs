//! Source texts: file name, first line, and splitting at `// -----`.

/// The line that separates the inputs of one file (`-split-input-file`).
const MARKER: &str = "// -----";

/// Maximum number of characters of a source line in messages.
const MAX_SHOWN: usize = 120;

/// MLIR text with the name of its file and its first line there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// Name of the file in messages and locations.
    pub file: &'a str,
    /// Line of the file, from 1, at which the text begins.
    pub first_line: u32,
}

impl<'a> Source<'a> {
    /// A whole file.
    pub fn new(text: &'a str, file: &'a str) -> Self {
        Self {
            text,
            file,
            first_line: 1,
        }
    }

    /// The inputs between lines `// -----` (`-split-input-file`), each with its first line in the
    /// file.
    pub fn split(self) -> Vec<Source<'a>> {
        let mut parts = Vec::new();
        let (mut start, mut position, mut first_line) = (0, 0, self.first_line);
        for (line, number) in self.text.split_inclusive('\n').zip(self.first_line..) {
            position += line.len();
            if line.trim_end() == MARKER {
                parts.push(self.part(start..position - line.len(), first_line));
                (start, first_line) = (position, number.saturating_add(1));
            }
        }
        parts.push(self.part(start..self.text.len(), first_line));
        parts
    }

    /// Line `line` of the file (from 1), and a caret under the column.
    pub fn snippet(self, line: u32, column: u32) -> Option<String> {
        let line = line.checked_sub(self.first_line)? as usize;
        let line = self.text.lines().nth(line)?;
        // The column may be untrusted: it is read from a file.
        let column = (column.saturating_sub(1) as usize).min(line.len());
        let (line, caret) = excerpt(line, column);
        Some(format!("{line}\n{:caret$}^", ""))
    }

    fn part(self, range: std::ops::Range<usize>, first_line: u32) -> Self {
        Self {
            text: self.text.get(range).unwrap_or_default(),
            first_line,
            ..self
        }
    }
}

/// The displayed part of a source line around `column`, and the offset of the caret.
pub(super) fn excerpt(line: &str, column: usize) -> (String, usize) {
    let column = line
        .get(..column)
        .map_or(column, |before| before.chars().count());
    let from = column.saturating_sub(MAX_SHOWN / 2);
    let from = if line.chars().count() <= MAX_SHOWN {
        0
    } else {
        from
    };
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    (
        line.chars()
            .skip(from)
            .take(MAX_SHOWN)
            .map(visible)
            .collect(),
        column - from,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_has_a_caret() {
        let part = Source::new("a\n// -----\nbcd\ne", "f").split()[1];
        assert_eq!(part.snippet(3, 2).as_deref(), Some("bcd\n ^"));
        assert_eq!(part.snippet(3, u32::MAX).as_deref(), Some("bcd\n   ^"));
        assert_eq!((part.snippet(2, 1), part.snippet(9, 1)), (None, None));
    }

    #[test]
    fn parts_have_their_first_line() {
        let text = "a\nb\n// -----\n// ------\nc\n// -----  \n// -----\nd";
        let parts = Source::new(text, "f.mlir").split();
        let found: Vec<_> = parts.iter().map(|p| (p.first_line, p.text)).collect();
        let expected = [(1, "a\nb\n"), (4, "// ------\nc\n"), (7, ""), (8, "d")];
        assert_eq!(found, expected);
        assert_eq!(Source::new("", "f").split(), [Source::new("", "f")]);
    }
}
