//! Vector instructions for movements, found at run time: streaming stores, blocks of transposes,
//! casts. Every function has a plain form with the same results, bit by bit.

mod cast;
mod copy;
mod transpose;

pub(crate) use cast::converter;
pub(crate) use copy::{STREAM_BYTES, copy, fence};
pub(crate) use transpose::transpose_block;
