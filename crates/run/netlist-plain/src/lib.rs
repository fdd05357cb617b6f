//! The reference implementation of netlists: every op is a loop over elements, as docs/netlists.md
//! defines it (chapters 3 to 6). It shares no code with the fast implementation; `tenon netlist test`
//! compares the two.
//!
//! * A [`Tensor`] has slices of rows and columns of 32 by 32 tiles.
//! * [`ops`] has one function per op, [`tm`] one per tensor manipulation.
//! * [`Machine`] has queues and rams and runs programs; [`HostInputs`] are the arrays of the host.
//! * [`generate_inputs`] generates inputs from the stimulus of the netlist.
#![forbid(unsafe_code)]

mod bands;
mod epoch;
mod error;
mod format;
mod host_inputs;
mod machine;
pub mod ops;
mod order;
mod program;
mod rams;
mod replicas;
mod store;
mod tensor;
pub mod tm;

pub use host_inputs::{Array, HostInputs, generate_inputs};
pub use machine::{Fault, Machine, Options, RunLimits, RunOutcome};
pub use tensor::{TILE, Tensor};
