//! Where scopes and events of compiling, loading and running are told.
//!
//! A sink is handed down explicitly; where there is none, nothing is told.

use std::time::Instant;

/// Hears finished scopes.
pub trait TraceSink: Send + Sync {
    /// A scope of `category` called `name` ran from `start` to `end` and moved `bytes` of data.
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64);

    /// Something of `category` called `name` happened at one moment. Mostly only scopes are heard.
    fn event(&self, _category: &'static str, _name: &str, _moment: Instant) {}
}
