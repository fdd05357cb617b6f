//! Netlists of BUDA: graphs of ops on grids of cores, their queues, and the programs that run them
//! (docs/netlists.md).
//!
//! * [`read`] parses YAML into a [`Netlist`] whose values have source spans.
//! * The `Display` of a [`Netlist`] is YAML in canonical layout that parses back to an equal netlist;
//!   [`format_with_comments`] preserves comments.
//! * [`check`] checks the rules of the language; [`TileShape`] is the shape inference of TMs.
//! * [`check_device`] checks whether a [`Device`] can hold and run a netlist.
//! * [`testing`] reads the test configuration of a netlist: input data and comparison of outputs.
//! * [`MemoryUsage`] is the memory footprint; [`GraphEstimate`] and [`PerformanceCheck`] are about
//!   performance; [`ProgramCode`] prints a program; [`temporal_graphs`] groups concurrent graphs.
//! * The bytes of tiles and of queue buffers are in `tenon-tile`.
//! * [`Rule`] lists the rules; a [`Finding`] is a diagnostic with the source line.
//!
//! ```
//! use tenon_netlist::{Severity, Source, read};
//!
//! let source = Source::new("small.yaml", "devices: {arch: grayskull}\nqueues: {q: {entries: 0}}\n");
//! let parsed = read(&source);
//! assert!(parsed.findings.count(Severity::Error) > 2);
//! let first = parsed.findings.iter().next().unwrap();
//! assert!(first.display(&source).to_string().starts_with("small.yaml:1:1: error:"));
//! ```
#![forbid(unsafe_code)]

mod attributes;
mod code;
mod comments;
mod device;
mod finding;
mod links;
mod nearest;
mod netlist;
mod performance;
mod print;
mod read;
mod rules;
mod shape;
mod source;
mod temporal;
pub mod testing;
mod usage;
mod words;
mod yaml;
mod yaml_scalar;
mod yaml_text;

pub use attributes::{AttributeKey, AttributeType, AttributeValue, Attributes};
pub use code::ProgramCode;
pub use comments::format_with_comments;
pub use device::Device;
pub use finding::{Finding, Findings, Severity};
pub use links::{Links, Node as LinkedNode};
pub use netlist::{
    Address, Blocking, Buffer, FusedOp, Graph, Input, Instruction, Netlist, Op, Operand, Pad,
    Program, Queue, QueueSetting, ScheduledOp, Tm,
};
pub use performance::{
    GraphEstimate, Measurements, Metric, MetricOutcome, OpEstimate, PerformanceCheck,
};
pub use read::{ParsedNetlist, read};
pub use rules::{NOT_CHECKED, Rule, check, check_device};
pub use shape::TileShape;
pub use source::{Source, Span, Spanned};
pub use temporal::temporal_graphs;
pub use tenon_tile::{
    Arch, DataFormat, Layout, Operation, SettingKey, TileBroadcast, UblockOrder, Word,
};
pub use usage::{ChannelUsage, CoreUsage, MemoryUsage};
pub use words::{MathFidelity, Memory, OpKind, QueueKind};
pub use yaml::{MAX_NESTING, Node, NodeKind};
