//! The runtime: loads packages and runs the models in them.
//!
//! A [`Runtime`] knows backends and kernels. A [`Model`] is a package loaded: its program bound,
//! its constants used where they lie in the mapped file, the memory of executions made. A model is
//! shared by threads; each execution has an arena of its own. Steady-state execution allocates
//! nothing: see [`Model::execute`] and [`Bindings`].
#![forbid(unsafe_code)]

mod arenas;
mod bindings;
mod inputs;
mod load;
mod model;
mod profile;
mod runtime;
mod transfers;

pub use bindings::Bindings;
pub use load::LoadOptions;
pub use model::{ExecuteOptions, Model, Signature};
pub use profile::{KernelProfile, OperatorProfile, Profile};
pub use runtime::Runtime;
pub use transfers::{
    DescriptorRow, PackageTransfers, TransferCore, TransferOutcome, descriptor_rows, run_transfers,
};
