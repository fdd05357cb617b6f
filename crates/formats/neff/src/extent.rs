//! Extents of ports and variables: integers, or expressions of the package's symbols (docs/package.md, "Sizes that
//! are known only when a model runs").

use serde::{Deserialize, Serialize};
use std::fmt;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::size::{SizeExpr, Symbols};

/// An extent, or an element of a list of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extent {
    /// A number.
    Fixed(i64),
    /// An expression of symbols, as text.
    Expression(String),
}

impl Extent {
    /// The text or number of an expression.
    pub fn new(symbols: &Symbols, expr: &SizeExpr) -> Self {
        match expr.constant() {
            Some(size) => Self::Fixed(size),
            None => Self::Expression(symbols.text(expr)),
        }
    }

    /// The extent of the tensors of a sequence that may differ.
    pub fn unknown() -> Self {
        Self::Expression("?".to_owned())
    }

    /// The expression.
    ///
    /// # Errors
    /// Text that is no expression of these symbols, or not in normal form.
    pub fn parse(&self, symbols: &Symbols) -> Result<SizeExpr> {
        let text = match self {
            Self::Fixed(size) => return Ok((*size).into()),
            Self::Expression(text) => text,
        };
        let expr = symbols.parse(text)?;
        let normal = symbols.text(&expr);
        if normal != *text || expr.constant().is_some() {
            let error = Error::new(ErrorKind::InvalidPackage, "an expression in another form");
            return Err(error.expected(normal).found(text));
        }
        Ok(expr)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Expression(text) => f.write_str(text),
        }
    }
}

/// The shape of a port or variable, outermost first.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortShape(pub Vec<Extent>);

impl PortShape {
    /// The shape with these expressions.
    pub fn new(symbols: &Symbols, extents: &[SizeExpr]) -> Self {
        Self(
            extents
                .iter()
                .map(|extent| Extent::new(symbols, extent))
                .collect(),
        )
    }

    /// The shape of the tensors of a sequence that may differ in rank.
    pub fn any_rank() -> Self {
        Self(vec![Extent::Expression("...".to_owned())])
    }

    /// The extents that all tensors of a sequence have, `None` for one that may differ; the outer `None` for any rank.
    ///
    /// # Errors
    /// Negative extents, and text with another meaning.
    pub fn of_elements(&self) -> Result<Option<Vec<Option<usize>>>> {
        if *self == Self::any_rank() {
            return Ok(None);
        }
        let extent = |extent: &Extent| match extent {
            Extent::Fixed(size) => usize::try_from(*size).ok().map(Some),
            Extent::Expression(text) => (text == "?").then_some(None),
        };
        let extents = self.0.iter().map(extent).collect::<Option<Vec<_>>>();
        extents.map(Some).ok_or_else(|| {
            let text = "not the shape of the tensors of a sequence";
            Error::new(ErrorKind::InvalidPackage, text).found(self)
        })
    }

    /// The integers, if no extent is an expression and none is negative.
    pub fn fixed(&self) -> Option<Vec<usize>> {
        let fixed = |extent: &Extent| match extent {
            Extent::Fixed(size) => usize::try_from(*size).ok(),
            Extent::Expression(_) => None,
        };
        self.0.iter().map(fixed).collect()
    }

    /// Whether an extent is an expression.
    pub fn is_symbolic(&self) -> bool {
        let mut extents = self.0.iter();
        extents.any(|extent| matches!(extent, Extent::Expression(_)))
    }

    /// The extents as expressions.
    ///
    /// # Errors
    /// As [`Extent::parse`].
    pub fn parse(&self, symbols: &Symbols) -> Result<Vec<SizeExpr>> {
        self.0.iter().map(|extent| extent.parse(symbols)).collect()
    }

    /// The extents as members of NEFF write them, where -1 is an extent that is not known.
    pub fn to_neff(&self) -> Vec<i64> {
        let number = |extent: &Extent| match extent {
            Extent::Fixed(size) => *size,
            Extent::Expression(_) => -1,
        };
        self.0.iter().map(number).collect()
    }
}

impl From<&[usize]> for PortShape {
    fn from(shape: &[usize]) -> Self {
        let fixed = |&extent: &usize| Extent::Fixed(i64::try_from(extent).unwrap_or(i64::MAX));
        Self(shape.iter().map(fixed).collect())
    }
}

impl fmt::Debug for PortShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PortShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, extent) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            extent.fmt(f)?;
        }
        f.write_str("]")
    }
}
