//! Netlists that run (seed buda-netlist; facts 6, 10).

mod job;
mod package;
mod performance;
mod session;
mod sharing;
mod table;

pub use job::{NetlistJob, NetlistOutcome, netlist_params, run_netlist};
pub use package::{CompiledNetlist, compile_netlist};
pub use performance::{GraphRow, MetricRow};
pub use session::{NetlistLoad, NetlistSession};
pub use table::OpRow;
