//! The symbols of a model and their ranges.

use super::expression::invalid;
use super::{SizeExpr, SizeRange};
use std::fmt;
use std::ops::RangeInclusive;
use tenon_base::{Error, Location, Result};

/// A symbol; its text form is `s3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub u32);

impl SymbolId {
    /// Position in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SymbolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A size that is known when the model runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name: letters, digits, `_` and `.`, not first a digit.
    pub name: String,
    /// Its smallest value.
    pub min: u64,
    /// Its greatest value.
    pub max: u64,
}

/// The greatest size: extents fit 32-bit signed integers.
pub(super) const MAX_SIZE: u64 = (1 << 31) - 1;

/// The greatest number of symbols: each is a dimension of an input, and inputs have few.
const MAX_SYMBOLS: usize = 256;

/// Names that the text form of expressions uses.
const RESERVED: [&str; 3] = ["floor", "min", "max"];

/// The symbols of a model; a [`SymbolId`] is a position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols(Vec<Symbol>);

impl Symbols {
    /// No symbols.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a symbol.
    ///
    /// # Errors
    /// The name is no identifier or is known, the range is empty or exceeds 2^31 - 1, more than 256 symbols.
    pub fn add(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<SymbolId> {
        let at = || Location::field(format!("dimension '{name}'"));
        if !is_name(name) {
            return Err(invalid("not a name of a dimension")
                .expected("letters, digits, '_' and '.', not first a digit, not floor, min or max")
                .found(name)
                .at(at()));
        }
        if self.find(name).is_some() {
            return Err(invalid("two dimensions have the same name").at(at()));
        }
        let (min, max) = range.into_inner();
        if min > max || max > MAX_SIZE {
            return Err(invalid("the range of a dimension")
                .expected(format_args!(
                    "from smallest to greatest, at most {MAX_SIZE}"
                ))
                .found(format_args!("{min}..{max}"))
                .at(at()));
        }
        if self.0.len() >= MAX_SYMBOLS {
            return Err(invalid("too many symbolic dimensions")
                .expected(format_args!("at most {MAX_SYMBOLS}"))
                .at(at()));
        }
        self.0.push(Symbol {
            name: name.to_owned(),
            min,
            max,
        });
        Ok(SymbolId(self.0.len() as u32 - 1))
    }

    /// The range of a size without given bounds.
    pub fn any_size() -> RangeInclusive<u64> {
        1..=MAX_SIZE
    }

    /// The symbol of a name.
    pub fn find(&self, name: &str) -> Option<SymbolId> {
        let position = self.0.iter().position(|symbol| symbol.name == name)?;
        Some(SymbolId(position as u32))
    }

    /// The symbol of an id.
    pub fn symbol(&self, id: SymbolId) -> Option<&Symbol> {
        self.0.get(id.index())
    }

    /// All symbols, in order.
    pub fn iter(&self) -> impl Iterator<Item = (SymbolId, &Symbol)> {
        (0u32..).map(SymbolId).zip(&self.0)
    }

    /// The number of symbols.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none: all sizes are fixed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn symbol_range(&self, id: SymbolId) -> SizeRange {
        match self.symbol(id) {
            Some(symbol) => SizeRange::new(symbol.min.into(), symbol.max.into()),
            None => SizeRange {
                min: None,
                max: None,
            },
        }
    }

    /// Checks the values of all symbols against their ranges; all problems together.
    ///
    /// # Errors
    /// A missing value, or one outside the range of its symbol.
    pub fn check(&self, values: &[i64]) -> Result<()> {
        if values.len() != self.0.len() {
            return Err(invalid("not one size for each symbolic dimension")
                .expected(self.0.len())
                .found(values.len()));
        }
        let outside = self.0.iter().zip(values).filter_map(|(symbol, &value)| {
            let inside =
                u64::try_from(value).is_ok_and(|value| (symbol.min..=symbol.max).contains(&value));
            (!inside).then(|| {
                invalid("the size of a dimension is outside its range")
                    .expected(format_args!("{} to {}", symbol.min, symbol.max))
                    .found(value)
                    .at(Location::field(format!("dimension '{}'", symbol.name)))
            })
        });
        Error::from_all(outside).map_or(Ok(()), Err)
    }

    /// The values of the symbols for which dimensions have these sizes. A dimension that is a symbol decides
    /// its value; the others are compared with it.
    ///
    /// # Errors
    /// A symbol without a value, contradictory or impossible sizes, a value outside its range. `place` names a
    /// dimension by its position in `dims`.
    pub fn solve<'a>(
        &self,
        dims: impl Iterator<Item = (&'a SizeExpr, i64)> + Clone,
        place: impl Fn(usize) -> Location,
    ) -> Result<Vec<i64>> {
        let mut values = vec![None; self.0.len()];
        for (expr, size) in dims.clone() {
            if let Some(slot) = expr.symbol().and_then(|id| values.get_mut(id.index())) {
                slot.get_or_insert(size);
            }
        }
        let mut problems = Vec::new();
        for (value, symbol) in values.iter().zip(&self.0) {
            if value.is_none() {
                problems.push(
                    invalid("no input decides the size of a dimension")
                        .at(Location::field(format!("dimension '{}'", symbol.name))),
                );
            }
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        let values: Vec<i64> = values.into_iter().flatten().collect();
        self.check(&values)?;
        let mut problems = Vec::new();
        for (position, (expr, size)) in dims.enumerate() {
            let expected = expr.evaluate(&values)?;
            if expected != size {
                let text = match expr.constant() {
                    Some(_) => expected.to_string(),
                    None => format!("{expected} ({})", self.text(expr)),
                };
                problems.push(
                    invalid("an input has the wrong size")
                        .expected(text)
                        .found(size)
                        .at(place(position)),
                );
            }
        }
        Error::from_all(problems).map_or(Ok(values), Err)
    }
}

/// Whether expressions can name it.
pub(super) fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters
        .next()
        .is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_');
    first
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.')
        && !RESERVED.contains(&text)
}
