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
//! One statement a line; `//` starts a comment. A value is `%name`, a node's name follows `@`; names
//! of other characters than letters, digits, `_`, `.`, `/` and `-` are quoted. `_` stands for an
//! operand that is left out. A value that no node makes is declared by `value %name: type`.
//! Attributes are integers (`1`), numbers (`1.0`, `inf`, `nan`), texts, lists of them (an empty
//! list of numbers is `floats[]`, of texts `strings[]`) and tensors (`f32[2] [1.0, 2.0]`).
//! Elements of constants are a list, `fill` with one element for all, `hex` with the bytes for
//! types without readable numbers, or, when `Display` leaves large ones out, `hash` with a hash of
//! the bytes, which cannot be read back; [`Graph::full_text`](crate::Graph::full_text) writes all.

mod elements;
mod lex;
mod parse;
mod print;
