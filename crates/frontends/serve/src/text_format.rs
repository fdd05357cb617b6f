//! The [text format of Protocol Buffers](https://protobuf.dev/reference/protobuf/textformat-spec/), without a schema:
//! fields with their places, in their order. Extensions and `Any` messages are not read.

use std::sync::Arc;
use tenon::{Error, ErrorKind, Location, Result};

/// A message: its fields in the order of the text; a list is a field for each of its elements.
#[derive(Debug, Default, PartialEq)]
pub struct Message {
    /// The fields.
    pub fields: Vec<Field>,
}

/// A field of a message.
#[derive(Debug, PartialEq)]
pub struct Field {
    /// Its name, which the elements of a list share.
    pub name: Arc<str>,
    /// Its value.
    pub value: Value,
    /// Where its name is.
    pub place: Position,
}

/// The value of a field.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// A number or the name of a constant, as it is written, with its sign.
    Word(String),
    /// A quoted text.
    Text(String),
    /// A message.
    Message(Message),
}

/// A place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// The most messages that contain each other.
const MAX_DEPTH: usize = 32;

impl Message {
    /// Reads a text.
    ///
    /// # Errors
    /// The first place at which the text is malformed.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader {
            rest: text,
            place: Position { line: 1, column: 1 },
        };
        let fields = reader.fields(None, 0)?;
        Ok(Self { fields })
    }
}

impl Position {
    /// The place for an error.
    pub fn location(self) -> Location {
        Location::default().line_column(self.line, self.column)
    }
}

/// The text that was not read yet.
struct Reader<'a> {
    rest: &'a str,
    place: Position,
}

impl Reader<'_> {
    /// The fields of a message up to the bracket that closes it, or to the end of the text.
    fn fields(&mut self, close: Option<char>, depth: usize) -> Result<Vec<Field>> {
        if depth > MAX_DEPTH {
            return Err(self.error(&format!("at most {MAX_DEPTH} messages inside each other")));
        }
        let mut fields = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                None if close.is_none() => return Ok(fields),
                found if found.is_some() && found == close => {
                    self.take();
                    return Ok(fields);
                }
                Some(c) if is_name_start(c) => self.field(&mut fields, depth)?,
                _ => {
                    let end = close.map_or_else(String::new, |close| format!(" or '{close}'"));
                    return Err(self.error(&format!("the name of a field{end}")));
                }
            }
            self.skip_space();
            if matches!(self.peek(), Some(',' | ';')) {
                self.take();
            }
        }
    }

    fn field(&mut self, fields: &mut Vec<Field>, depth: usize) -> Result<()> {
        let place = self.place;
        let name: Arc<str> = self.word().into();
        self.skip_space();
        let has_colon = self.peek() == Some(':');
        if has_colon {
            self.take();
            self.skip_space();
        }
        let mut add = |value| {
            let name = name.clone();
            fields.push(Field { name, value, place });
        };
        if self.peek() != Some('[') {
            add(self.value(has_colon, depth)?);
            return Ok(());
        }
        self.take();
        self.skip_space();
        let mut is_first = true;
        while self.peek() != Some(']') {
            if !is_first {
                if self.peek() != Some(',') {
                    return Err(self.error("',' or ']'"));
                }
                self.take();
                self.skip_space();
            }
            is_first = false;
            add(self.value(has_colon, depth)?);
            self.skip_space();
        }
        self.take();
        Ok(())
    }

    /// A message, or after a colon also a text or a word.
    fn value(&mut self, has_colon: bool, depth: usize) -> Result<Value> {
        let close = match self.peek() {
            Some('{') => '}',
            Some('<') => '>',
            Some('"' | '\'') if has_colon => return Ok(Value::Text(self.texts()?)),
            Some(c) if has_colon && (is_word(c) || c == '-') => {
                return self.signed_word().map(Value::Word);
            }
            _ if has_colon => return Err(self.error("a value")),
            _ => return Err(self.error("':' or '{'")),
        };
        self.take();
        let fields = self.fields(Some(close), depth + 1)?;
        Ok(Value::Message(Message { fields }))
    }

    fn signed_word(&mut self) -> Result<String> {
        let mut sign = "";
        if self.peek() == Some('-') {
            sign = "-";
            self.take();
            self.skip_space();
        }
        match self.word() {
            word if word.is_empty() => Err(self.error("a number after '-'")),
            word => Ok(format!("{sign}{word}")),
        }
    }

    /// Texts one after the other are one text.
    fn texts(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        let start = self.place;
        while let Some(quote @ ('"' | '\'')) = self.peek() {
            let start = self.place;
            self.take();
            self.text(quote, start, &mut bytes)?;
            self.skip_space();
        }
        String::from_utf8(bytes).map_err(|_| {
            let text = "the escapes of a text are not UTF-8";
            Error::new(ErrorKind::BadInput, text).at(start.location())
        })
    }

    fn text(&mut self, quote: char, start: Position, bytes: &mut Vec<u8>) -> Result<()> {
        loop {
            match self.take() {
                None | Some('\n') => {
                    let error = Error::new(ErrorKind::BadInput, "a text does not end in its line");
                    return Err(error.expected(quote).at(start.location()));
                }
                Some(c) if c == quote => return Ok(()),
                Some('\\') => self.escape(bytes)?,
                Some(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let unknown = self.error(r#"an escape: \n \r \t \" \' \\ \?, octal, \x, \u or \U digits"#);
        let byte = match self.take() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('a') => 7,
            Some('b') => 8,
            Some('f') => 12,
            Some('v') => 11,
            Some(c @ ('"' | '\'' | '\\' | '?')) => c as u8,
            Some(c @ '0'..='7') => {
                let digits = format!("{c}{}", self.digits(8, 2));
                u8::from_str_radix(&digits, 8).map_err(|_| unknown)?
            }
            Some('x') => u8::from_str_radix(&self.digits(16, 2), 16).map_err(|_| unknown)?,
            Some(c @ ('u' | 'U')) => {
                let count = if c == 'u' { 4 } else { 8 };
                let digits = self.digits(16, count);
                let code = u32::from_str_radix(&digits, 16).ok();
                let code = code.filter(|_| digits.len() == count);
                let c = code.and_then(char::from_u32).ok_or(unknown)?;
                bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
                return Ok(());
            }
            _ => return Err(unknown),
        };
        bytes.push(byte);
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize) -> String {
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_digit(radix))
            && digits.len() < most
        {
            digits.push(c);
            self.take();
        }
        digits
    }

    /// Letters, digits, `_`, `.`, and the sign of an exponent.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            let is_exponent = word.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                && word.ends_with(['e', 'E'])
                && matches!(c, '+' | '-');
            if !is_word(c) && !is_exponent {
                break;
            }
            word.push(c);
            self.take();
        }
        word
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                '#' => while self.take().is_some_and(|c| c != '\n') {},
                _ if c.is_ascii_whitespace() => drop(self.take()),
                _ => return,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.place.line = self.place.line.saturating_add(1);
            self.place.column = 1;
        } else {
            self.place.column = self.place.column.saturating_add(1);
        }
        Some(c)
    }

    /// What was expected here.
    fn error(&self, expected: &str) -> Error {
        let error = Error::new(ErrorKind::BadInput, "malformed text of Protocol Buffers");
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(c) => format!("{c:?}"),
        };
        let error = error.expected(expected).found(found);
        error.at(self.place.location())
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(name: &str, value: &str) -> (String, Value) {
        (name.to_owned(), Value::Word(value.to_owned()))
    }

    fn fields(text: &str) -> Vec<(String, Value)> {
        let message = Message::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let fields = message.fields.into_iter();
        fields
            .map(|field| (field.name.to_string(), field.value))
            .collect()
    }

    #[test]
    fn every_form_of_a_field_is_read() {
        let text = "a: 1 # a comment\n b : -2.5e-3; c: [x, y], d: [] e: - inf";
        let expected = [
            word("a", "1"),
            word("b", "-2.5e-3"),
            word("c", "x"),
            word("c", "y"),
            word("e", "-inf"),
        ];
        assert_eq!(fields(text), expected);
        for text in [
            "m { a: 1 }",
            "m: { a: 1 }",
            "m < a: 1 >",
            "m: [ { a: 1, } ]",
            "m [<a:1>]",
        ] {
            let [(name, Value::Message(message))] = &fields(text)[..] else {
                panic!("{text}");
            };
            let inner = &message.fields[0];
            assert_eq!(
                (name.as_str(), &inner.value),
                ("m", &Value::Word("1".into()))
            );
        }
        let text = r#"t: "a\tb" 'c"' "\x41\101\u00e4\\" u: '\'ä'"#;
        let texts = [("t", "a\tbc\"AAä\\"), ("u", "'ä")];
        let texts = texts.map(|(name, text)| (name.to_owned(), Value::Text(text.to_owned())));
        assert_eq!(fields(text), texts);
        assert_eq!(fields(" # nothing"), []);
        let message = Message::parse("a: 1\n  ä").unwrap_err();
        let place = message.location();
        assert_eq!((place.line, place.column), (Some(2), Some(3)));
        let message = Message::parse("a: 1\n  b { c: 2 }").unwrap();
        assert_eq!(message.fields[1].place, Position { line: 2, column: 3 });
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "a",
            "a:",
            "a 1",
            "a: {",
            "a: }",
            "{",
            "a: \"x",
            "a: \"x\n\"",
            "a: '\\q'",
            "a: '\\xff'",
            "a: '\\ud800'",
            "a: '\\777'",
            "a: '\\u12'",
            "a: [1",
            "a: [1 2]",
            "a: [,]",
            "a: -",
            "a: { b: 1 >",
            "[a.b]: 1",
            "a: 1 }",
        ] {
            assert!(Message::parse(text).is_err(), "{text}");
        }
        let deep = |depth: usize| "a{".repeat(depth) + &"}".repeat(depth);
        assert!(Message::parse(&deep(MAX_DEPTH)).is_ok());
        assert!(Message::parse(&deep(MAX_DEPTH + 1)).is_err());
        assert!(Message::parse(&"a{".repeat(100_000)).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            "-?[a-z0-9_.]{1,8}".prop_map(Value::Word),
            any::<String>().prop_map(Value::Text),
        ];
        scalar.prop_recursive(4, 16, 4, |value| {
            let place = Position { line: 1, column: 1 };
            let field = ("[a-z_][a-z0-9_]{0,5}", value);
            let field = field.prop_map(move |(name, value)| Field {
                name: name.into(),
                value,
                place,
            });
            let fields = proptest::collection::vec(field, 0..4);
            fields.prop_map(|fields| Value::Message(Message { fields }))
        })
    }

    fn write(message: &Message, text: &mut String) {
        for field in &message.fields {
            *text += &field.name;
            match &field.value {
                Value::Word(word) => *text += &format!(": {word}"),
                Value::Text(value) => {
                    let bytes = value.bytes().map(|byte| format!("\\{byte:03o}"));
                    *text += &format!(":\"{}\"", bytes.collect::<String>());
                }
                Value::Message(message) => {
                    *text += " {";
                    write(message, text);
                    *text += "}";
                }
            }
            *text += "\n";
        }
    }

    /// Without the places.
    fn content(message: &Message) -> String {
        let mut text = String::new();
        write(message, &mut text);
        text
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in value()) {
            let place = Position { line: 1, column: 1 };
            let name = "top".into();
            let message = Message { fields: vec![Field { name, value, place }] };
            let text = content(&message);
            prop_assert_eq!(content(&Message::parse(&text).unwrap()), text);
        }

        #[test]
        fn any_text_ends(text in r#"[ab:{}<>\[\],;"'\\#\n0-9.-]{0,40}"#) {
            let _ = Message::parse(&text);
        }
    }
}
