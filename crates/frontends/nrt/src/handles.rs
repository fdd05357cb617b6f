//! The tables of the handles that clients hold.

use crate::process;

pub(crate) use tenon_c_callers::handles::{Handle, Handles};

/// An empty table, which `nrt_close` clears: handles get its status then. `kind` is not zero; `words` name the object.
pub(crate) const fn table<T: Clone>(kind: u8, words: &'static str) -> Handles<T> {
    // `nrt_close` may have run since the caller's own check.
    Handles::new(kind, words).cleared_by(process::check)
}
