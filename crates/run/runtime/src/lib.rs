//! The runtime: loads packages and executes their models.
//!
//! A [`Runtime`] has backends and kernels. A [`Model`] is a loaded package: its program is bound,
//! its constants are used in the mapped file without a copy, and memory for executions is
//! allocated. Threads share a model; each execution has a separate arena. Steady-state execution
//! does not allocate: see [`Model::execute`] and [`Bindings`].
#![deny(unsafe_code)]

mod activity;
mod arenas;
mod backend_counters;
mod batch;
mod bindings;
mod core_model;
mod core_node;
mod core_program;
mod cores;
mod counters;
mod cpu_node;
mod device_memory;
mod host;
mod inputs;
mod integrity;
mod lifecycle;
mod load;
mod log;
mod model;
mod nan_check;
mod port_names;
mod process_report;
mod profile;
mod requests;
mod runtime;
mod session;
mod shared_folder;
mod substitute;
mod symbolic;
mod tap;
mod target;
mod tensors;
mod transfers;
mod walker;

pub use activity::{ActiveModel, Activity};
pub use backend_counters::CounterProfile;
pub use batch::NamedTensors;
pub use bindings::Bindings;
pub use core_model::{CoreLoad, CoreModel, CorePort};
pub use cores::{
    AllocationLog, Core, CoreClaim, CoreGroup, CoreGuard, CoreMemory, CoreOptions, CoreSelection,
    Cores, MAX_CORES, MemoryLogFile, MemoryUse, Reservation, core_owner, logical_core_size,
    total_cores,
};
pub use counters::{Counters, ExecutionReport, Latencies, Outcome};
pub use device_memory::DeviceMemoryLimit;
pub use lifecycle::RuntimeCounters;
pub use load::LoadOptions;
pub use log::{Component, Log, LogLevel, LogLevels, LogSink};
pub use model::{ExecuteOptions, Model};
pub use nan_check::NanCheck;
pub use process_report::{CoreReport, ModelReport, ProcessReport, Publisher, REPORT_FORMAT};
pub use profile::{KernelProfile, OperatorProfile, PartProfile, Profile};
pub use requests::{
    CompletionCallback, ErrorTracker, ExecutionUnit, RequestQueues, RequestWork, Sequence,
};
pub use runtime::Runtime;
pub use session::Session;
pub use shared_folder::{LOCK_FOLDER, SharedFolder, watched_folders};
pub use substitute::Substitution;
pub use tap::{Tap, TapParts, TapValue};
pub use tenon_backend::WorkloadPart;
/// Inputs and outputs of models, and pairs of them.
pub use tenon_graph::StatePair;
pub use tenon_kernels::DeviceMemory;
pub use tenon_tensor::{Dimension, Signature};
pub use tensors::{CoreTensor, MAX_HOST_BYTES, Placement, TensorSet};
pub use transfers::{
    DescriptorRow, EngineFunction, PackageTransfers, TransferCore, TransferOutcome,
    descriptor_rows, run_transfers,
};
