//! A text with its name and where in a file it begins, and cutting it at `// -----`.

/// The line that separates inputs of one file from each other.
const MARKER: &str = "// -----";

/// MLIR text: what it says, what file it is of, and at which line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// Names the text in messages and locations.
    pub file: &'a str,
    /// The line, from 1, at which the text begins in the file.
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

    /// The inputs between lines `// -----` (`-split-input-file`), each with its place in the file.
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

    fn part(self, range: std::ops::Range<usize>, first_line: u32) -> Self {
        Self {
            text: self.text.get(range).unwrap_or_default(),
            first_line,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_know_their_first_line() {
        let text = "a\nb\n// -----\n// ------\nc\n// -----  \n// -----\nd";
        let parts = Source::new(text, "f.mlir").split();
        let found: Vec<_> = parts.iter().map(|p| (p.first_line, p.text)).collect();
        let expected = [(1, "a\nb\n"), (4, "// ------\nc\n"), (7, ""), (8, "d")];
        assert_eq!(found, expected);
        assert_eq!(Source::new("", "f").split(), [Source::new("", "f")]);
    }
}
