//! The lexer: tokens with their positions.

use crate::ops::shapes::invalid;
use std::fmt;
use tenon_base::{Error, Location, Result};

/// Whether a byte may be in a name without quotes.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_./-".contains(&byte)
}

/// A line and a column, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextPosition {
    line: u32,
    column: u32,
}

impl TextPosition {
    pub(super) fn error(self, error: Error) -> Error {
        error.at(Location::default().line_column(self.line, self.column))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Letters, digits, `_` and `.`, after a letter or `_`.
    Word(String),
    /// `%name`
    Value(String),
    /// `@name`
    Node(String),
    /// A quoted text.
    Text(String),
    /// A text that starts with a digit or a sign.
    Number(String),
    /// One of `( ) { } [ ] , : =`.
    Mark(char),
    /// `->`
    Arrow,
    /// The end of a line that is not empty.
    Line,
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(text) | Token::Number(text) => write!(f, "'{text}'"),
            Token::Value(name) => write!(f, "'%{name}'"),
            Token::Node(name) => write!(f, "'@{name}'"),
            Token::Text(text) => write!(f, "{text:?}"),
            Token::Mark(mark) => write!(f, "'{mark}'"),
            Token::Arrow => f.write_str("'->'"),
            Token::Line => f.write_str("the end of the line"),
            Token::End => f.write_str("the end"),
        }
    }
}

pub(super) struct Lexer<'a> {
    rest: &'a str,
    place: TextPosition,
    /// Whether the last token was an error; its line must be skipped.
    failed: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            place: TextPosition { line: 1, column: 1 },
            failed: false,
        }
    }

    /// The next token. After an error, continue with [`Lexer::skip_line`].
    pub(super) fn next(&mut self) -> Result<(Token, TextPosition)> {
        self.skip_blanks();
        let place = self.place;
        let token = self.token();
        self.failed = token.is_err();
        Ok((token.map_err(|error| place.error(error))?, place))
    }

    /// Whether the last call of [`Lexer::next`] returned an error.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// Goes to the start of the next line.
    pub(super) fn skip_line(&mut self) {
        while !matches!(self.take(), Some('\n') | None) {}
    }

    fn token(&mut self) -> Result<Token> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '\n' => {
                self.take();
                Ok(Token::Line)
            }
            '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' => {
                self.take();
                Ok(Token::Mark(first))
            }
            '-' if self.rest.starts_with("->") => {
                self.take();
                self.take();
                Ok(Token::Arrow)
            }
            '%' => {
                self.take();
                self.name().map(Token::Value)
            }
            '@' => {
                self.take();
                self.name().map(Token::Node)
            }
            '"' => self.quoted().map(Token::Text),
            '-' | '+' | '0'..='9' => Ok(Token::Number(self.number())),
            'a'..='z' | 'A'..='Z' | '_' => {
                Ok(Token::Word(self.take_while(|c| {
                    c.is_ascii_alphanumeric() || "_.".contains(c)
                })))
            }
            other => Err(invalid("an unexpected character").found(format_args!("{other:?}"))),
        }
    }

    fn name(&mut self) -> Result<String> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let name = self.take_while(|c| c.is_ascii() && is_plain(c as u8));
        if name.is_empty() {
            return Err(invalid("a name is missing"));
        }
        Ok(name)
    }

    /// Digits, letters and dots; a sign at the start, or after the `e` of an exponent.
    fn number(&mut self) -> String {
        let mut number = String::new();
        while let Some(next) = self.rest.chars().next() {
            let sign = matches!(next, '+' | '-');
            let may_sign = number.is_empty() || number.ends_with(['e', 'E']);
            if !(next.is_ascii_alphanumeric() || next == '.' || sign && may_sign) {
                break;
            }
            number.push(next);
            self.take();
        }
        number
    }

    fn quoted(&mut self) -> Result<String> {
        self.take();
        let mut text = String::new();
        loop {
            if self.rest.is_empty() || self.rest.starts_with('\n') {
                return Err(invalid("a text without its closing quote"));
            }
            match self.take() {
                None => {}
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(other) => text.push(other),
            }
        }
    }

    /// The character of an escape sequence, as in Rust.
    fn escape(&mut self) -> Result<char> {
        let unknown = || invalid("an unknown escape in a text");
        Ok(match self.take().ok_or_else(unknown)? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            same @ ('\\' | '"' | '\'') => same,
            'u' => {
                if self.take() != Some('{') {
                    return Err(unknown());
                }
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                if self.take() != Some('}') {
                    return Err(unknown());
                }
                let code = u32::from_str_radix(&digits, 16).ok();
                code.and_then(char::from_u32).ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        })
    }

    /// Skips spaces and comments, but not the ends of lines.
    fn skip_blanks(&mut self) {
        loop {
            if self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest.starts_with([' ', '\t', '\r']) {
                self.take();
            } else {
                return;
            }
        }
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        if next == '\n' {
            self.place = TextPosition {
                line: self.place.line.saturating_add(1),
                column: 1,
            };
        } else {
            self.place.column = self.place.column.saturating_add(1);
        }
        Some(next)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(next) = self.rest.chars().next().filter(|&next| accept(next)) {
            taken.push(next);
            self.take();
        }
        taken
    }
}
