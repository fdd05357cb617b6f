//! Netlists without a package: read, checked, loaded and run; compiled into packages; compared with a
//! plain implementation; drawn (docs/netlists.md).
//!
//! This module contains everything of the crate of the format (`tenon-netlist`). A [`Job`] runs the
//! programs of a netlist on arrays; a [`Session`] gives access to the queues while programs run.
//!
//! ```
//! use std::time::Duration;
//! use tenon::Tensor;
//! use tenon::netlist::{ProgramOptions, Session, SessionOptions, Source};
//!
//! let text = "\
//! devices: {arch: grayskull}
//! queues:
//!   x: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1],
//!       df: Float32, target_device: 0, loc: dram, dram: [[0, 0x10000000]]}
//!   y: {type: queue, input: square, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1],
//!       ublock: [1, 1], df: Float32, target_device: 0, loc: dram, dram: [[0, 0x20000000]]}
//! graphs:
//!   squares:
//!     target_device: 0
//!     input_count: 1
//!     square: {type: multiply, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, x],
//!       in_df: [Float32, Float32], acc_df: Float16, out_df: Float32, intermed_df: Float32,
//!       ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: 1, mblock: [1, 1], ublock: [1, 1]}
//! programs:
//!   - run:
//!     - var: {$zero: 0}
//!     - execute: {graph_name: squares, queue_settings: {
//!         x: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, rd_ptr_global: $zero}}}
//! ";
//! let source = Source::new("squares.yaml", text);
//! let session = Session::load(&source, &SessionOptions::new())?;
//! let x = Tensor::from_slice([1, 32, 32], &[3.0f32; 1024])?;
//! session.push("x", &x, Duration::ZERO)?;
//! session.run("run", &ProgramOptions::new())?;
//! let y = session.pop("y", Duration::ZERO)?;
//! assert_eq!(y.as_slice::<f32>().unwrap()[0], 9.0);
//! # Ok::<(), tenon::Error>(())
//! ```

mod input;
mod job;
mod job_options;
mod package;
mod performance;
mod picture;
mod schedule;
mod self_test;
mod session;
mod session_options;
mod table;

pub use input::{choose_arch, find_device, read_source};
pub use job::{JobOutcome, default_params};
pub use job_options::Job;
pub use package::CompiledNetlist;
pub use performance::{GraphRow, MetricRow};
pub use picture::pictures;
pub use self_test::{QueueAgreement, SelfTest};
pub use session::Session;
pub use session_options::{ProgramOptions, SessionOptions};
pub use table::OpRow;

pub use tenon_compiler::{LoweredProgram, NumericMode};
pub use tenon_netlist::*;
pub use tenon_netlist_kernels::{MachineLimits, QueueSpec};
