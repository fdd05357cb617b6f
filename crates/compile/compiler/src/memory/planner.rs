//! Variables of values, and the lifetimes of their blocks in the arena.

use super::known_constants::KnownConstants;
use super::{Home, Memory, NodeMemory, PreparedConstant, Variable};
use crate::place::{Placement, Target};
use std::collections::{BTreeMap, HashMap};
use tenon_backend::WorkloadPlan;
use tenon_base::Result;
use tenon_graph::{Graph, Node, NodeId, TensorType, ValueId};
use tenon_plan::{Block, MemoryStrategy, assign};

/// The memory of an alias set: a value and its views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// The memory of this input, output or constant.
    Fixed(ValueId),
    /// A block of the arena, by position.
    Block(usize),
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
    /// For each root the last kernel that reads its alias set.
    last_use: Vec<Option<u32>>,
    /// For each root its storage.
    storage: Vec<Option<Storage>>,
    blocks: Vec<Block>,
    /// Variables in the arena and their blocks.
    in_arena: Vec<(u32, usize)>,
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
            last_use: vec![None; values],
            storage: vec![None; values],
            blocks: Vec::new(),
            in_arena: Vec::new(),
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
            Some(Target::Dma) => {
                let outputs = self.graph.nodes[index].outputs.iter().flatten();
                let mut types = outputs.map(|&id| self.graph.value(id).ty.as_ref());
                types.any(|ty| ty.is_none_or(|ty| ty.bytes() > 0))
            }
            _ => true,
        }
    }

    /// Finds the alias sets, the storage of those of inputs, constants and outputs, and the last use
    /// of each.
    fn find_alias_sets(&mut self) {
        let mut kernel = 0;
        for (index, node) in self.graph.nodes.iter().enumerate() {
            if self.is_view(index) {
                let pair = (node.inputs.first().copied(), node.outputs.first().copied());
                if let (Some(Some(source)), Some(Some(output))) = pair {
                    self.root[output.index()] = self.root[source.index()];
                }
                continue;
            }
            for input in node.inputs.iter().flatten() {
                let root = self.root[input.index()];
                self.read[input.index()] = true;
                self.last_use[root.index()] = Some(kernel);
            }
            kernel += u32::from(self.has_kernel(index));
        }
        // Outputs last: views of inputs that are outputs are copied (`copied_views`).
        let constants = (0..self.graph.values.len() as u32).map(ValueId);
        let constants = constants.filter(|&id| self.graph.value(id).constant.is_some());
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

    /// Creates a variable for each value that a node produces; blocks get their offsets in `arena`.
    pub(super) fn values(&mut self, workloads: &[WorkloadPlan]) -> Result<()> {
        let mut kernel = 0;
        for (index, node) in self.graph.nodes.iter().enumerate() {
            if self.is_view(index) {
                self.view(node, kernel);
                continue;
            }
            let scratch = workloads.get(index).map_or(0, |plan| plan.scratch_bytes);
            let in_place = workloads.get(index).map_or(&[][..], |plan| &plan.in_place);
            let mut reused = BTreeMap::new();
            for pair in in_place {
                if let Some(block) = self.reusable_block(node, kernel, pair.input, pair.output) {
                    let is_free = !reused.values().any(|&other| other == block);
                    if is_free && !reused.contains_key(&pair.output) {
                        reused.insert(pair.output, block);
                    }
                }
            }
            for (position, output) in node.outputs.iter().enumerate() {
                if let Some(output) = *output {
                    self.output(output, kernel, reused.get(&position).copied());
                }
            }
            if scratch > 0 {
                let block = self.block(scratch, kernel, kernel);
                let variable = self.add(Variable {
                    name: format!("{}.scratch", node.name),
                    bytes: scratch,
                    home: Home::Arena(0),
                    ty: None,
                    view_of: None,
                    alive: (kernel, kernel),
                });
                self.in_arena.push((variable, block));
                self.memory.nodes[index].scratch = Some(variable);
            }
            kernel += u32::from(self.has_kernel(index));
        }
        Ok(())
    }

    fn block(&mut self, bytes: usize, first: u32, last: u32) -> usize {
        self.blocks.push(Block { bytes, first, last });
        self.blocks.len() - 1
    }

    /// The block of an input that an output may overwrite: this kernel is the last that reads it, no
    /// other input of the node is in it, it has the output's size, and neither value is an input,
    /// output or constant of the graph.
    fn reusable_block(
        &self,
        node: &Node,
        kernel: u32,
        input: usize,
        output: usize,
    ) -> Option<usize> {
        let input_id = node.inputs.get(input).copied().flatten()?;
        let output_id = node.outputs.get(output).copied().flatten()?;
        let root = self.root[input_id.index()];
        let Storage::Block(block) = self.storage[root.index()]? else {
            return None;
        };
        let others = node
            .inputs
            .iter()
            .enumerate()
            .filter(|(position, _)| *position != input);
        let is_shared = others
            .flat_map(|(_, id)| *id)
            .any(|id| self.root[id.index()] == root);
        let bytes = |id: ValueId| self.graph.value(id).ty.as_ref().map(TensorType::bytes);
        let fits = bytes(input_id) == bytes(output_id)
            && bytes(output_id) == Some(self.blocks[block].bytes);
        let ends = self.last_use[root.index()] == Some(kernel);
        let has_no_storage = self.storage[self.root[output_id.index()].index()].is_none();
        (ends && fits && !is_shared && has_no_storage).then_some(block)
    }

    fn output(&mut self, id: ValueId, kernel: u32, reused: Option<usize>) {
        if self.memory.of_value[id.index()].is_some() {
            return;
        }
        if let Some(Storage::Fixed(owner)) = self.storage[id.index()] {
            let owner = self.memory.of_value[owner.index()];
            self.add_value_variable(id, Home::Pointer, owner);
            return;
        }
        let last = self.last_use[id.index()].unwrap_or(kernel);
        let block = match reused {
            Some(block) => {
                self.blocks[block].last = last;
                block
            }
            None => {
                let bytes = self
                    .graph
                    .value(id)
                    .ty
                    .as_ref()
                    .map_or(0, TensorType::bytes);
                self.block(bytes, kernel, last)
            }
        };
        self.storage[id.index()] = Some(Storage::Block(block));
        let variable = self.add_value_variable(id, Home::Arena(0), None);
        self.memory.variables[variable as usize].alive = (kernel, last);
        self.in_arena.push((variable, block));
    }

    fn view(&mut self, node: &Node, kernel: u32) {
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
            Some(Storage::Block(block)) => {
                let of = self.memory.of_value[root.index()];
                let last = self.last_use[root.index()].unwrap_or(kernel);
                let variable = self.add_value_variable(id, Home::Arena(0), of);
                self.memory.variables[variable as usize].alive = (kernel.min(last), last);
                self.in_arena.push((variable, block));
            }
            None => {}
        }
    }

    fn constant(&mut self, id: ValueId) -> Option<u32> {
        let buffer = self.graph.value(id).constant.as_ref()?.buffer().clone();
        Some(self.add_value_variable(id, Home::Constant(buffer), None))
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
                let Some(tensor) = graph.value(id).constant.as_ref().filter(|_| used(position))
                else {
                    continue;
                };
                if self.memory.of_value[id.index()].is_some() {
                    continue;
                }
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
        let moves = self.placement.target(NodeId(index as u32)) == Some(&Target::Dma);
        let (all, pad) = match self.graph.nodes[index].op.name {
            "Concat" => (true, false),
            "Pad" => (false, true),
            _ => (false, false),
        };
        move |position| !moves || all || position == 0 || (pad && position == 2)
    }

    pub(super) fn arena(&mut self, strategy: &dyn MemoryStrategy) -> Result<()> {
        let assignment = assign(strategy, &self.blocks)?;
        for &(variable, block) in &self.in_arena {
            self.memory.variables[variable as usize].home = Home::Arena(assignment.offsets[block]);
        }
        self.memory.arena_bytes = assignment.bytes;
        Ok(())
    }
}
