//! From a graph to a package: the stages in order.

use crate::arena::{MEMORY_STRATEGIES, MemoryStrategy};
use crate::place::{BackendSelector, Hint, Placement};
use crate::{lower, memory, optimise, outputs, pack, pads, place, specialise};
use std::collections::BTreeMap;
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Control, Result};
use tenon_bef::Module;
use tenon_graph::Graph;
use tenon_neff::Contents;
use tenon_tensor::Tensor;

/// The backends that a model is placed on unless told otherwise, first choice first.
pub const DEFAULT_BACKENDS: [BackendId; 2] = [BackendId::new("CpuAcc"), BackendId::new("CpuRef")];

/// How to compile.
#[derive(Clone)]
pub struct Options<'a> {
    /// Who computes, first choice first; [`DEFAULT_BACKENDS`].
    pub backends: Vec<BackendId>,
    /// Which backends certain nodes are offered to before; the first one of a node's name counts.
    pub hints: Vec<Hint>,
    /// The backends there are; constants are computed through it too.
    pub registry: &'a Registry,
    /// What prepared constants may rely on.
    pub cpu: CpuLevel,
    /// How intermediate values share memory; the first of [`MEMORY_STRATEGIES`].
    pub memory_strategy: &'a dyn MemoryStrategy,
    /// Values of inputs that are known when compiling, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// Keeps the plain form of constants in the package where all their users read a prepared one
    /// that has an exact inverse, too.
    pub keep_plain: bool,
    /// The model's name in the package, instead of the graph's.
    pub name: Option<String>,
    /// Progress, cancel, deadline.
    pub control: Control,
}

impl<'a> Options<'a> {
    /// The defaults, with the backends of `registry`.
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            backends: DEFAULT_BACKENDS.to_vec(),
            hints: Vec::new(),
            registry,
            cpu: CpuLevel::default(),
            memory_strategy: MEMORY_STRATEGIES[0],
            constants: BTreeMap::new(),
            keep_plain: false,
            name: None,
            control: Control::new(),
        }
    }
}

/// What compiling makes.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The package, to be written.
    pub contents: Contents,
    /// The host program, as it stands in the package.
    pub module: Module,
    /// The graph that was placed: optimised, in execution order.
    pub graph: Graph,
    /// Which backend each node runs on; its `Display` is the summary in a line.
    pub placement: Placement,
}

/// Compiles a graph.
///
/// # Errors
/// Constants that fit no input, nodes whose types do not fit or whose shape is not known, nodes
/// that no backend takes (problems of a stage together), and what [`Control::check`] answers.
pub fn compile(mut graph: Graph, options: &Options<'_>) -> Result<Compiled> {
    let control = &options.control;
    let selector = BackendSelector::new(options.registry, &options.backends, &options.hints)?;
    let names = outputs::names(&graph);
    specialise::name_nodes(&mut graph);
    specialise::give_constants(&mut graph, &options.constants)?;
    specialise::specialise(&mut graph, options.registry, control)?;
    optimise::optimise(&mut graph, options.registry, &selector, control)?;
    pads::give_fill(&mut graph)?;
    outputs::restore(&mut graph, &names)?;
    finish(graph, &names, options)
}

/// Places the nodes of a graph as it is: no pass changes it before. Casts are put into it where only a
/// data type is missing, and what backends make of their subgraphs.
///
/// # Errors
/// Backends and hints that are not there, and nodes that no backend takes.
pub fn place_graph(graph: &mut Graph, options: &Options<'_>) -> Result<Placement> {
    let selector = BackendSelector::new(options.registry, &options.backends, &options.hints)?;
    place::place(graph, &selector, &options.control)
}

/// The stages from placing on, for a graph that is as it shall be, with the names of its outputs.
pub(crate) fn finish(
    mut graph: Graph,
    names: &[String],
    options: &Options<'_>,
) -> Result<Compiled> {
    let control = &options.control;
    graph.remove_dead();
    tenon_graph::verify(&graph)?;
    control.progress("place", 0, 1)?;
    let placement = place_graph(&mut graph, options)?;
    tenon_graph::verify(&graph)?;
    let mut memory = memory::plan(
        &graph,
        &placement,
        options.registry,
        options.cpu,
        options.memory_strategy,
        control,
    )?;
    if !options.keep_plain {
        memory.leave_out_plain(&graph);
    }
    let (module, movements) = lower::lower(&graph, &placement, &memory)?;
    control.progress("pack", 0, 1)?;
    let contents = pack::pack(
        &graph, &placement, &memory, &module, movements, names, options,
    )?;
    Ok(Compiled {
        contents,
        module,
        graph,
        placement,
    })
}
