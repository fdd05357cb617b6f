//! Types, which are kept in their printed form: BEF does not interpret them.

use super::cursor::{Cursor, is_word};
use std::borrow::Cow;
use tenon_base::Result;

/// Maximum nesting of types.
const MAX_DEPTH: usize = 64;

/// A type in its printed form, borrowed from the text where possible.
pub(crate) type Type<'a> = Cow<'a, str>;

impl<'a> Cursor<'a> {
    /// Parses a type.
    pub(crate) fn r#type(&mut self) -> Result<Type<'a>> {
        self.nested_type(0)
    }

    fn nested_type(&mut self, depth: usize) -> Result<Type<'a>> {
        self.skip();
        let start = self.position();
        if depth > MAX_DEPTH {
            return Err(self.error(format!("types are nested deeper than {MAX_DEPTH}")));
        }
        if self.sees("(") {
            let arguments = self.nested_type_list(depth + 1)?;
            self.expect("->")?;
            let results = self.nested_type_list(depth + 1)?;
            return Ok(print_function_type(&arguments, &results).into());
        }
        if self.rest().starts_with('!') {
            *self = self.at(start + 1);
        }
        let name = self
            .rest()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !name {
            return Err(self.at(start).error("expected a type"));
        }
        self.take_while(is_word);
        if self.rest().starts_with('<') {
            self.balanced()?;
        }
        Ok(self.since(start).into())
    }

    /// One type, or a parenthesized list.
    pub(crate) fn type_list(&mut self) -> Result<Vec<Type<'a>>> {
        self.nested_type_list(0)
    }

    fn nested_type_list(&mut self, depth: usize) -> Result<Vec<Type<'a>>> {
        // A parenthesis opens a list here: MLIR requires parentheses around a function type that is
        // a single result.
        if !self.eat("(") {
            return Ok(vec![self.nested_type(depth + 1)?]);
        }
        let types = self.list(")", |cursor| cursor.nested_type(depth + 1))?;
        self.expect(")")?;
        Ok(types)
    }

    /// A function type `(T) -> U`: arguments and results.
    pub(crate) fn function_type(&mut self) -> Result<(Vec<Type<'a>>, Vec<Type<'a>>)> {
        if !self.sees("(") {
            return Err(self.error("expected '('"));
        }
        let arguments = self.type_list()?;
        self.expect("->")?;
        Ok((arguments, self.type_list()?))
    }
}

/// The printed form of a function type.
pub(crate) fn print_function_type<T: AsRef<str>>(arguments: &[T], results: &[T]) -> String {
    let join = |types: &[T]| {
        types
            .iter()
            .map(AsRef::as_ref)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match results {
        [one] if !one.as_ref().starts_with('(') => {
            format!("({}) -> {}", join(arguments), one.as_ref())
        }
        several => format!("({}) -> ({})", join(arguments), join(several)),
    }
}

/// Whether `text` is a type in canonical printed form.
pub(crate) fn is_type(text: &str) -> bool {
    let mut cursor = Cursor::of(text);
    cursor.r#type().is_ok_and(|printed| printed == text) && cursor.rest().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_in_their_printed_form() {
        for text in [
            "i32",
            "!tfrt.chain",
            "tensor<2x?xf32>",
            "(i32, f32) -> i1",
            "() -> (i32, i32)",
            "() -> ((i32) -> f32)",
            "!a.b<\"}\", (x) -> y>",
        ] {
            assert!(is_type(text), "{text}");
        }
        for text in [
            "",
            "i32 ",
            "(i32)",
            "tensor<2",
            "}{",
            "(i32,f32) -> i1",
            "i32 i32",
        ] {
            assert!(!is_type(text), "{text}");
        }
        assert!(!is_type(&"(".repeat(100_000)));
    }
}
