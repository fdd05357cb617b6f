//! Sizes that are known only when a model runs: integer expressions of named symbols.
//!
//! An expression is a polynomial with integer coefficients whose atoms are symbols, floored quotients,
//! minima and maxima. It is kept in a normal form, so that equal polynomials are equal values:
//! `2 * (n + 1)` and `n + n + 2` are the same expression. Simplifications that need the range of a symbol
//! hold for all sizes inside the ranges; [`Symbols::check`] refuses sizes outside.
//!
//! ```
//! use tenon_tensor::size::Symbols;
//! let mut symbols = Symbols::default();
//! symbols.add("batch", 1..=64)?;
//! symbols.add("seq", 1..=2048)?;
//! let rows = symbols.parse("batch * seq")?;
//! let halves = symbols.floor_div(&rows.times(&symbols.parse("2")?)?, &symbols.parse("seq")?)?;
//! assert_eq!(symbols.text(&halves), "2 * batch");
//! assert_eq!(rows.evaluate(&[4, 128])?, 512);
//! # Ok::<(), tenon_base::Error>(())
//! ```

mod expression;
mod range;
mod symbols;
mod text;

pub use expression::SizeExpr;
pub use range::SizeRange;
pub use symbols::{Symbol, SymbolId, Symbols};

#[cfg(test)]
mod tests;
