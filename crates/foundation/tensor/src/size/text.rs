//! The text form of expressions: `2 * batch * floor((seq + 1) / 2)`, `min(n, 100)`.

use super::expression::{Atom, Term, invalid};
use super::{SizeExpr, Symbols};
use tenon_base::{Error, Result};

/// Longer text is refused, and so is deeper nesting.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 32;

impl Symbols {
    /// The text form; the same expression with the same symbols has the same text.
    pub fn text(&self, expr: &SizeExpr) -> String {
        let mut text = String::new();
        for (index, term) in expr.terms.iter().enumerate() {
            let negative = term.coefficient < 0;
            text += match (index, negative) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            text += &self.term(term);
        }
        if text.is_empty() {
            text.push('0');
        }
        text
    }

    /// A term without its sign.
    fn term(&self, term: &Term) -> String {
        let coefficient = term.coefficient.unsigned_abs();
        let factors = term.atoms.iter().map(|atom| self.atom(atom));
        let number = (coefficient != 1 || term.atoms.is_empty()).then(|| coefficient.to_string());
        number
            .into_iter()
            .chain(factors)
            .collect::<Vec<_>>()
            .join(" * ")
    }

    fn atom(&self, atom: &Atom) -> String {
        let list = |name: &str, parts: &[SizeExpr]| {
            let parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
            format!("{name}({})", parts.join(", "))
        };
        match atom {
            Atom::Symbol(id) => match self.symbol(*id) {
                Some(symbol) => symbol.name.clone(),
                None => id.to_string(),
            },
            Atom::Quotient(parts) => {
                format!(
                    "floor({} / {})",
                    self.operand(&parts.0),
                    self.operand(&parts.1)
                )
            }
            Atom::Min(parts) => list("min", parts),
            Atom::Max(parts) => list("max", parts),
        }
    }

    /// An operand of a quotient: in parentheses, unless it is a number or one atom.
    fn operand(&self, expr: &SizeExpr) -> String {
        let text = self.text(expr);
        let single = match expr.terms.as_slice() {
            [term] => {
                term.coefficient > 0
                    && (term.atoms.is_empty() || (term.coefficient == 1 && term.atoms.len() == 1))
            }
            terms => terms.is_empty(),
        };
        if single { text } else { format!("({text})") }
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// Text of another form, with the position; names that are no symbol; those of arithmetic.
    pub fn parse(&self, text: &str) -> Result<SizeExpr> {
        if text.len() > MAX_LENGTH {
            return Err(invalid("the expression of a size is too long")
                .expected(format_args!("at most {MAX_LENGTH} bytes"))
                .found(text.len()));
        }
        let mut parser = Parser {
            symbols: self,
            text,
            at: 0,
            depth: 0,
        };
        let expr = parser.sum()?;
        match parser.peek() {
            None => Ok(expr),
            Some(_) => Err(parser.wrong("an operator or the end")),
        }
    }
}

struct Parser<'a> {
    symbols: &'a Symbols,
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(' ').len();
        self.text[self.at..].chars().next()
    }

    fn accept(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn expect(&mut self, expected: char) -> Result<()> {
        if self.accept(expected) {
            Ok(())
        } else {
            Err(self.wrong(&format!("'{expected}'")))
        }
    }

    fn wrong(&mut self, expected: &str) -> Error {
        let found = match self.peek() {
            Some(letter) => format!("'{letter}'"),
            None => "the end".to_owned(),
        };
        invalid(&format!(
            "not the expression of a size, at character {} of '{}'",
            self.at + 1,
            self.text
        ))
        .expected(expected)
        .found(found)
    }

    fn sum(&mut self) -> Result<SizeExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid("the expression of a size is nested too deeply")
                .expected(format_args!("at most {MAX_DEPTH} levels")));
        }
        let negative = self.accept('-');
        let mut sum = self.product()?;
        if negative {
            sum = SizeExpr::default().minus(&sum)?;
        }
        loop {
            if self.accept('+') {
                sum = sum.plus(&self.product()?)?;
            } else if self.accept('-') {
                sum = sum.minus(&self.product()?)?;
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<SizeExpr> {
        let mut product = self.factor()?;
        while self.accept('*') {
            product = product.times(&self.factor()?)?;
        }
        Ok(product)
    }

    fn factor(&mut self) -> Result<SizeExpr> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let sum = self.sum()?;
                self.expect(')')?;
                Ok(sum)
            }
            Some(letter) if letter.is_ascii_digit() => {
                let digits = self.word(|letter| letter.is_ascii_digit());
                let number = digits.parse::<i64>();
                let number =
                    number.map_err(|_| invalid("a size overflows 64 bits").found(digits))?;
                Ok(number.into())
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
                let word = self.word(|letter| {
                    letter.is_ascii_alphanumeric() || letter == '_' || letter == '.'
                });
                self.named(word)
            }
            _ => Err(self.wrong("a number, the name of a dimension, floor, min, max or '('")),
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let (start, text) = (self.at, self.text);
        let rest = &text[start..];
        let length = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        self.at += length;
        &text[start..start + length]
    }

    /// A function or a symbol.
    fn named(&mut self, word: &str) -> Result<SizeExpr> {
        match word {
            "floor" => {
                self.expect('(')?;
                let dividend = self.sum()?;
                self.expect('/')?;
                let divisor = self.factor()?;
                self.expect(')')?;
                self.symbols.floor_div(&dividend, &divisor)
            }
            "min" | "max" => {
                let smaller = word == "min";
                self.expect('(')?;
                let mut best = self.sum()?;
                while self.accept(',') {
                    let next = self.sum()?;
                    best = if smaller {
                        self.symbols.min(&best, &next)?
                    } else {
                        self.symbols.max(&best, &next)?
                    };
                }
                self.expect(')')?;
                Ok(best)
            }
            name => {
                let symbol = self.symbols.find(name).ok_or_else(|| {
                    let known = self.symbols.iter().map(|(_, symbol)| symbol.name.as_str());
                    invalid("an expression names an unknown dimension")
                        .expected(known.collect::<Vec<_>>().join(", "))
                        .found(name)
                })?;
                Ok(symbol.into())
            }
        }
    }
}
