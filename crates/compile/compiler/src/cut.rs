//! Models with CPU nodes: partitioned into subgraphs that are compiled separately.
//!
//! A node is in the first subgraph after the CPU nodes on which it depends; a CPU node runs after the
//! last subgraph on which it depends.

use crate::compile::{Compiled, Options, compile, compile_inferred, infer_types};
use crate::host::{compile_host, needs_host};
use crate::specialise;
use crate::states::StateSelection;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Attribute, Attributes, Graph, ValueId};
use tenon_neff::{CpuFunction, GraphPort, NodeAttribute, NodeGraph, NodeWork, PackageNode, Wire};
use tenon_tensor::{Buffer, ValueKind};

/// A node that a function of a library computes.
#[derive(Debug, Clone)]
pub struct CpuNode {
    /// Its name.
    pub name: String,
    /// The operator that it implements, for reports.
    pub operator: String,
    /// Its attributes; tensor attributes are not supported.
    pub attributes: Attributes,
    /// Names of the values that it reads: outputs of the graph, or inputs.
    pub inputs: Vec<String>,
    /// Names of the values that it produces: inputs of the graph, with their types.
    pub outputs: Vec<String>,
    /// The library.
    pub library: Buffer,
    /// The function's symbol in it.
    pub symbol: String,
}

/// A compiled model with CPU nodes.
#[derive(Debug, Clone)]
pub struct CompiledNodes {
    /// The package, to be written.
    pub nodes: NodeGraph,
    /// The subgraphs in order, at least one.
    pub parts: Vec<Compiled>,
}

/// Compiles a graph from which `cpu_nodes` were removed, given in topological order. The first
/// `outputs` of the graph's outputs are the model's. Without CPU nodes it is one subgraph.
///
/// # Errors
/// Those of [`compile`], and a model that has CPU nodes only.
pub fn compile_nodes(
    graph: Graph,
    cpu_nodes: Vec<CpuNode>,
    outputs: usize,
    options: &Options<'_>,
) -> Result<CompiledNodes> {
    let compiled = compile_parts(graph, cpu_nodes, outputs, options)?;
    let graphs = compiled.parts.iter().map(|part| &part.graph);
    options.precisions.check(graphs)?;
    Ok(compiled)
}

fn compile_parts(
    mut graph: Graph,
    cpu_nodes: Vec<CpuNode>,
    outputs: usize,
    options: &Options<'_>,
) -> Result<CompiledNodes> {
    if cpu_nodes.is_empty() {
        let names = infer_types(&mut graph, options)?;
        if needs_host(&graph) {
            // A subgraph reads weights as constants, not from another subgraph.
            specialise::fold_weights(&mut graph, options.registry, &options.control)?;
            return compile_host(graph, options);
        }
        let compiled = compile_inferred(graph, &names, options)?;
        return Ok(CompiledNodes {
            nodes: compiled.contents.clone().into(),
            parts: vec![compiled],
        });
    }
    check_symbols(&cpu_nodes)?;
    specialise::name_nodes(&mut graph);
    specialise::set_constants(&mut graph, &options.constants)?;
    specialise::specialise(&mut graph, options.registry, &options.control)?;
    if needs_host(&graph) {
        let text = "sizes that depend on data, or control flow, in a model with CPU nodes";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let stages = Stages::of(&graph, &cpu_nodes)?;
    let name = options.name.clone().unwrap_or_else(|| graph.name.clone());
    let options = Options {
        constants: BTreeMap::new(),
        states: StateSelection::None,
        name: Some(name.clone()),
        ..options.clone()
    };
    let mut sources = ValueSources::of_inputs(&graph, &cpu_nodes);
    let mut parts = Vec::new();
    let mut nodes = Vec::new();
    stages.calls_after(None, &cpu_nodes, &graph, &mut sources, &mut nodes)?;
    for part in 0..stages.count {
        let mut subgraph = stages.graph(&graph, part);
        if part > 0 {
            subgraph.metadata.clear();
        }
        let compiled = compile(subgraph, &options)?;
        let tenon = &compiled.contents.tenon;
        let inputs = tenon.inputs.iter().map(|port| sources.wire(&port.name));
        let inputs = inputs.collect::<Result<_>>()?;
        let outputs = tenon.outputs.iter().map(|port| port.name.clone());
        sources.node(nodes.len(), outputs);
        nodes.push(PackageNode::core(part, inputs, compiled.contents.clone()));
        parts.push(compiled);
        stages.calls_after(Some(part), &cpu_nodes, &graph, &mut sources, &mut nodes)?;
    }
    let wires = graph.outputs.iter().take(outputs);
    let wires = wires.map(|&id| sources.wire(&graph.value(id).name));
    let nodes = NodeGraph {
        name,
        outputs: wires.collect::<Result<_>>()?,
        inputs: sources.inputs,
        nodes,
    };
    Ok(CompiledNodes { nodes, parts })
}

/// Checks that each library contains the text of its symbol, without loading it.
fn check_symbols(cpu_nodes: &[CpuNode]) -> Result<()> {
    let problem = |node: &CpuNode| {
        let wrong = |text: String| {
            let error = Error::new(ErrorKind::InvalidArgument, text);
            Some(error.at(Location::node(&node.name)))
        };
        if !node.library.starts_with(b"\x7fELF") {
            return wrong("the file given for it is no shared library (ELF)".into());
        }
        let name = [b"\0", node.symbol.as_bytes(), b"\0"].concat();
        if node.symbol.is_empty() || !node.library.windows(name.len()).any(|part| part == name) {
            return wrong(format!(
                "the library given for it has no symbol '{}'",
                node.symbol
            ));
        }
        None
    };
    Error::from_all(cpu_nodes.iter().filter_map(problem)).map_or(Ok(()), Err)
}

/// The subgraph of each node, and the subgraph after which each CPU node runs.
struct Stages {
    /// For each node its subgraph.
    of_node: Vec<usize>,
    /// For each CPU node the subgraph before it; `None` before all subgraphs.
    after: Vec<Option<usize>>,
    count: usize,
    /// Values that CPU nodes, other subgraphs or the caller read.
    exported: BTreeSet<ValueId>,
}

impl Stages {
    fn of(graph: &Graph, cpu_nodes: &[CpuNode]) -> Result<Self> {
        let ids = by_name(graph);
        let mut walk = StageAssignment {
            graph,
            cpu_nodes,
            call_of: HashMap::new(),
            after: vec![None; cpu_nodes.len()],
            of_value: HashMap::new(),
        };
        for (call, node) in cpu_nodes.iter().enumerate() {
            let outputs = node
                .outputs
                .iter()
                .filter_map(|name| ids.get(name.as_str()));
            walk.call_of.extend(outputs.map(|&value| (value, call)));
        }
        // Both lists are in topological order, so that CPU nodes are reached in their order.
        let mut of_node = Vec::with_capacity(graph.nodes.len());
        let mut scheduled = 0;
        for node in &graph.nodes {
            for &input in node.inputs.iter().flatten() {
                if let Some(&call) = walk.call_of.get(&input) {
                    while scheduled <= call {
                        walk.schedule(scheduled, &ids);
                        scheduled += 1;
                    }
                }
            }
            let stages = node.inputs.iter().flatten().map(|&input| walk.stage(input));
            let stage = stages.max().unwrap_or(0);
            let outputs = node.outputs.iter().flatten();
            walk.of_value.extend(outputs.map(|&value| (value, stage)));
            of_node.push(stage);
        }
        (scheduled..cpu_nodes.len()).for_each(|call| walk.schedule(call, &ids));
        let StageAssignment {
            after, of_value, ..
        } = walk;
        let constants = graph
            .outputs
            .iter()
            .any(|&id| graph.value(id).constant.is_some());
        let last = of_node.iter().copied().max().or(constants.then_some(0));
        let Some(last) = last else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the model has CPU nodes only",
            ));
        };
        let mut exported: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
        for (node, &stage) in graph.nodes.iter().zip(&of_node) {
            let inputs = node.inputs.iter().flatten();
            exported.extend(inputs.filter(|input| {
                of_value
                    .get(input)
                    .is_some_and(|&producer| producer != stage)
            }));
        }
        Ok(Self {
            of_node,
            after,
            count: last + 1,
            exported,
        })
    }

    /// The nodes of one subgraph as a graph.
    fn graph(&self, whole: &Graph, part: usize) -> Graph {
        let mut graph = whole.clone();
        let mut stages = self.of_node.iter();
        graph.nodes.retain(|_| stages.next() == Some(&part));
        let nodes = || graph.nodes.iter();
        let produced: BTreeSet<ValueId> = nodes()
            .flat_map(|node| &node.outputs)
            .flatten()
            .copied()
            .collect();
        let read: BTreeSet<ValueId> = nodes()
            .flat_map(|node| &node.inputs)
            .flatten()
            .copied()
            .collect();
        let is_constant = |id: &ValueId| whole.value(*id).constant.is_some();
        let outputs = self.exported.iter().copied();
        let outputs = outputs.filter(|id| produced.contains(id) || part == 0 && is_constant(id));
        let inputs = read.iter().copied();
        let inputs = inputs.filter(|id| !produced.contains(id) && !is_constant(id));
        (graph.inputs, graph.outputs) = (inputs.collect(), outputs.collect());
        graph.remove_dead();
        graph
    }

    /// Adds the CPU nodes that run after subgraph `part`, or before all.
    fn calls_after(
        &self,
        part: Option<usize>,
        cpu_nodes: &[CpuNode],
        graph: &Graph,
        sources: &mut ValueSources,
        nodes: &mut Vec<PackageNode>,
    ) -> Result<()> {
        let ids = by_name(graph);
        for (node, _) in cpu_nodes
            .iter()
            .zip(&self.after)
            .filter(|(_, after)| **after == part)
        {
            let port = |name: &String| {
                let id = ids.get(name.as_str());
                port(graph, name, id.copied()).map_err(|error| error.at(Location::node(&node.name)))
            };
            let inputs = node.inputs.iter().map(|name| sources.wire(name));
            let inputs = inputs.collect::<Result<_>>()?;
            sources.node(nodes.len(), node.outputs.iter().cloned());
            nodes.push(PackageNode {
                name: node.name.clone(),
                inputs,
                work: NodeWork::Cpu(CpuFunction {
                    symbol: node.symbol.clone(),
                    library: node.library.clone(),
                    operator: node.operator.clone(),
                    attributes: attributes(node)?,
                    outputs: node.outputs.iter().map(port).collect::<Result<_>>()?,
                }),
            });
        }
        Ok(())
    }
}

/// The attributes of a CPU node for the package.
fn attributes(node: &CpuNode) -> Result<Vec<(String, NodeAttribute)>> {
    let stored = |(name, value): (&str, &Attribute)| {
        let value = match value {
            Attribute::Int(value) => NodeAttribute::Int(*value),
            Attribute::Float(value) => NodeAttribute::Float(*value),
            Attribute::String(text) => NodeAttribute::String(text.clone()),
            Attribute::Ints(values) => NodeAttribute::Ints(values.clone()),
            Attribute::Floats(values) => NodeAttribute::Floats(values.clone()),
            Attribute::Strings(texts) => NodeAttribute::Strings(texts.clone()),
            Attribute::Tensor(_) => {
                let text = format!(
                    "attribute '{name}' is a tensor, which functions of libraries do not take"
                );
                let error = Error::new(ErrorKind::Unsupported, text);
                return Err(error
                    .help("make it an input of the node")
                    .at(Location::node(&node.name)));
            }
        };
        Ok((name.to_owned(), value))
    };
    node.attributes.iter().map(stored).collect()
}

/// The traversal that assigns stages.
struct StageAssignment<'a> {
    graph: &'a Graph,
    cpu_nodes: &'a [CpuNode],
    /// For each value of a CPU node its position.
    call_of: HashMap<ValueId, usize>,
    after: Vec<Option<usize>>,
    /// For each other value the subgraph that produces it.
    of_value: HashMap<ValueId, usize>,
}

impl StageAssignment<'_> {
    /// The first subgraph in which a value can be read.
    fn stage(&self, value: ValueId) -> usize {
        match self.call_of.get(&value) {
            Some(&call) => self.after[call].map_or(0, |after| after + 1),
            None => self.of_value.get(&value).copied().unwrap_or(0),
        }
    }

    /// Determines the subgraph after which a CPU node runs.
    fn schedule(&mut self, call: usize, ids: &HashMap<&str, ValueId>) {
        let inputs = self.cpu_nodes[call].inputs.iter();
        let inputs = inputs.filter_map(|name| ids.get(name.as_str()));
        let after = inputs.filter_map(|value| match self.call_of.get(value) {
            Some(&other) => self.after[other],
            // Constants are outputs of the first subgraph.
            None if self.graph.value(*value).constant.is_some() => Some(0),
            None => self.of_value.get(value).copied(),
        });
        self.after[call] = after.max();
    }
}

/// The sources of values, by name.
struct ValueSources {
    inputs: Vec<GraphPort>,
    wires: HashMap<String, Wire>,
}

impl ValueSources {
    /// The caller's inputs: those of the graph that no CPU node produces.
    fn of_inputs(graph: &Graph, cpu_nodes: &[CpuNode]) -> Self {
        let of_calls: BTreeSet<&String> = cpu_nodes.iter().flat_map(|node| &node.outputs).collect();
        let mut sources = Self {
            inputs: Vec::new(),
            wires: HashMap::new(),
        };
        for &id in &graph.inputs {
            let name = &graph.value(id).name;
            if of_calls.contains(name) {
                continue;
            }
            if let Ok(port) = port(graph, name, Some(id)) {
                sources
                    .wires
                    .insert(name.clone(), Wire::Input(sources.inputs.len()));
                sources.inputs.push(port);
            }
        }
        sources
    }

    /// Records that node `node` produces these values.
    fn node(&mut self, node: usize, names: impl Iterator<Item = String>) {
        let wires = names
            .enumerate()
            .map(|(output, name)| (name, Wire::Output { node, output }));
        self.wires.extend(wires);
    }

    fn wire(&self, name: &str) -> Result<Wire> {
        self.wires
            .get(name)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("value '{name}' has no source")))
    }
}

fn by_name(graph: &Graph) -> HashMap<&str, ValueId> {
    let values = graph.values.iter().enumerate();
    let named = values.map(|(id, value)| (value.name.as_str(), ValueId(id as u32)));
    named.collect()
}

fn port(graph: &Graph, name: &str, id: Option<ValueId>) -> Result<GraphPort> {
    let ty = id.and_then(|id| graph.value(id).ty.as_ref());
    let ty = ty.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidModel,
            format!("value '{name}' has no type"),
        )
    })?;
    Ok(GraphPort {
        kind: ValueKind::Tensor,
        name: name.to_owned(),
        dtype: ty.dtype(),
        shape: (&**ty.shape()).into(),
    })
}
