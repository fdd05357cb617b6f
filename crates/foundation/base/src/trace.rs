//! Tracing of compiling, loading and running: scopes, events and counters go to a sink.
//!
//! A sink is passed explicitly; without one nothing is traced. [`Recording`] is a sink that stores
//! its records and writes them in the Trace Event Format, which Perfetto and Chrome open.

mod file;
mod recording;

pub use file::TraceFile;
pub use recording::{Recording, TraceRecord};

use std::time::Instant;

/// Receives finished scopes, events and values of counters.
pub trait TraceSink: Send + Sync {
    /// A scope of `category` called `name` ran from `start` to `end` and moved `bytes` of data.
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64);

    /// A scope with named text arguments, such as `operator`, `backend` and `shapes`; an empty text
    /// is ignored. By default the arguments are dropped.
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

    /// An instant event of `category` called `name`. Ignored by default.
    fn event(&self, _category: &'static str, _name: &str, _moment: Instant) {}

    /// The counter called `name` is `value` from `at` on. Ignored by default.
    fn counter(&self, _name: &str, _at: Instant, _value: u64) {}
}
