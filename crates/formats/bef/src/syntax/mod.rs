//! The lexical layer of MLIR text: sources, a cursor with its tokens, and types in printed form.

mod cursor;
mod source;
mod types;

pub(crate) use cursor::Cursor;
pub use source::Source;
pub(crate) use types::{Type, is_type, print_function_type};
