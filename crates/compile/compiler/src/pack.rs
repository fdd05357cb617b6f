//! Packing: the contents of the package, from the planned graph and the program.

use crate::compile::Options;
use crate::memory::{Home, Memory, Variable};
use crate::place::{NodePlacement, Placement};
use std::collections::{BTreeMap, BTreeSet};
use tenon_backend::Registry;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, EncodeOptions, Module, encode};
use tenon_dma::VariableId;
use tenon_graph::{Graph, ValueId};
use tenon_neff::{
    ConstantInfo, Contents, Extent, LiveRange, MemoryPlan, ModelInfo, Movement, NodeCost,
    PackageVariable, PlacementReport, Port, PortShape, PreparedForm, Role, SizesInfo, TenonMember,
    VariableInfo,
};
use tenon_tensor::{BufferMut, TensorType};

/// All of the package.
pub(crate) fn pack(
    graph: &Graph,
    placement: &Placement,
    memory: &Memory,
    module: &Module,
    movements: Vec<Movement>,
    output_names: &[String],
    options: &Options<'_>,
) -> Result<Contents> {
    let name = options.name.clone().unwrap_or_else(|| graph.name.clone());
    let mut tenon = TenonMember::new(ModelInfo {
        name: name.clone(),
        metadata: graph.metadata.clone(),
    });
    tenon.cpu = options.cpu;
    let input_names: Vec<String> = graph
        .inputs
        .iter()
        .map(|&id| graph.value(id).name.clone())
        .collect();
    tenon.set_symbols(&graph.symbols);
    tenon.inputs = ports(graph, memory, &graph.inputs, &input_names)?;
    tenon.outputs = ports(graph, memory, &graph.outputs, output_names)?;
    tenon.variables = variable_infos(graph, memory, module);
    tenon.sizes = size_infos(graph, memory);
    tenon.constants = constant_infos(memory)?;
    tenon.placement = placement.report();
    tenon.targets = targets(&tenon.placement, options.registry);
    if graph.symbols.is_empty() {
        tenon.plan = memory_plan(memory, options.memory_strategy.name());
        tenon.costs = costs(placement);
    }
    let program = encode(module, &EncodeOptions::default())?;
    Ok(Contents {
        name,
        variables: memory
            .variables
            .iter()
            .map(|variable| package_variable(graph, variable))
            .collect(),
        movements,
        program: BufferMut::copy_of(&program)?.freeze(),
        tenon,
    })
}

/// The devices of the backends of nodes.
fn targets(placement: &PlacementReport, registry: &Registry) -> BTreeMap<String, String> {
    let used = placement.used().into_iter();
    let target = |id: &str| Some((id.to_owned(), registry.find(&id.into())?.target()?));
    used.filter_map(target).collect()
}

fn package_variable(graph: &Graph, variable: &Variable) -> PackageVariable {
    let symbolic = !graph.symbols.is_empty();
    let role = match &variable.home {
        Home::Input => Role::Input,
        Home::Output => Role::Output,
        Home::Constant(buffer) => Role::Constant(buffer.clone()),
        Home::Absent => Role::Absent,
        Home::Prepared(form) => Role::Constant(form.data.clone()),
        Home::Arena(_) if symbolic => Role::Planned,
        Home::Arena(offset) => Role::Arena {
            offset: *offset as u64,
        },
        Home::Pointer => Role::View,
        Home::Sizes(_) => Role::Planned,
    };
    // The size of scratch memory, and of symbolic shapes, is known when the model runs.
    let unknown = variable.extents.is_some()
        || (symbolic && matches!(variable.home, Home::Arena(_)) && variable.ty.is_none());
    PackageVariable {
        name: variable.name.clone(),
        size: if unknown { 0 } else { variable.bytes as u64 },
        role,
    }
}

fn ports(graph: &Graph, memory: &Memory, ids: &[ValueId], names: &[String]) -> Result<Vec<Port>> {
    let port = |(&id, name): (&ValueId, &String)| {
        let variable = memory.of_value.get(id.index()).copied().flatten();
        let (Some(variable), Some(ty)) = (variable, &graph.value(id).ty) else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("port '{name}' has no variable"),
            ));
        };
        Ok(Port {
            name: name.clone(),
            var_id: VariableId(variable),
            dtype: ty.dtype(),
            shape: shape(graph, memory, variable, ty),
        })
    };
    ids.iter().zip(names).map(port).collect()
}

/// The shape of a variable, with the expressions of symbolic extents.
fn shape(graph: &Graph, memory: &Memory, variable: u32, ty: &TensorType) -> PortShape {
    let variable = memory.variables.get(variable as usize);
    match variable.and_then(|variable| variable.extents.as_ref()) {
        Some(extents) => PortShape::new(&graph.symbols, extents),
        None => PortShape::from(&**ty.shape()),
    }
}

/// The variables whose elements are sizes.
fn size_infos(graph: &Graph, memory: &Memory) -> Vec<SizesInfo> {
    let variables = memory.variables.iter().enumerate();
    let info = |(index, variable): (usize, &Variable)| {
        let (Home::Sizes(elements), Some(ty)) = (&variable.home, &variable.ty) else {
            return None;
        };
        let elements = elements.iter();
        Some(SizesInfo {
            var_id: VariableId(index as u32),
            dtype: ty.dtype(),
            shape: ty.shape().to_vec(),
            elements: elements
                .map(|element| Extent::new(&graph.symbols, element))
                .collect(),
        })
    };
    variables.filter_map(info).collect()
}

/// The types of the operands of kernels, and of all views.
fn variable_infos(graph: &Graph, memory: &Memory, module: &Module) -> Vec<VariableInfo> {
    let named = named_by_workloads(module);
    let listed = |(index, variable): (usize, &Variable)| {
        let ty = variable.ty.as_ref()?;
        (named.contains(&(index as u32)) || variable.view_of.is_some()).then(|| VariableInfo {
            var_id: VariableId(index as u32),
            dtype: ty.dtype(),
            shape: shape(graph, memory, index as u32, ty),
            view_of: variable.view_of.map(VariableId),
        })
    };
    memory
        .variables
        .iter()
        .enumerate()
        .filter_map(listed)
        .collect()
}

fn named_by_workloads(module: &Module) -> BTreeSet<u32> {
    let kernels = module
        .functions
        .iter()
        .flat_map(|function| &function.kernels);
    let workloads =
        kernels.filter(|kernel| kernel.name == "tenon.workload" || kernel.name == "tenon.movement");
    let operands = workloads
        .flat_map(|kernel| &kernel.attributes)
        .filter(|(name, _)| name == "inputs" || name == "outputs");
    let mut named = BTreeSet::new();
    for (_, value) in operands {
        if let Attribute::Array(ids) = value {
            named.extend(ids.iter().filter_map(|id| match id {
                Attribute::I32(id) => u32::try_from(*id).ok(),
                _ => None,
            }));
        }
    }
    named
}

fn constant_infos(memory: &Memory) -> Result<Vec<ConstantInfo>> {
    let mut infos = Vec::new();
    for (index, variable) in memory.variables.iter().enumerate() {
        let info = |ty: &TensorType, prepared| ConstantInfo {
            var_id: VariableId(index as u32),
            name: variable.name.clone(),
            dtype: ty.dtype(),
            shape: ty.shape().to_vec(),
            prepared,
        };
        match (&variable.home, &variable.ty) {
            (Home::Constant(_) | Home::Absent, Some(ty)) => infos.push(info(ty, None)),
            (Home::Prepared(form), _) => {
                // The type is that of the plain form; the layout identifies the byte order.
                let prepared = PreparedForm {
                    of: VariableId(form.of),
                    backend: form.backend.clone(),
                    layout: form.layout.clone(),
                };
                infos.push(info(&form.ty, Some(prepared)));
            }
            _ => {}
        }
    }
    Ok(infos)
}

fn memory_plan(memory: &Memory, strategy: &str) -> MemoryPlan {
    let range = |(index, variable): (usize, &Variable)| match variable.home {
        Home::Arena(offset) => Some(LiveRange {
            var_id: VariableId(index as u32),
            offset: offset as u64,
            size: variable.bytes as u64,
            first: variable.alive.0.into(),
            last: variable.alive.1.into(),
        }),
        _ => None,
    };
    let variables: Vec<LiveRange> = memory
        .variables
        .iter()
        .enumerate()
        .filter_map(range)
        .collect();
    // The largest end without the planner's padding: readers compute the same.
    let ends = variables
        .iter()
        .map(|variable| variable.offset + variable.size);
    MemoryPlan {
        strategy: strategy.to_owned(),
        arena_bytes: ends.max().unwrap_or(0),
        variables,
    }
}

/// The costs of the nodes that execute.
fn costs(placement: &Placement) -> Vec<NodeCost> {
    let cost = |placed: &NodePlacement| {
        let cost = placed.cost?;
        Some(NodeCost {
            node: placed.node.clone(),
            flops: cost.flops,
            read: cost.read,
            written: cost.written,
        })
    };
    placement.nodes.iter().filter_map(cost).collect()
}
