//! A cursor over a source text: the scanner of the parser, and positions of errors.

use super::source::{Source, excerpt};
use crate::SourcePosition;
use std::cell::Cell;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Scans a text front to back. A cursor is `Copy`: lookahead scans with a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    source: Source<'a>,
    position: usize,
    /// Remaining size in bytes of all expanded splats of the text; `None`: each splat has its own
    /// limit.
    splats: Option<&'a Cell<usize>>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self {
            source,
            position: 0,
            splats: None,
        }
    }

    /// A cursor whose splats share the limit `left`.
    pub(crate) fn with_splats(self, left: &'a Cell<usize>) -> Self {
        Self {
            splats: Some(left),
            ..self
        }
    }

    /// Reserves `bytes` for an expanded splat; false when the limit is exceeded.
    pub(crate) fn take_splat(&self, bytes: usize) -> bool {
        let Some(left) = self.splats else {
            return true;
        };
        let rest = left.get().checked_sub(bytes);
        rest.inspect(|rest| left.set(*rest)).is_some()
    }

    /// A cursor over a text without a file.
    pub(crate) fn of(text: &'a str) -> Self {
        Self::new(Source::new(text, ""))
    }

    pub(crate) fn file(&self) -> &'a str {
        self.source.file
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn at(mut self, position: usize) -> Self {
        self.position = position;
        self
    }

    /// A cursor at the end of the text.
    pub(crate) fn end(self) -> Self {
        self.at(self.source.text.len())
    }

    /// The text from `start` to this position.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.source
            .text
            .get(start..self.position)
            .unwrap_or_default()
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.source.text.get(self.position..).unwrap_or_default()
    }

    /// An error at the next token.
    pub(crate) fn error(&self, message: impl AsRef<str>) -> Error {
        let mut place = *self;
        place.skip();
        place.error_exactly(message)
    }

    /// An error at this position, with the source line and a caret under the column.
    pub(crate) fn error_exactly(&self, message: impl AsRef<str>) -> Error {
        let (place, snippet) = self.position_and_snippet();
        let message = format!("{}\n{snippet}", message.as_ref());
        Error::new(ErrorKind::InvalidProgram, message)
            .at(Location::file(place.file).line_column(place.line, place.column))
    }

    /// This position, and its source line with a caret under the column.
    pub(crate) fn position_and_snippet(&self) -> (SourcePosition, String) {
        let text = self.source.text;
        let before = text.get(..self.position).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.len() - start;
        let to_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let place = SourcePosition {
            file: self.source.file.to_owned(),
            line: to_u32(line).saturating_add(self.source.first_line),
            column: to_u32(column + 1),
        };
        let (line, caret) = excerpt(text[start..].lines().next().unwrap_or_default(), column);
        (place, format!("{line}\n{:caret$}^", ""))
    }

    /// Skips white space and comments.
    pub(crate) fn skip(&mut self) {
        loop {
            // Most often there is no space or one.
            let bytes = self.source.text.as_bytes();
            if bytes.get(self.position) == Some(&b' ') {
                self.position += 1;
            }
            if let Some(b'!'..=b'.' | b'0'..=b'~') = bytes.get(self.position) {
                return;
            }
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.position += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.position += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    pub(crate) fn at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// Whether `text` is next, after white space.
    pub(crate) fn sees(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text)
    }

    /// Consumes `text` if it is next.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let seen = self.sees(text);
        if seen {
            self.position += text.len();
        }
        seen
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(self.error(format!("expected '{text}'")))
        }
    }

    /// Consumes characters while `accepted` holds.
    pub(crate) fn take_while(&mut self, accepted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !accepted(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    /// A bare word, if one is next: letters, digits, `_`, `$`, `.`.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.skip();
        let starts = self
            .rest()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        starts.then(|| self.take_while(is_word))
    }

    /// Consumes the keyword `text` if it is next as a whole word.
    pub(crate) fn eat_word(&mut self, text: &str) -> bool {
        let mut ahead = *self;
        let seen = ahead.word() == Some(text);
        if seen {
            *self = ahead;
        }
        seen
    }

    /// The name after a sigil `%`, `@`, `#` or `^`, which must be next.
    pub(crate) fn sigil(&mut self, sigil: char) -> Result<&'a str> {
        self.skip();
        let mut ahead = *self;
        if ahead.rest().starts_with(sigil) {
            ahead.position += 1;
            let name = ahead.take_while(|c| is_word(c) || c == '-');
            if !name.is_empty() {
                *self = ahead;
                return Ok(name);
            }
        }
        Err(self.error(format!("expected a name after '{sigil}'")))
    }

    /// A symbol name, bare or quoted.
    pub(crate) fn symbol(&mut self) -> Result<String> {
        if self.sees("@\"") {
            self.position += 1;
            return self.string();
        }
        self.sigil('@').map(str::to_owned)
    }

    /// A quoted string with its escapes resolved.
    pub(crate) fn string(&mut self) -> Result<String> {
        self.expect("\"")?;
        let start = self.at(self.position - 1);
        let mut bytes = Vec::new();
        loop {
            let plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | b'\n');
            let rest = self
                .source
                .text
                .as_bytes()
                .get(self.position..)
                .unwrap_or_default();
            let length = rest.iter().take_while(|byte| plain(byte)).count();
            bytes.extend_from_slice(&rest[..length]);
            self.position += length;
            let rest = &rest[length..];
            let (byte, length) = match rest {
                [b'"', ..] => {
                    self.position += 1;
                    break;
                }
                [b'\\', byte @ (b'"' | b'\\'), ..] => (*byte, 2),
                [b'\\', b'n', ..] => (b'\n', 2),
                [b'\\', b't', ..] => (b'\t', 2),
                [b'\\', high, low, ..] => match (hex(*high), hex(*low)) {
                    (Some(high), Some(low)) => (high << 4 | low, 3),
                    _ => return Err(self.error_exactly("unknown escape in a string")),
                },
                _ => return Err(start.error("expected '\"': unterminated string")),
            };
            bytes.push(byte);
            self.position += length;
        }
        String::from_utf8(bytes).map_err(|_| start.error("the string is not UTF-8"))
    }

    /// Items separated by commas; none if `close` is next, which is not consumed.
    pub(crate) fn list<T>(
        &mut self,
        close: &str,
        item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if self.sees(close) {
            Ok(Vec::new())
        } else {
            self.some(item)
        }
    }

    /// One or more items separated by commas.
    pub(crate) fn some<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Consumes a bracket and the text up to the matching bracket, skipping strings and comments.
    pub(crate) fn balanced(&mut self) -> Result<&'a str> {
        let start = *self;
        let mut open = Vec::new();
        loop {
            let rest = self.rest();
            let mut length = 1;
            match rest.as_bytes() {
                [] => return Err(start.error("unclosed bracket")),
                [b'"', ..] => {
                    self.string()?;
                    length = 0;
                }
                [b'/', b'/', ..] => {
                    self.skip();
                    length = 0;
                }
                [b'-', b'>', ..] => length = 2,
                [byte @ (b'(' | b'[' | b'{' | b'<'), ..] => open.push(*byte),
                [byte @ (b')' | b']' | b'}' | b'>'), ..] => {
                    if open.pop().map(closing) != Some(*byte) {
                        return Err(self.error_exactly("unmatched bracket"));
                    }
                }
                _ => length = rest.chars().next().map_or(1, char::len_utf8),
            }
            self.position += length;
            if open.is_empty() {
                return Ok(self.since(start.position));
            }
        }
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.')
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn closing(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => b'>',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_escapes_are_resolved() {
        let mut cursor = Cursor::of(r#""a\"\\\n\09\C3\BC""#);
        assert_eq!(cursor.string().unwrap(), "a\"\\\n\t\u{fc}");
        for wrong in ["\"abc", "\"a\nb\"", r#""\zz""#, r#""\FF""#, "\"\\"] {
            assert!(Cursor::of(wrong).string().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_shows_its_source_line() {
        let text = "one\n  two three\n";
        let cursor = Cursor::new(Source::new(text, "f.mlir")).at(9);
        assert_eq!(
            cursor.error("wrong").to_string(),
            "f.mlir:2:7: wrong\n  two three\n      ^"
        );
        let long = "x".repeat(500);
        let error = Cursor::new(Source::new(&long, "f"))
            .at(300)
            .error("wrong")
            .to_string();
        assert!(error.len() < 400, "{error}");
    }
}
