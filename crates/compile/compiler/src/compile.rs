//! The pipeline from a graph to a package.

use crate::host::needs_host;
use crate::optimise::Optimised;
use crate::place::{BackendSelector, Hint, Placement};
use crate::precision::{self, Precisions};
use crate::specialise::Folding;
use crate::states::{self, StateSelection};
use crate::{lower, memory, optimise, outputs, pack, pads, place, specialise, symbolic};
use std::collections::BTreeMap;
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_bef::Module;
use tenon_graph::Graph;
use tenon_neff::{Contents, StateInfo};
use tenon_plan::{MEMORY_STRATEGIES, MemoryStrategy};
use tenon_tensor::Tensor;

/// The default backends, in order of preference.
pub const DEFAULT_BACKENDS: [BackendId; 2] = [BackendId::new("CpuAcc"), BackendId::new("CpuRef")];

/// How to compile.
#[derive(Clone)]
pub struct Options<'a> {
    /// The backends in order of preference; [`DEFAULT_BACKENDS`].
    pub backends: Vec<BackendId>,
    /// Backends that some nodes are offered to first; the first hint that matches a node applies.
    pub hints: Vec<Hint>,
    /// The precision of products.
    pub precisions: Precisions,
    /// All backends; constants are folded with them too.
    pub registry: &'a Registry,
    /// The instruction sets that prepared constants may require.
    pub cpu: CpuLevel,
    /// How intermediate values share memory; the first of [`MEMORY_STRATEGIES`].
    pub memory_strategy: &'a dyn MemoryStrategy,
    /// Values of inputs that are known when compiling, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// Keeps the plain form of constants whose users all read a prepared form with an exact inverse.
    pub keep_plain: bool,
    /// Lets the host program compute operators whose outputs have extents that are no expressions of the model's
    /// symbols; else they are errors.
    pub open_extents: bool,
    /// The outputs that are inputs of the next execution. Packages with CPU nodes or a host function declare none.
    pub states: StateSelection,
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
            precisions: Precisions::default(),
            registry,
            cpu: CpuLevel::default(),
            memory_strategy: MEMORY_STRATEGIES[0],
            constants: BTreeMap::new(),
            keep_plain: false,
            open_extents: false,
            states: StateSelection::None,
            name: None,
            control: Control::new(),
        }
    }
}

/// A compiled graph.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The package, to be written.
    pub contents: Contents,
    /// The host program of the package.
    pub module: Module,
    /// The graph that was placed: optimised, in execution order.
    pub graph: Graph,
    /// Which backend each node runs on; its `Display` is the summary in a line.
    pub placement: Placement,
}

/// Compiles a graph.
///
/// # Errors
/// Constants that match no input, nodes with wrong types or unknown shapes, nodes that no backend
/// supports (all problems of a stage together), and those of [`Control::check`].
pub fn compile(mut graph: Graph, options: &Options<'_>) -> Result<Compiled> {
    let names = infer_types(&mut graph, options)?;
    compile_inferred(graph, &names, options)
}

/// The stages before optimisation: names of nodes, constants, types. DequantizeLinear of weights is not folded. Returns
/// the names of the outputs.
pub(crate) fn infer_types(graph: &mut Graph, options: &Options<'_>) -> Result<Vec<String>> {
    BackendSelector::new(options.registry, &options.backends, &options.hints)?;
    let names = outputs::names(graph);
    specialise::name_nodes(graph);
    specialise::set_constants(graph, &options.constants)?;
    specialise::specialise_with(
        graph,
        options.registry,
        &options.control,
        (options.open_extents, Folding::ExceptWeights),
    )?;
    Ok(names)
}

/// The stages after [`infer_types`].
pub(crate) fn compile_inferred(
    mut graph: Graph,
    names: &[String],
    options: &Options<'_>,
) -> Result<Compiled> {
    let control = &options.control;
    let selector = BackendSelector::new(options.registry, &options.backends, &options.hints)?;
    if needs_host(&graph) {
        let text =
            "sizes that depend on data, or control flow, in a graph that becomes one subgraph";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let states = states::declare(&mut graph, &options.states)?;
    let mut optimised = optimise::optimise(&mut graph, options.registry, &selector, control)?;
    let applied = precision::apply(&mut graph, &selector, &options.precisions)?;
    optimised.notes.extend(applied.notes);
    pads::add_default_fill(&mut graph)?;
    outputs::restore(&mut graph, names)?;
    let mut compiled = finish(graph, names, optimised, options)?;
    for node in &mut compiled.placement.nodes {
        if let (None, Some(original)) = (&node.replaced, applied.originals.get(&node.node)) {
            node.replaced = Some(original.clone());
        }
    }
    let states = states.into_iter().map(|state| StateInfo {
        output: state.output,
        input: state.input,
    });
    compiled.contents.tenon.states = states.collect();
    Ok(compiled)
}

/// Places the nodes of a graph without optimising it. Inserts casts around nodes in a wider type, and
/// the substitutions of backends.
///
/// # Errors
/// Unknown backends, hints that match no node, and nodes that no backend supports.
pub fn place_graph(graph: &mut Graph, options: &Options<'_>) -> Result<Placement> {
    let selector = BackendSelector::new(options.registry, &options.backends, &options.hints)?;
    place::place(graph, &selector, &options.control)
}

/// The stages from placement on, for an optimised graph, the names of its outputs, and what its optimisation did.
pub(crate) fn finish(
    mut graph: Graph,
    names: &[String],
    optimised: Optimised,
    options: &Options<'_>,
) -> Result<Compiled> {
    let control = &options.control;
    graph.remove_dead();
    tenon_graph::verify(&graph)?;
    control.progress("place", 0, 1)?;
    let mut placement = place_graph(&mut graph, options)?;
    placement.notes.splice(..0, optimised.notes);
    placement.traffic.fused = optimised.fused;
    tenon_graph::verify(&graph)?;
    symbolic::complete_extents(&mut graph)?;
    let mut memory = memory::plan(
        &graph,
        &placement,
        options.registry,
        options.cpu,
        options.memory_strategy,
        control,
    )?;
    if !options.keep_plain {
        memory.remove_plain_forms(&graph);
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
