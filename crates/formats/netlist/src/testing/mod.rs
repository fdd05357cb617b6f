//! What a netlist says about testing itself (facts 6.8): arguments, data to run it on, and how
//! closely two answers agree.
//!
//! * [`TestConfig::read`] reads the section `test-config`; without one its defaults stand.
//! * [`Stimulus`] makes the entries of a queue from a seed, sparse encodings valid ones.
//! * [`Comparison`] holds one array against another.

mod comparison;
mod config;
mod encoding;
pub(crate) mod fields;
mod random;
mod stimulus;

pub use comparison::{Comparison, ComparisonKind, ComparisonResult, Method};
pub use config::TestConfig;
pub(crate) use config::check;
pub use stimulus::{Distribution, Stimulus, generate_entry};
