//! Graphs with sizes that depend on data, and with control flow: the nodes between two such sizes become a subgraph,
//! which is compiled by itself, and a host program calls the subgraphs in order. Operators that count elements are
//! kernels of the host program, the bodies of control flow are its functions (docs/package.md, "Host functions").

mod program;

use crate::compile::{Compiled, Options, compile};
use crate::cut::CompiledNodes;
use crate::data_sizes::is_host_node;
use program::HostProgram;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Function, Module};
use tenon_graph::{DataSizeSource, Graph, Node, ValueId};
use tenon_neff::{ModelInfo, NodeGraph, PackageNode, Wire};
use tenon_tensor::size::{SizeExpr, SymbolId, Symbols};

/// Whether a graph is compiled into subgraphs that a host program calls.
pub(crate) fn needs_host(graph: &Graph) -> bool {
    let on_host = |node: &Node| node.is_control() || graph.is_on_host(node);
    let mut ports = graph.inputs.iter().chain(&graph.outputs);
    !graph.data_sizes.is_empty()
        || graph.nodes.iter().any(on_host)
        || ports.any(|&id| graph.is_host_value(id))
}

/// Compiles a graph whose types are inferred, with sizes that depend on data or control flow.
///
/// # Errors
/// Those of [`compile`], and constants of the host program that are too large.
pub(crate) fn compile_host(graph: Graph, options: &Options<'_>) -> Result<CompiledNodes> {
    let name = options.name.clone().unwrap_or_else(|| graph.name.clone());
    let mut compiler = HostCompiler {
        graph: &graph,
        options: Options {
            constants: BTreeMap::new(),
            name: Some(name.clone()),
            ..options.clone()
        },
        module: Module::new(),
        parts: Vec::new(),
        nodes: Vec::new(),
    };
    let input_symbols = graph.symbols.len() - graph.data_sizes.len();
    let main = compiler.function(FunctionBody {
        name: "main",
        nodes: &graph.nodes,
        tensors: &graph.inputs,
        sizes: &(0..input_symbols as u32).map(SymbolId).collect::<Vec<_>>(),
        outputs: &graph.outputs,
    })?;
    compiler.module.add(main);
    let HostCompiler {
        module,
        parts,
        mut nodes,
        ..
    } = compiler;
    let model = ModelInfo {
        name: name.clone(),
        metadata: graph.metadata.clone(),
    };
    let host = program::host_function(&graph, &module, model, input_symbols)?;
    let (node, outputs) = (nodes.len(), 0..host.outputs.len());
    let inputs = host.inputs.clone();
    nodes.push(PackageNode::host(host));
    let nodes = NodeGraph {
        name,
        inputs,
        outputs: outputs
            .map(|output| Wire::Output { node, output })
            .collect(),
        nodes,
    };
    Ok(CompiledNodes { nodes, parts })
}

/// The subgraphs and functions that are compiled so far.
struct HostCompiler<'a> {
    graph: &'a Graph,
    options: Options<'a>,
    module: Module,
    parts: Vec<Compiled>,
    nodes: Vec<PackageNode>,
}

/// The nodes of a function of the host program.
struct FunctionBody<'a, 'b> {
    name: &'b str,
    nodes: &'a [Node],
    /// The values that are its first arguments.
    tensors: &'b [ValueId],
    /// The sizes that are its next arguments.
    sizes: &'b [SymbolId],
    outputs: &'b [ValueId],
}

impl<'a> HostCompiler<'a> {
    /// Compiles the nodes of a function: those of subgraphs, and functions for the bodies of others.
    fn function(&mut self, body: FunctionBody<'a, '_>) -> Result<Function> {
        let mut program = HostProgram::new(self.graph, &body);
        let outputs = body.outputs.to_vec();
        self.statements(&body, &mut program)?;
        program.returns(&outputs)
    }

    /// Adds the calls and operators of a function's nodes.
    fn statements(
        &mut self,
        body: &FunctionBody<'a, '_>,
        program: &mut HostProgram<'a>,
    ) -> Result<()> {
        let stages = Stages::of(self.graph, body);
        self.host_nodes(&stages, None, program)?;
        for stage in 0..stages.count {
            if let Some((subgraph, symbols)) = stages.graph(stage) {
                let compiled = compile(subgraph, &self.options)?;
                let index = self.nodes.len();
                program.call(index, &compiled.contents.tenon, &symbols)?;
                let contents = compiled.contents.clone();
                self.nodes
                    .push(PackageNode::core(index, Vec::new(), contents));
                self.parts.push(compiled);
            }
            self.host_nodes(&stages, Some(stage), program)?;
        }
        Ok(())
    }

    /// Adds the nodes that the host program executes after a subgraph, or before all.
    fn host_nodes(
        &mut self,
        stages: &Stages<'a>,
        after: Option<usize>,
        program: &mut HostProgram<'a>,
    ) -> Result<()> {
        for node in stages.host_nodes(after) {
            let added = match node.op.name {
                _ if !node.is_control() => program.operator(node),
                "If" => self.branches(node, program),
                _ => self.iterations(node, program),
            };
            added.map_err(|error| error.at(Location::node(node.name.as_str())))?;
        }
        Ok(())
    }

    /// An If: a function for each branch.
    fn branches(&mut self, node: &'a Node, program: &mut HostProgram<'a>) -> Result<()> {
        let captured = Captured::of(self.graph, node, 1);
        let mut functions = Vec::new();
        for (body, kind) in self.graph.bodies_of(node).zip(["then", "else"]) {
            let function = self.function(FunctionBody {
                name: &format!("{}.{kind}", node.name),
                nodes: &body.nodes,
                tensors: &captured.tensors,
                sizes: &captured.sizes,
                outputs: &body.outputs,
            })?;
            functions.push(self.module.add(function));
        }
        program.branch(node, &captured, &functions)
    }

    /// A Loop: a function for its body.
    fn iterations(&mut self, node: &'a Node, program: &mut HostProgram<'a>) -> Result<()> {
        let states = usize::try_from(node.attributes.int("states", 0)?).unwrap_or(0);
        let captured = Captured::of(self.graph, node, 2 + states);
        let mut bodies = self.graph.bodies_of(node);
        let Some(body) = bodies.next() else {
            return Err(Error::new(ErrorKind::Internal, "a Loop without a body"));
        };
        let name = format!("{}.body", node.name);
        let mut iteration = HostProgram::iteration(self.graph, &name, body, &captured);
        let statements = FunctionBody {
            name: &name,
            nodes: &body.nodes,
            tensors: &[],
            sizes: &[],
            outputs: &body.outputs,
        };
        self.statements(&statements, &mut iteration)?;
        let function = self
            .module
            .add(iteration.end_of_iteration(body, &captured)?);
        program.repeat(node, &captured, function)
    }
}

/// What the bodies of a node read from outside.
struct Captured {
    tensors: Vec<ValueId>,
    sizes: Vec<SymbolId>,
}

impl Captured {
    /// The inputs of a node of control flow from `first` on that are unknown, and the sizes that its bodies use.
    fn of(graph: &Graph, node: &Node, first: usize) -> Self {
        let tensors: BTreeSet<ValueId> =
            node.inputs.iter().skip(first).flatten().copied().collect();
        let unknown = |id: &ValueId| graph.value(*id).known().is_none();
        Self {
            tensors: tensors.into_iter().filter(unknown).collect(),
            sizes: captured_sizes(graph, node).into_iter().collect(),
        }
    }
}

/// The symbols that the bodies of a node use and do not define.
fn captured_sizes(graph: &Graph, node: &Node) -> BTreeSet<SymbolId> {
    let mut used = BTreeSet::new();
    let mut defined = BTreeSet::new();
    for body in graph.bodies_of(node) {
        let mut values: BTreeSet<ValueId> = body.inputs.iter().copied().collect();
        for node in &body.nodes {
            values.extend(node.outputs.iter().flatten());
            used.extend(symbols_of(graph, node));
            used.extend(captured_sizes(graph, node));
        }
        used.extend(
            body.outputs
                .iter()
                .flat_map(|&id| symbols_of_value(graph, id)),
        );
        let sizes = graph.data_sizes.iter();
        let own = sizes.filter(|size| values.contains(&size.value));
        defined.extend(own.map(|size| size.symbol));
    }
    used.retain(|symbol| !defined.contains(symbol));
    used
}

/// Where a value or a size is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Available {
    /// The first subgraph that can use it.
    subgraph: usize,
    /// The subgraph after which the host can use it; `None` before all.
    host: Option<usize>,
}

impl Available {
    fn max(self, other: Self) -> Self {
        Self {
            subgraph: self.subgraph.max(other.subgraph),
            host: self.host.max(other.host),
        }
    }
}

/// The place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In this subgraph.
    Subgraph(usize),
    /// A kernel of the host program after this subgraph, or before all.
    Host(Option<usize>),
}

/// The places of the nodes of a function. A node is in the first subgraph in which all its inputs and sizes are known.
struct Stages<'a> {
    graph: &'a Graph,
    nodes: &'a [Node],
    of_node: Vec<Stage>,
    /// The number of subgraphs.
    count: usize,
    /// Values that the host program, other subgraphs or the caller read.
    exported: BTreeSet<ValueId>,
}

impl<'a> Stages<'a> {
    fn of(graph: &'a Graph, body: &FunctionBody<'a, '_>) -> Self {
        let mut values: HashMap<ValueId, Available> = HashMap::new();
        let mut sizes: HashMap<SymbolId, Available> = HashMap::new();
        let mut definitions: HashMap<ValueId, Vec<SymbolId>> = HashMap::new();
        for size in &graph.data_sizes {
            definitions.entry(size.value).or_default().push(size.symbol);
        }
        let mut of_node = Vec::with_capacity(body.nodes.len());
        let mut count = 0;
        for node in body.nodes {
            let outputs = || node.outputs.iter().flatten();
            let inputs = node.inputs.iter().flatten();
            let known = inputs.filter_map(|input| values.get(input).copied());
            let own = |symbol: &SymbolId| {
                outputs().any(|id| definitions.get(id).is_some_and(|own| own.contains(symbol)))
            };
            let inner = captured_sizes(graph, node);
            let used = symbols_of(graph, node).into_iter().chain(inner);
            let used = used.filter(|symbol| !own(symbol));
            let used = used.filter_map(|symbol| sizes.get(&symbol).copied());
            let available = known.chain(used).fold(Available::default(), Available::max);
            let (stage, next) = if is_host_node(graph, node) {
                let host = available.host;
                let subgraph = host.map_or(0, |host| host + 1);
                (Stage::Host(host), Available { subgraph, host })
            } else {
                let subgraph = available.subgraph;
                count = count.max(subgraph + 1);
                let host = Some(subgraph);
                (Stage::Subgraph(subgraph), Available { subgraph, host })
            };
            of_node.push(stage);
            for &id in outputs() {
                values.insert(id, next);
                // The host reads a size from a value of a subgraph after it.
                let size = Available {
                    subgraph: next.host.map_or(0, |host| host + 1),
                    host: next.host,
                };
                let defined = definitions.get(&id).into_iter().flatten();
                sizes.extend(defined.map(|&symbol| (symbol, size)));
            }
        }
        let mut stages = Self {
            graph,
            nodes: body.nodes,
            of_node,
            count,
            exported: BTreeSet::new(),
        };
        stages.exported = stages.exported(body.outputs);
        stages
    }

    /// Values that pass between nodes of different places, results of the function, and values that sizes are read from.
    fn exported(&self, outputs: &[ValueId]) -> BTreeSet<ValueId> {
        let mut places: HashMap<ValueId, Stage> = HashMap::new();
        let mut exported: BTreeSet<ValueId> = outputs.iter().copied().collect();
        exported.extend(self.graph.data_sizes.iter().map(|size| size.value));
        for (node, &place) in self.nodes.iter().zip(&self.of_node) {
            let inputs = node.inputs.iter().flatten();
            let other = |id: &&ValueId| places.get(id).is_some_and(|&made| made != place);
            exported.extend(inputs.filter(other));
            places.extend(node.outputs.iter().flatten().map(|&id| (id, place)));
        }
        exported
    }

    /// The kernels of the host program after a subgraph, or before all.
    fn host_nodes(&self, after: Option<usize>) -> impl Iterator<Item = &'a Node> + use<'a> {
        let nodes = self.nodes.iter().zip(self.of_node.clone());
        nodes
            .filter(move |(_, stage)| *stage == Stage::Host(after))
            .map(|(node, _)| node)
    }

    /// The nodes of a subgraph as a graph, and the symbols that it uses; `None` if it has no results.
    fn graph(&self, stage: usize) -> Option<(Graph, Vec<SymbolId>)> {
        let nodes = self.nodes.iter().zip(&self.of_node);
        let nodes = nodes.filter(|(_, place)| **place == Stage::Subgraph(stage));
        let mut graph = Graph {
            name: self.graph.name.clone(),
            values: self.graph.values.clone(),
            nodes: nodes.map(|(node, _)| node.clone()).collect(),
            symbols: self.graph.symbols.clone(),
            example_sizes: self.graph.example_sizes.clone(),
            ..Graph::default()
        };
        let ids = |lists: &mut dyn Iterator<Item = &Vec<Option<ValueId>>>| -> BTreeSet<ValueId> {
            lists.flatten().flatten().copied().collect()
        };
        let produced = ids(&mut graph.nodes.iter().map(|node| &node.outputs));
        let read = ids(&mut graph.nodes.iter().map(|node| &node.inputs));
        let is_known = |id: &ValueId| self.graph.value(*id).known().is_some();
        let outputs = self.exported.iter().copied();
        let inputs = read.iter().copied();
        let inputs = inputs.filter(|id| !produced.contains(id) && !is_known(id));
        graph.inputs = inputs.collect();
        graph.outputs = outputs.filter(|id| produced.contains(id)).collect();
        graph.remove_dead();
        if graph.outputs.is_empty() {
            return None;
        }
        // Those of the nodes that are left: the symbols of other inputs have no size.
        let read = ids(&mut graph.nodes.iter().map(|node| &node.inputs));
        graph.inputs.retain(|id| read.contains(id));
        let nodes = graph.nodes.iter();
        let symbols: BTreeSet<SymbolId> = nodes.flat_map(|node| symbols_of(&graph, node)).collect();
        if symbols.is_empty() {
            graph.symbols = Symbols::none();
            graph.example_sizes.clear();
        }
        Some((graph, symbols.into_iter().collect()))
    }
}

/// The symbols of the extents and sizes of a node's inputs and outputs.
pub(crate) fn symbols_of(graph: &Graph, node: &Node) -> BTreeSet<SymbolId> {
    let ids = node.inputs.iter().chain(&node.outputs).flatten();
    ids.flat_map(|&id| symbols_of_value(graph, id)).collect()
}

/// The symbols of the extents and sizes of a value.
pub(crate) fn symbols_of_value(graph: &Graph, id: ValueId) -> Vec<SymbolId> {
    let value = graph.value(id);
    let elements = value.sizes.as_ref().map(|sizes| &sizes.elements);
    let exprs = value.extents.iter().chain(elements).flatten();
    exprs.flat_map(SizeExpr::symbols).collect()
}

/// The value that a size is read from, and where in it.
fn definition(graph: &Graph, symbol: SymbolId) -> Option<(ValueId, DataSizeSource)> {
    let mut sizes = graph.data_sizes.iter();
    let size = sizes.find(|size| size.symbol == symbol)?;
    Some((size.value, size.source))
}
