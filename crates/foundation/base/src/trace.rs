//! Where scopes and events of compiling, loading and running are told.
//!
//! A sink is handed down explicitly; where there is none, nothing is told. [`Recording`] keeps what
//! it hears and writes it in the trace event format, which Perfetto and Chrome open.

mod file;
mod recording;

pub use file::TraceFile;
pub use recording::{Recording, TraceRecord};

use std::time::Instant;

/// Hears finished scopes, and numbers that change.
pub trait TraceSink: Send + Sync {
    /// A scope of `category` called `name` ran from `start` to `end` and moved `bytes` of data.
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64);

    /// A scope with texts that belong to it by name, such as `operator`, `backend` and `shapes`;
    /// empty ones say nothing. A sink that does not keep them hears the scope alone.
    fn scope_with(
        &self,
        category: &'static str,
        name: &str,
        start: Instant,
        end: Instant,
        bytes: u64,
        _texts: &[(&'static str, &str)],
    ) {
        self.scope(category, name, start, end, bytes);
    }

    /// Something of `category` called `name` happened at one moment. Mostly only scopes are heard.
    fn event(&self, _category: &'static str, _name: &str, _moment: Instant) {}

    /// The number called `name` is `value` from `at` on.
    fn counter(&self, _name: &str, _at: Instant, _value: u64) {}
}
