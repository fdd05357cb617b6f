//! Packing: the contents of the package, from the planned graph and the program.

use crate::compile::Options;
use crate::memory::{Home, Memory, Variable};
use crate::place::{Placement, Target};
use std::collections::BTreeSet;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, EncodeOptions, Module, encode};
use tenon_dma::VariableId;
use tenon_graph::{Cost, Graph, Node, ValueId};
use tenon_neff::{
    ConstantInfo, Contents, LiveRange, MemoryPlan, ModelInfo, Movement, NodeCost, PackageVariable,
    Port, PreparedForm, Role, TenonMember, VariableInfo,
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
    tenon.inputs = ports(graph, memory, &graph.inputs, &input_names)?;
    tenon.outputs = ports(graph, memory, &graph.outputs, output_names)?;
    tenon.variables = variable_infos(memory, module);
    tenon.constants = constant_infos(memory)?;
    tenon.placement = placement.report();
    tenon.plan = memory_plan(memory, options.memory_strategy.name());
    tenon.costs = costs(graph, placement);
    let program = encode(module, &EncodeOptions::default())?;
    Ok(Contents {
        name,
        variables: memory.variables.iter().map(package_variable).collect(),
        movements,
        program: BufferMut::copy_of(&program)?.freeze(),
        tenon,
    })
}

fn package_variable(variable: &Variable) -> PackageVariable {
    let role = match &variable.home {
        Home::Input => Role::Input,
        Home::Output => Role::Output,
        Home::Constant(buffer) => Role::Constant(buffer.clone()),
        Home::Absent => Role::Absent,
        Home::Prepared(form) => Role::Constant(form.data.clone()),
        Home::Arena(offset) => Role::Arena {
            offset: *offset as u64,
        },
        Home::Pointer => Role::View,
    };
    PackageVariable {
        name: variable.name.clone(),
        size: variable.bytes as u64,
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
            shape: ty.shape().to_vec(),
        })
    };
    ids.iter().zip(names).map(port).collect()
}

/// The types of the operands of workloads, and of all views.
fn variable_infos(memory: &Memory, module: &Module) -> Vec<VariableInfo> {
    let named = named_by_workloads(module);
    let listed = |(index, variable): (usize, &Variable)| {
        let ty = variable.ty.as_ref()?;
        (named.contains(&(index as u32)) || variable.view_of.is_some()).then(|| VariableInfo {
            var_id: VariableId(index as u32),
            dtype: ty.dtype(),
            shape: ty.shape().to_vec(),
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
    let workloads = kernels.filter(|kernel| kernel.name == "tenon.workload");
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
fn costs(graph: &Graph, placement: &Placement) -> Vec<NodeCost> {
    let nodes = graph.nodes.iter().zip(&placement.nodes);
    let nodes = nodes.filter(|(_, placed)| placed.target != Target::View);
    let cost = |(node, _): (&Node, _)| {
        let cost = Cost::of(graph, node);
        NodeCost {
            node: node.name.clone(),
            flops: cost.flops,
            read: cost.read,
            written: cost.written,
        }
    };
    nodes.map(cost).collect()
}
