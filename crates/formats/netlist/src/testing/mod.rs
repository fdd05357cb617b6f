//! The test configuration of a netlist (netlist 6.8): arguments, input data, and comparison of outputs.
//!
//! * [`TestConfig::read`] reads the section `test-config`; without the section it has the defaults.
//! * [`generate_entry`] generates an entry of a queue from its [`Stimulus`] and a seed; sparse
//!   encodings are valid.
//! * [`Comparison`] compares two arrays.

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
