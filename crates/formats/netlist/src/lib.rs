//! Netlists: BUDA's graphs of ops on grids of cores, their queues, and the programs that run them
//! (seed buda-netlist; where the code of the original differs, the facts).
//!
//! * [`read`] turns YAML into a [`Netlist`] whose every value knows its place.
//! * A [`Netlist`] displays as YAML in one layout that reads back equal; [`format_with_comments`] keeps comments.
//! * [`check`] holds it against the rules; [`TileShape`] computes shapes through TMs.
//! * [`check_device`] asks whether a [`Device`] can hold and run it.
//! * [`testing`] reads what a netlist says about testing itself: data to run on, how answers compare.
//! * [`MemoryUsage`] counts what it takes of memories, [`GraphEstimate`] and [`PerformanceCheck`] ask how
//!   fast it ought to be; [`ProgramCode`] shows a program, [`temporal_graphs`] what runs together.
//! * The bytes of its data, tiles and buffers of queues, are `tenon-tile`'s.
//! * [`Rule`] lists what may be wrong; a [`Finding`] says where, with the line and a mark under it.
//!
//! ```
//! use tenon_netlist::{Severity, Source, read};
//!
//! let source = Source::new("small.yaml", "devices: {arch: grayskull}\nqueues: {q: {entries: 0}}\n");
//! let read = read(&source);
//! assert!(read.findings.count(Severity::Error) > 2);
//! let first = read.findings.iter().next().unwrap();
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
    Program, Queue, QueueSetting, ScheduledOp, TileBroadcast, Tm,
};
pub use performance::{
    GraphEstimate, Measurements, Metric, MetricOutcome, OpEstimate, PerformanceCheck,
};
pub use read::{ParsedNetlist, read};
pub use rules::{NOT_CHECKED, Rule, check, check_device};
pub use shape::TileShape;
pub use source::{Source, Span, Spanned};
pub use temporal::temporal_graphs;
pub use tenon_tile::{Arch, DataFormat, Layout, Operation, SettingKey, UblockOrder, Word};
pub use usage::{ChannelUsage, CoreUsage, MemoryUsage};
pub use words::{MathFidelity, Memory, OpKind, QueueKind};
pub use yaml::{MAX_NESTING, Node, NodeKind};
