//! The variables of values, and the variables that each kernel accesses.

use super::known_constants::KnownConstants;
use super::{Home, Memory, NodeMemory, PreparedConstant, Variable};
use crate::place::{Placement, Target};
use std::collections::HashMap;
use tenon_backend::WorkloadPlan;
use tenon_base::Result;
use tenon_graph::{Graph, Node, NodeId, TensorType, ValueId};
use tenon_plan::{
    KernelOperands, MemoryStrategy, PlannedKernel, PlannedVariable, VariableMemory, plan_arena,
};
use tenon_tensor::size::SizeExpr;

/// The memory of an alias set: a value and its views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// The memory of this input, output or constant.
    Fixed(ValueId),
    /// The arena.
    Arena,
}

/// Assigns variables and blocks; alias sets share storage.
pub(super) struct Planner<'a> {
    graph: &'a Graph,
    placement: &'a Placement,
    pub(super) memory: Memory,
    names: HashMap<String, u32>,
    /// For each value the root of its alias set: the value of which it is a view.
    root: Vec<ValueId>,
    /// Whether a kernel reads the value.
    read: Vec<bool>,
    /// For each root its storage.
    storage: Vec<Option<Storage>>,
    /// What each kernel accesses, and the positions of inputs and outputs that may be the same memory.
    kernels: Vec<(KernelOperands, Vec<(usize, usize)>)>,
    /// For each view in the arena the kernel before which it is made.
    views: Vec<(u32, u32)>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(graph: &'a Graph, placement: &'a Placement) -> Self {
        let values = graph.values.len();
        let mut planner = Self {
            graph,
            placement,
            memory: Memory {
                of_value: vec![None; values],
                nodes: vec![NodeMemory::default(); graph.nodes.len()],
                ..Memory::default()
            },
            names: HashMap::new(),
            root: (0..values as u32).map(ValueId).collect(),
            read: vec![false; values],
            storage: vec![None; values],
            kernels: Vec::new(),
            views: Vec::new(),
        };
        planner.find_alias_sets();
        planner
    }

    fn is_view(&self, index: usize) -> bool {
        self.placement.target(NodeId(index as u32)) == Some(&Target::View)
    }

    /// Whether a node becomes a kernel: not a view, and not a movement of zero bytes.
    fn has_kernel(&self, index: usize) -> bool {
        match self.placement.target(NodeId(index as u32)) {
            Some(Target::View) => false,
            Some(Target::Dma) if self.graph.symbols.is_empty() => {
                let outputs = self.graph.nodes[index].outputs.iter().flatten();
                let mut types = outputs.map(|&id| self.graph.value(id).ty.as_ref());
                types.any(|ty| ty.is_none_or(|ty| ty.bytes() > 0))
            }
            _ => true,
        }
    }

    /// Finds the alias sets, the storage of those of inputs, constants and outputs, and which values
    /// kernels read.
    fn find_alias_sets(&mut self) {
        for (index, node) in self.graph.nodes.iter().enumerate() {
            if self.is_view(index) {
                let pair = (node.inputs.first().copied(), node.outputs.first().copied());
                if let (Some(Some(source)), Some(Some(output))) = pair {
                    self.root[output.index()] = self.root[source.index()];
                }
                continue;
            }
            for input in node.inputs.iter().flatten() {
                self.read[input.index()] = true;
            }
        }
        // Outputs last: views of inputs that are outputs are copied (`copied_views`).
        let constants = (0..self.graph.values.len() as u32).map(ValueId);
        let constants = constants.filter(|&id| self.graph.value(id).known().is_some());
        let fixed = self.graph.inputs.iter().copied().chain(constants);
        for id in fixed
            .chain(self.graph.outputs.iter().copied())
            .collect::<Vec<_>>()
        {
            let root = self.root[id.index()];
            self.storage[root.index()].get_or_insert(Storage::Fixed(id));
        }
    }

    pub(super) fn ports(&mut self) {
        for &id in &self.graph.inputs {
            self.add_value_variable(id, Home::Input, None);
        }
        for &id in &self.graph.outputs {
            self.add_value_variable(id, Home::Output, None);
        }
    }

    fn add_value_variable(&mut self, id: ValueId, home: Home, view_of: Option<u32>) -> u32 {
        let value = self.graph.value(id);
        let name = match view_of {
            Some(_) => format!("{}.view", value.name),
            None => value.name.clone(),
        };
        let variable = self.add(Variable {
            name,
            bytes: value.ty.as_ref().map_or(0, TensorType::bytes),
            home,
            ty: value.ty.clone(),
            extents: value.extents.clone().filter(|extents| is_symbolic(extents)),
            view_of,
            alive: (0, 0),
        });
        self.memory.of_value[id.index()] = Some(variable);
        variable
    }

    fn add(&mut self, mut variable: Variable) -> u32 {
        let base = variable.name.clone();
        // A numbered name may also occur in the model, so that it is looked up too.
        while let Some(count) = self.names.get_mut(&variable.name) {
            *count += 1;
            variable.name = format!("{base}.{count}");
        }
        self.names.insert(variable.name.clone(), 1);
        self.memory.variables.push(variable);
        self.memory.variables.len() as u32 - 1
    }

    /// Creates a variable for each value that a node produces, and for scratch memory. The scratch
    /// memory of a graph with symbols depends on the sizes: each workload gets a variable.
    pub(super) fn values(&mut self, workloads: &[WorkloadPlan]) -> Result<()> {
        let symbolic = !self.graph.symbols.is_empty();
        for (index, node) in self.graph.nodes.iter().enumerate() {
            if self.is_view(index) {
                self.view(node);
                continue;
            }
            for output in node.outputs.iter().flatten() {
                self.output(*output);
            }
            let plan = workloads.get(index);
            let scratch = plan.map_or(0, |plan| plan.scratch_bytes);
            let is_workload = matches!(
                self.placement.target(NodeId(index as u32)),
                Some(Target::Backend(_))
            );
            let mut operands = self.operands(node);
            if scratch > 0 || (symbolic && is_workload) {
                let variable = self.add(Variable {
                    name: format!("{}.scratch", node.name),
                    bytes: scratch,
                    home: Home::Arena(0),
                    ty: None,
                    extents: None,
                    view_of: None,
                    alive: (0, 0),
                });
                operands.scratch = Some(variable);
                self.memory.nodes[index].scratch = Some(variable);
            }
            if self.has_kernel(index) {
                let in_place = plan.map_or(&[][..], |plan| &plan.in_place).iter();
                let in_place = in_place.map(|pair| (pair.input, pair.output));
                self.kernels.push((operands, in_place.collect()));
            }
        }
        Ok(())
    }

    /// What a node's kernel accesses. Constants, which are not in the arena, have no variable yet.
    fn operands(&self, node: &Node) -> KernelOperands {
        let ids = |list: &[Option<ValueId>]| {
            let of_value = |id: ValueId| self.memory.of_value[id.index()];
            list.iter().map(|id| id.and_then(of_value)).collect()
        };
        KernelOperands {
            inputs: ids(&node.inputs),
            outputs: ids(&node.outputs),
            scratch: None,
        }
    }

    fn output(&mut self, id: ValueId) {
        if self.memory.of_value[id.index()].is_some() {
            return;
        }
        if let Some(Storage::Fixed(owner)) = self.storage[id.index()] {
            let owner = self.memory.of_value[owner.index()];
            self.add_value_variable(id, Home::Pointer, owner);
            return;
        }
        self.storage[id.index()] = Some(Storage::Arena);
        self.add_value_variable(id, Home::Arena(0), None);
    }

    fn view(&mut self, node: &Node) {
        let Some(id) = node.outputs.first().copied().flatten() else {
            return;
        };
        if self.memory.of_value[id.index()].is_some() || !self.read[id.index()] {
            return;
        }
        let root = self.root[id.index()];
        match self.storage[root.index()] {
            Some(Storage::Fixed(owner)) => {
                // A constant gets its variable with its first view or use.
                let owner = self.memory.of_value[owner.index()].or_else(|| self.constant(owner));
                self.add_value_variable(id, Home::Pointer, owner);
            }
            Some(Storage::Arena) => {
                let of = self.memory.of_value[root.index()];
                let variable = self.add_value_variable(id, Home::Arena(0), of);
                self.views.push((variable, self.kernels.len() as u32));
            }
            None => {}
        }
    }

    fn constant(&mut self, id: ValueId) -> Option<u32> {
        let value = self.graph.value(id);
        let home = match (&value.constant, &value.sizes) {
            (Some(constant), _) => Home::Constant(constant.buffer().clone()),
            (None, sizes) => Home::Sizes(sizes.as_ref()?.elements.clone()),
        };
        Some(self.add_value_variable(id, home, None))
    }

    /// Creates variables for the constants that kernels read, equal ones shared, and for their prepared
    /// forms.
    pub(super) fn constants(&mut self, workloads: &[WorkloadPlan]) {
        let mut known = KnownConstants::default();
        let mut prepared: HashMap<(u32, String, String), u32> = HashMap::new();
        let graph = self.graph;
        for (index, node) in graph.nodes.iter().enumerate() {
            if self.is_view(index) {
                continue;
            }
            let used = self.uses_memory(index);
            for (position, id) in node.inputs.iter().enumerate() {
                let Some(id) = *id else { continue };
                let value = graph.value(id);
                let unused = value.known().is_none() || !used(position);
                if unused || self.memory.of_value[id.index()].is_some() {
                    continue;
                }
                let Some(tensor) = &value.constant else {
                    self.constant(id);
                    continue;
                };
                let variable = known.equal(tensor).or_else(|| {
                    let variable = self.constant(id)?;
                    known.insert(tensor, variable);
                    Some(variable)
                });
                self.memory.of_value[id.index()] = variable;
            }
            let forms = workloads.get(index).map_or(&[][..], |plan| &plan.prepared);
            self.memory.nodes[index].prepared = vec![None; node.inputs.len()];
            for form in forms {
                let Some(id) = node.inputs.get(form.input).copied().flatten() else {
                    continue;
                };
                let Some(of) = self.memory.of_value[id.index()] else {
                    continue;
                };
                let Some(tensor_type) = graph.value(id).ty.clone() else {
                    continue;
                };
                let backend = self.placement.nodes[index].target.to_string();
                let key = (of, backend.clone(), form.layout.clone());
                let same = prepared.get(&key).copied().filter(|&variable| {
                    let variable = &self.memory.variables[variable as usize];
                    matches!(&variable.home, Home::Prepared(other) if *other.data == *form.data)
                });
                let variable = same.unwrap_or_else(|| {
                    let name = format!("{}.prepared", self.memory.variables[of as usize].name);
                    self.add(Variable {
                        name,
                        bytes: form.data.len(),
                        home: Home::Prepared(PreparedConstant {
                            of,
                            ty: tensor_type,
                            backend,
                            layout: form.layout.clone(),
                            invertible: form.invertible,
                            data: form.data.clone(),
                        }),
                        ty: None,
                        extents: None,
                        view_of: None,
                        alive: (0, 0),
                    })
                });
                prepared.insert(key, variable);
                self.memory.nodes[index].prepared[form.input] = Some(variable);
            }
        }
    }

    /// Whether an input of a node needs memory: descriptors contain shapes and axes.
    fn uses_memory(&self, index: usize) -> impl Fn(usize) -> bool + use<> {
        // With symbols there are no descriptors yet.
        let moves = self.graph.symbols.is_empty()
            && self.placement.target(NodeId(index as u32)) == Some(&Target::Dma);
        let (all, pad) = match self.graph.nodes[index].op.name {
            "Concat" => (true, false),
            "Pad" => (false, true),
            _ => (false, false),
        };
        move |position| !moves || all || position == 0 || (pad && position == 2)
    }

    /// Assigns the offsets in the arena, and the lifetimes of its variables.
    pub(super) fn arena(&mut self, strategy: &dyn MemoryStrategy) -> Result<()> {
        let planned = |variable: &Variable| PlannedVariable {
            bytes: variable.bytes,
            memory: match (&variable.home, variable.view_of) {
                (_, Some(of)) => VariableMemory::View(of),
                (Home::Arena(_), None) => VariableMemory::Arena,
                _ => VariableMemory::Fixed,
            },
        };
        let variables: Vec<PlannedVariable> = self.memory.variables.iter().map(planned).collect();
        let kernels = self.kernels.iter();
        let kernels = kernels.map(|(operands, in_place)| PlannedKernel { operands, in_place });
        let kernels: Vec<PlannedKernel<'_>> = kernels.collect();
        let plan = plan_arena(&variables, &kernels, strategy)?;
        let views: HashMap<u32, u32> = self.views.iter().copied().collect();
        for (index, variable) in self.memory.variables.iter_mut().enumerate() {
            if let Home::Arena(offset) = &mut variable.home {
                *offset = plan.offsets[index];
                let (first, last) = plan.alive[index];
                let made = views.get(&(index as u32)).copied();
                variable.alive = (made.map_or(first, |made| made.min(last)), last);
            }
        }
        self.memory.arena_bytes = plan.bytes;
        Ok(())
    }
}

fn is_symbolic(extents: &[SizeExpr]) -> bool {
    extents.iter().any(|extent| extent.constant().is_none())
}
