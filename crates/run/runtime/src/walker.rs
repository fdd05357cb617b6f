//! The graph walker: executes the nodes of a package in order on the calling thread, and passes
//! tensors between them.

use crate::core_node::CoreNode;
use crate::cpu_node::{CpuNode, Libraries};
use crate::load::signature;
use crate::model::Caller;
use crate::profile::ExecutionObserver;
use crate::{LoadOptions, Runtime, Signature};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_neff::{NodeGraph, NodeWork, PackageNode, Wire};
use tenon_tensor::BufferMut;

/// The nodes of a package in execution order, and the plan of the tensors between them.
pub(crate) struct Walker {
    steps: Vec<Step>,
    /// Bytes of each intermediate tensor.
    intermediates: Vec<usize>,
    /// The source of each output of the caller; `None` if a node writes it directly.
    copied: Vec<Option<Source>>,
    /// Intermediate tensors of finished executions, for reuse.
    spare: Mutex<Vec<Tensors>>,
}

/// The intermediate tensors of one execution; `None` while a node writes one.
type Tensors = Vec<Option<BufferMut>>;

struct Step {
    work: Work,
    inputs: Vec<Source>,
    outputs: Vec<Target>,
}

enum Work {
    Core(Box<CoreNode>),
    Cpu(CpuNode),
}

/// A node of a package.
pub(crate) enum Node<'a> {
    Core(&'a CoreNode),
    Cpu(&'a CpuNode),
}

impl<'a> Node<'a> {
    /// The subgraph, if the node is one.
    pub fn core(self) -> Option<&'a CoreNode> {
        match self {
            Node::Core(core) => Some(core),
            Node::Cpu(_) => None,
        }
    }
}

/// The source of a tensor that is read.
#[derive(Clone, Copy)]
enum Source {
    /// The caller's input at a position.
    Input(usize),
    /// The intermediate tensor of that position.
    Intermediate(usize),
}

/// The destination of a tensor that is written.
#[derive(Clone, Copy)]
enum Target {
    /// The caller's output at a position, which no node reads.
    Output(usize),
    /// The intermediate tensor of that position.
    Intermediate(usize),
}

/// Memory that a node writes.
enum OutputMemory<'a> {
    Output(usize, &'a mut [u8]),
    Intermediate(usize, BufferMut),
}

impl OutputMemory<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            OutputMemory::Output(_, bytes) => bytes,
            OutputMemory::Intermediate(_, buffer) => buffer,
        }
    }
}

/// The signatures of the inputs of each node, and of its outputs.
fn signatures(graph: &NodeGraph) -> Result<[Vec<Vec<Signature>>; 2]> {
    let made = graph.nodes.iter();
    let made = made.map(|node| node.work.outputs().map(|port| signature(&port)).collect());
    let read = |node: &PackageNode| -> Result<Vec<Signature>> {
        let ports = node.inputs.iter().filter_map(|&wire| graph.port(wire));
        ports.map(|port| signature(&port)).collect()
    };
    let read = graph.nodes.iter().map(read);
    Ok([read.collect::<Result<_>>()?, made.collect::<Result<_>>()?])
}

impl Walker {
    /// Loads every node; all problems of nodes together.
    pub fn load(graph: NodeGraph, runtime: &Runtime, options: &LoadOptions) -> Result<Self> {
        let [read, types] = signatures(&graph)?;
        let Plan {
            inputs,
            outputs,
            intermediates,
            copied,
        } = Plan::of(&graph, &types);
        let mut libraries = Libraries::default();
        let mut problems = Vec::new();
        let mut works = Vec::new();
        for ((node, read), made) in graph.nodes.into_iter().zip(&read).zip(&types) {
            let loaded = match node.work {
                NodeWork::Core(contents) => CoreNode::load(&node.name, *contents, runtime, options)
                    .map(|core| Work::Core(Box::new(core))),
                NodeWork::Cpu(function) => {
                    let allowed = options.native_nodes;
                    CpuNode::open(&node.name, &function, read, made, &mut libraries, allowed)
                        .map(Work::Cpu)
                }
                NodeWork::Host(_) => Err(host_function()),
            };
            match loaded {
                Ok(work) => works.push(work),
                Err(error) => problems.push(error),
            }
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        let steps = works.into_iter().zip(inputs).zip(outputs);
        let step = |((work, inputs), outputs)| Step {
            work,
            inputs,
            outputs,
        };
        Ok(Self {
            steps: steps.map(step).collect(),
            intermediates,
            copied,
            spare: Mutex::default(),
        })
    }

    /// Makes the checks of [`Walker::load`], but opens no library of a CPU node.
    pub fn check(graph: NodeGraph, runtime: &Runtime, options: &LoadOptions) -> Result<()> {
        let [read, made] = signatures(&graph)?;
        let nodes = graph.nodes.into_iter().zip(&read).zip(&made);
        let problems = nodes.filter_map(|((node, read), made)| {
            let checked = match node.work {
                NodeWork::Core(contents) => {
                    CoreNode::load(&node.name, *contents, runtime, options).map(drop)
                }
                NodeWork::Cpu(function) => CpuNode::check(&node.name, &function, read, made),
                NodeWork::Host(_) => Err(host_function()),
            };
            checked.err()
        });
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// The nodes in execution order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.steps.iter().map(|step| match &step.work {
            Work::Core(core) => Node::Core(core),
            Work::Cpu(cpu) => Node::Cpu(cpu),
        })
    }

    /// Executes on the caller's memory, on this thread. A subgraph executes while holding the guard
    /// of a core, which `turn` returns for its number of arithmetic operations. CPU nodes run
    /// without one, so that other threads can use the core meanwhile.
    pub fn execute<'a, T>(
        &self,
        inputs: &[&'a [u8]],
        outputs: Vec<&'a mut [u8]>,
        control: &Control,
        turn: impl Fn(u64) -> Result<T>,
        mut watch: Option<&mut ExecutionObserver<'_>>,
    ) -> Result<()> {
        let mut tensors = self.take()?;
        let mut outputs: Vec<Option<&mut [u8]>> = outputs.into_iter().map(Some).collect();
        for step in &self.steps {
            control.check()?;
            let mut written = step.written(&mut tensors, &mut outputs)?;
            let read = step.read(&tensors, inputs)?;
            let made = written.iter_mut().map(OutputMemory::bytes);
            let watch = watch.as_deref_mut();
            match &step.work {
                Work::Core(core) => {
                    let _turn = turn(core.flops())?;
                    core.execute(Caller::Lists(read.into_iter(), made), control, watch)?;
                }
                Work::Cpu(cpu) => cpu.execute(&read, made, watch)?,
            }
            for written in written {
                match written {
                    OutputMemory::Output(at, bytes) => outputs[at] = Some(bytes),
                    OutputMemory::Intermediate(at, buffer) => tensors[at] = Some(buffer),
                }
            }
        }
        for (source, output) in self.copied.iter().zip(&mut outputs) {
            if let (Some(source), Some(output)) = (source, output) {
                output.copy_from_slice(source.bytes(&tensors, inputs)?);
            }
        }
        self.lock().push(tensors);
        Ok(())
    }

    /// The intermediate tensors for one execution.
    fn take(&self) -> Result<Tensors> {
        if let Some(tensors) = self.lock().pop() {
            return Ok(tensors);
        }
        let sizes = self.intermediates.iter();
        sizes
            .map(|&size| BufferMut::zeroed(size).map(Some))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tensors>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Step {
    /// Takes the memory that the node writes.
    fn written<'a>(
        &self,
        tensors: &mut Tensors,
        outputs: &mut [Option<&'a mut [u8]>],
    ) -> Result<Vec<OutputMemory<'a>>> {
        let take = |target: &Target| match *target {
            Target::Output(at) => {
                let output = outputs.get_mut(at).and_then(Option::take);
                output
                    .map(|bytes| OutputMemory::Output(at, bytes))
                    .ok_or_else(|| {
                        Error::new(
                            ErrorKind::InvalidArgument,
                            format!("output {at} is missing"),
                        )
                    })
            }
            Target::Intermediate(at) => {
                let tensor = tensors.get_mut(at).and_then(Option::take);
                tensor
                    .map(|buffer| OutputMemory::Intermediate(at, buffer))
                    .ok_or_else(missing_tensor)
            }
        };
        self.outputs.iter().map(take).collect()
    }

    /// The bytes of the node's inputs.
    fn read<'a>(&self, tensors: &'a Tensors, inputs: &[&'a [u8]]) -> Result<Vec<&'a [u8]>> {
        let sources = self.inputs.iter();
        sources
            .map(|source| source.bytes(tensors, inputs))
            .collect()
    }
}

impl Source {
    fn bytes<'a>(self, tensors: &'a Tensors, inputs: &[&'a [u8]]) -> Result<&'a [u8]> {
        match self {
            Source::Input(at) => inputs.get(at).copied().ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, format!("input {at} is missing"))
            }),
            Source::Intermediate(at) => {
                let tensor = tensors.get(at).and_then(Option::as_ref);
                tensor.map(|buffer| &buffer[..]).ok_or_else(missing_tensor)
            }
        }
    }
}

fn host_function() -> Error {
    let text = "a host function calls the subgraphs: they are no steps of a graph";
    Error::new(ErrorKind::InvalidPackage, text)
}

fn missing_tensor() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a node reads a tensor that is being written",
    )
}

/// The sources and destinations of all nodes.
struct Plan {
    inputs: Vec<Vec<Source>>,
    outputs: Vec<Vec<Target>>,
    intermediates: Vec<usize>,
    copied: Vec<Option<Source>>,
}

impl Plan {
    /// An output of the model that no node reads is written directly to the caller's memory; all
    /// other results of nodes are intermediate tensors.
    fn of(graph: &NodeGraph, types: &[Vec<Signature>]) -> Self {
        let read: HashSet<Wire> = graph
            .nodes
            .iter()
            .flat_map(|node| node.inputs.clone())
            .collect();
        let mut targets: HashMap<Wire, Target> = HashMap::new();
        for (position, &wire) in graph.outputs.iter().enumerate() {
            if matches!(wire, Wire::Output { .. }) && !read.contains(&wire) {
                targets.entry(wire).or_insert(Target::Output(position));
            }
        }
        // A duplicate output is an intermediate tensor, which is copied to both.
        let mut seen = HashSet::new();
        for wire in graph.outputs.iter().filter(|wire| !seen.insert(**wire)) {
            targets.remove(wire);
        }
        let mut intermediates = Vec::new();
        let mut outputs = Vec::new();
        for (node, signatures) in types.iter().enumerate() {
            let target = |(output, signature): (usize, &Signature)| {
                *targets
                    .entry(Wire::Output { node, output })
                    .or_insert_with(|| {
                        intermediates.push(signature.ty.bytes());
                        Target::Intermediate(intermediates.len() - 1)
                    })
            };
            outputs.push(signatures.iter().enumerate().map(target).collect());
        }
        let source = |wire: &Wire| match (*wire, targets.get(wire)) {
            (Wire::Input(at), _) => Some(Source::Input(at)),
            (_, Some(&Target::Intermediate(at))) => Some(Source::Intermediate(at)),
            _ => None,
        };
        Self {
            inputs: graph
                .nodes
                .iter()
                .map(|node| node.inputs.iter().filter_map(source).collect())
                .collect(),
            copied: graph.outputs.iter().map(source).collect(),
            outputs,
            intermediates,
        }
    }
}
