//! The memory plan: the variable of each value, and its offset in the arena.

mod known_constants;
mod planner;

use crate::place::{Placement, Target};
use planner::Planner;
use std::collections::BTreeSet;
use tenon_backend::{
    Backend, CpuLevel, InputSpec, NodeRanges, Registry, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Graph, Node, NodeId, ValueId};
use tenon_plan::MemoryStrategy;
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{Buffer, TensorType};

/// A variable of the package.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    /// Its name, unique.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its memory.
    pub home: Home,
    /// Its type, unless it is scratch or a prepared form; for the example sizes.
    pub ty: Option<TensorType>,
    /// Its extents, if one is symbolic.
    pub extents: Option<Vec<SizeExpr>>,
    /// The variable of which it is a view.
    pub view_of: Option<u32>,
    /// Its first and last kernel, for a variable in the arena.
    pub alive: (u32, u32),
}

/// The memory of a variable.
#[derive(Debug, Clone)]
pub(crate) enum Home {
    /// Memory of the caller, read.
    Input,
    /// Memory of the caller, written.
    Output,
    /// Memory of the package.
    Constant(Buffer),
    /// A constant that is stored in prepared form only.
    Absent,
    /// A prepared form of a constant.
    Prepared(PreparedConstant),
    /// The arena, at this offset.
    Arena(usize),
    /// The memory of the input, output or constant of which it is a view.
    Pointer,
    /// Integers that are known once the symbols have values.
    Sizes(Vec<SizeExpr>),
}

/// A constant in the layout of a backend's kernels.
#[derive(Debug, Clone)]
pub(crate) struct PreparedConstant {
    /// The plain form.
    pub of: u32,
    /// The plain form's type.
    pub ty: TensorType,
    /// The backend.
    pub backend: String,
    /// The layout's tag.
    pub layout: String,
    /// Whether the plain form can be computed from it.
    pub invertible: bool,
    /// The bytes.
    pub data: Buffer,
}

/// The memory of a node's kernel besides its operands.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeMemory {
    /// The variable of its scratch memory.
    pub scratch: Option<u32>,
    /// For each input the variable of its prepared form.
    pub prepared: Vec<Option<u32>>,
}

/// The variables of a program, and their users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// All variables; a `var_id` is a position here.
    pub variables: Vec<Variable>,
    /// For each value of the graph its variable.
    pub of_value: Vec<Option<u32>>,
    /// For each node.
    pub nodes: Vec<NodeMemory>,
    /// Size of the arena.
    pub arena_bytes: usize,
}

impl Memory {
    /// Removes the plain form of each constant that all its users read in prepared form, where the
    /// plain form can be computed from one of these.
    pub(crate) fn remove_plain_forms(&mut self, graph: &Graph) {
        let of_value = |id: ValueId| self.of_value.get(id.index()).copied().flatten();
        let outputs = graph.outputs.iter().filter_map(|&id| of_value(id));
        let viewed = self
            .variables
            .iter()
            .filter_map(|variable| variable.view_of);
        let mut plain: BTreeSet<u32> = outputs.chain(viewed).collect();
        let mut prepared = BTreeSet::new();
        for (node, memory) in graph.nodes.iter().zip(&self.nodes) {
            for (index, id) in node.inputs.iter().enumerate() {
                let Some(variable) = id.and_then(of_value) else {
                    continue;
                };
                let form = memory.prepared.get(index).copied().flatten();
                let is_compile_time = node.op.input(index).is_some_and(|row| row.compile_time);
                match form {
                    Some(form) if !is_compile_time => {
                        if self.is_invertible(form) {
                            prepared.insert(variable);
                        }
                    }
                    _ => drop(plain.insert(variable)),
                }
            }
        }
        let symbolic = !graph.symbols.is_empty();
        for &index in prepared.difference(&plain) {
            if let Some(variable) = self.variables.get_mut(index as usize)
                && matches!(variable.home, Home::Constant(_))
                && (!symbolic || variable.bytes > MAX_PREPARED_LATER)
            {
                variable.home = Home::Absent;
            }
        }
    }

    fn is_invertible(&self, form: u32) -> bool {
        let form = self.variables.get(form as usize);
        form.is_some_and(|form| matches!(&form.home, Home::Prepared(form) if form.invertible))
    }
}

/// Backends may prefer other layouts for other sizes: of small constants a package with symbols keeps the plain
/// form, from which they are prepared then.
const MAX_PREPARED_LATER: usize = 256 << 10;

/// View nodes that must be copied: their result is an output of the graph, and their source is an
/// input, a constant or another output.
pub(crate) fn copied_views(graph: &Graph) -> BTreeSet<NodeId> {
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut root: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    // Sources that are read-only, or that are the memory of another output.
    let mut claimed: BTreeSet<ValueId> = graph.inputs.iter().copied().collect();
    let constants = root
        .iter()
        .copied()
        .filter(|&id| graph.value(id).known().is_some());
    claimed.extend(constants.collect::<Vec<_>>());
    let mut copied = BTreeSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let source = node.inputs.first().copied().flatten();
        for &output in node.outputs.iter().flatten() {
            let is_view = node.op.class == OperatorClass::View;
            if let Some(source) = source.filter(|_| is_view) {
                root[output.index()] = root[source.index()];
            }
            if outputs.contains(&output) && !claimed.insert(root[output.index()]) {
                copied.insert(NodeId(index as u32));
                root[output.index()] = output;
                claimed.insert(output);
            }
        }
    }
    copied
}

/// Plans every workload and all memory.
pub(crate) fn plan(
    graph: &Graph,
    placement: &Placement,
    registry: &Registry,
    cpu: CpuLevel,
    strategy: &dyn MemoryStrategy,
    control: &Control,
) -> Result<Memory> {
    let workloads = plan_workloads(graph, placement, registry, cpu, control)?;
    let mut planner = Planner::new(graph, placement);
    planner.ports();
    planner.values(&workloads)?;
    planner.constants(&workloads);
    control.progress("plan memory", 0, 1)?;
    // The runtime plans the arena when the sizes are known.
    if graph.symbols.is_empty() {
        planner.arena(strategy)?;
    }
    Ok(planner.memory)
}

fn plan_workloads(
    graph: &Graph,
    placement: &Placement,
    registry: &Registry,
    cpu: CpuLevel,
    control: &Control,
) -> Result<Vec<WorkloadPlan>> {
    let total = graph.nodes.len() as u64;
    let mut plans = Vec::with_capacity(graph.nodes.len());
    for (index, (node, placed)) in graph.nodes.iter().zip(&placement.nodes).enumerate() {
        control.progress("prepare weights", index as u64, total)?;
        let Target::Backend(id) = &placed.target else {
            plans.push(WorkloadPlan::default());
            continue;
        };
        let backend = registry.find(id).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("backend {id} is not registered"),
            )
        })?;
        let plan = plan_workload(graph, node, &**backend, cpu)
            .map_err(|error| error.at(Location::node(node.name.as_str())))?;
        plans.push(plan);
    }
    Ok(plans)
}

fn plan_workload(
    graph: &Graph,
    node: &Node,
    backend: &dyn Backend,
    cpu: CpuLevel,
) -> Result<WorkloadPlan> {
    let ty = |id: ValueId| {
        let value = graph.value(id);
        value.ty.clone().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("value '{}' has no type", value.name),
            )
        })
    };
    let input = |id: ValueId| -> Result<InputSpec> {
        let constant = graph.value(id).known().cloned();
        Ok(InputSpec {
            ty: ty(id)?,
            constant,
            prepared: None,
        })
    };
    let spec = WorkloadSpec {
        op: node.op,
        attributes: node.attributes.clone(),
        inputs: node
            .inputs
            .iter()
            .map(|id| id.map(input).transpose())
            .collect::<Result<_>>()?,
        outputs: node
            .outputs
            .iter()
            .map(|id| id.map(ty).transpose())
            .collect::<Result<_>>()?,
        ranges: NodeRanges::of(graph, node).filter(|_| backend.takes_dynamic_shapes()),
    };
    backend.plan(&spec, cpu)
}
