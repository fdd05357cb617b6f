//! The text form of a graph: what `Display` writes and `FromStr` reads.
//!
//! ```text
//! graph "digits" (%image: f32[1, 4]) -> (%y: f32[1, 2]) {
//!   metadata "labels" = "zero\none"
//!   const %w: f32[4, 2] = fill 0.5
//!   const %b: f32[2] = [0.0, 1.0]
//!   %y: f32[1, 2] = Gemm(%image, %w, %b) {alpha = 1.0, transB = 0} @dense
//! }
//! ```
//!
//! One statement on a line; `//` starts a comment. A value is `%name`, a node's name follows `@`; names
//! with other characters than letters, digits, `_`, `.`, `/` and `-` are quoted. `_` is an omitted
//! operand. A value without a producer is declared by `value %name: type`.
//! Attributes are integers (`1`), floats (`1.0`, `inf`, `nan`), strings, lists of these (an empty list
//! of floats is `floats[]`, of strings `strings[]`) and tensors (`f32[2] [1.0, 2.0]`).
//! The elements of a constant are a list, `fill` with one element for all, `hex` with the bytes for
//! types without a decimal form, or, for large constants in `Display`, `hash` with a hash of the bytes,
//! which cannot be parsed; [`Graph::full_text`](crate::Graph::full_text) writes all elements.

mod elements;
mod lex;
mod parse;
mod print;

pub(crate) use parse::parse_nodes;
pub(crate) use print::node_text;
