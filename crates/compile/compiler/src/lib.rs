//! The compiler: from a graph to a package.
//!
//! The stages are modules: `specialise` (shape inference, constant folding), `optimise` (rewrites:
//! cleaning, fusion, layout), `place` (backends), `memory` (the memory plan), `lower` (the host
//! program), `pack` (the package's contents). All are deterministic: equal graphs and options give
//! equal bytes.
//!
//! ```
//! use tenon_compiler::{Options, compile};
//! use tenon_graph::Graph;
//! let graph: Graph = "graph \"g\" (%x: f32[2]) -> (%y: f32[2]) {
//!   %y = Neg(%x)
//! }"
//! .parse()?;
//! let mut registry = tenon_backend::Registry::new();
//! registry.register(std::sync::Arc::new(tenon_cpu_ref::CpuRef))?;
//! let mut options = Options::new(&registry);
//! options.backends = vec![tenon_backend::BackendId::new("CpuRef")];
//! let compiled = compile(graph, &options)?;
//! assert_eq!(compiled.placement.to_string(), "1 op: 1 CpuRef");
//! # Ok::<(), tenon_base::Error>(())
//! ```

#![forbid(unsafe_code)]

mod clean;
mod compile;
mod control;
mod cut;
mod data_sizes;
mod element_sources;
mod fuse;
mod host;
mod infer;
mod layout;
mod lists;
mod lower;
mod memory;
mod netlist;
mod optimise;
mod outputs;
mod pack;
mod pads;
mod place;
mod precision;
mod quantize;
mod rewrite;
mod shape_inputs;
mod single;
mod specialise;
mod states;
mod strings;
mod symbolic;
mod traffic;

pub use compile::{Compiled, DEFAULT_BACKENDS, Options, compile, place_graph};
pub use cut::{CompiledNodes, CpuNode, compile_nodes};
pub use data_sizes::counts_elements;
pub use netlist::{
    LoweredNetlist, LoweredProgram, NetlistOptions, NetlistOutput, NetlistPackage, NumericMode,
    lower_netlist,
};
pub use place::{Crossing, Hint, NodePlacement, NodeRefusal, Placement, QueryReason, Target};
pub use precision::{Precision, PrecisionRule, Precisions, narrow_weights};
pub use shape_inputs::shape_inputs;
pub use single::{SingleNode, compile_single};
pub use specialise::specialise;
pub use states::StateSelection;
pub use tenon_plan::{
    Bin, Block, Constant, GreedyBySize, MEMORY_STRATEGIES, MemoryStrategy, SingleAxisPriority,
    memory_strategy,
};
