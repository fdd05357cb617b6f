//! Netlists run plainly: every op is a loop over elements, as the facts say it (facts 3 to 6 and
//! 10), and nothing is shared with what runs them fast. `tenon netlist test` holds the one against
//! the other.
//!
//! * A [`Tensor`] is slices of rows and columns of 32 by 32 tiles.
//! * [`ops`] has one function an op, [`tm`] one a tensor manipulation.
//! * [`Machine`] holds queues and rams and runs programs; [`HostInputs`] is what the host puts into them.
//! * [`generate_inputs`] makes inputs from the netlist's own stimulus.
#![forbid(unsafe_code)]

mod bands;
mod epoch;
mod feed;
mod format;
mod machine;
pub mod ops;
mod order;
mod program;
mod rams;
mod replicas;
mod store;
mod tensor;
pub mod tm;

pub use feed::{Array, HostInputs, generate_inputs};
pub use machine::{Fault, Machine, Options, RunLimits, RunOutcome};
pub use tensor::{TILE, Tensor};
