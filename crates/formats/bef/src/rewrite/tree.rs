//! A Module as a forest of functions with nested regions, the representation of rewrites. Functions
//! and registers are renumbered afterwards.

use crate::{Function, FunctionId, Kernel, Module, Name, RegisterId};
use std::collections::HashMap;

/// A function or region. Its registers are unordered; each is defined before its uses.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// The function without its kernels.
    pub(super) head: Function,
    pub(super) nodes: Vec<Node>,
}

/// A kernel of a function.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The kernel; its functions are the named references only.
    pub(super) kernel: Kernel,
    pub(super) regions: Vec<Tree>,
}

/// The named functions, with the ids under which kernels reference them.
pub(super) type Forest = Vec<(FunctionId, Tree)>;

/// Rewrites the functions of a Module.
pub(super) fn rewrite(module: &mut Module, change: impl FnOnce(&mut Forest)) {
    let mut functions: Vec<Option<Function>> = std::mem::take(&mut module.functions)
        .into_iter()
        .map(Some)
        .collect();
    let mut forest = Forest::new();
    for index in 0..functions.len() {
        if functions[index]
            .as_ref()
            .is_some_and(|function| !function.is_region())
        {
            let id = FunctionId(index as u32);
            forest.extend(build(&mut functions, id).map(|tree| (id, tree)));
        }
    }
    change(&mut forest);
    let mut ids = HashMap::new();
    for (id, tree) in forest {
        let function = tree.flatten(module);
        ids.insert(id, module.add(function));
    }
    for (name, id) in named(&mut module.functions) {
        if !name.is_empty()
            && let Some(new) = ids.get(id)
        {
            *id = *new;
        }
    }
}

fn named(functions: &mut [Function]) -> impl Iterator<Item = &mut (Name, FunctionId)> {
    let kernels = functions
        .iter_mut()
        .flat_map(|function| &mut function.kernels);
    kernels.flat_map(|kernel| &mut kernel.functions)
}

/// Moves a function and its regions out of a Module.
fn build(functions: &mut [Option<Function>], id: FunctionId) -> Option<Tree> {
    let mut head = functions.get_mut(id.0 as usize)?.take()?;
    let kernels = std::mem::take(&mut head.kernels);
    let nodes = kernels.into_iter().map(|mut kernel| {
        let all = std::mem::take(&mut kernel.functions);
        let (regions, references): (Vec<_>, _) =
            all.into_iter().partition(|(name, _)| name.is_empty());
        kernel.functions = references;
        let regions = regions
            .into_iter()
            .filter_map(|(_, id)| build(functions, id))
            .collect();
        Node { kernel, regions }
    });
    let nodes = nodes.collect();
    Some(Tree { head, nodes })
}

impl Tree {
    /// Appends a register of a type.
    pub(super) fn register(&mut self, r#type: Name) -> RegisterId {
        let id = RegisterId(u32::try_from(self.head.registers.len()).unwrap_or(u32::MAX));
        self.head.registers.push(r#type);
        id
    }

    pub(super) fn type_of(&self, register: RegisterId) -> &str {
        let r#type = self.head.registers.get(register.0 as usize);
        r#type.map_or("none", Name::as_str)
    }

    /// Number of kernels, those of regions included.
    pub(super) fn size(&self) -> usize {
        let inside = |node: &Node| node.regions.iter().map(Tree::size).sum::<usize>();
        self.nodes.iter().map(|node| 1 + inside(node)).sum()
    }

    /// Appends the kernels of `body`, with `operands` for its arguments, to `nodes`, and returns
    /// the results of `body` as registers of this function.
    pub(super) fn splice(
        &mut self,
        nodes: &mut Vec<Node>,
        body: Tree,
        operands: &[RegisterId],
    ) -> Vec<RegisterId> {
        let mut registers: HashMap<RegisterId, RegisterId> = (0..)
            .map(RegisterId)
            .zip(operands.iter().copied())
            .collect();
        for mut node in body.nodes {
            substitute(&mut node.kernel.operands, &registers);
            for result in &mut node.kernel.results {
                let r#type = body.head.registers.get(result.0 as usize).cloned();
                let new = self.register(r#type.unwrap_or_default());
                registers.insert(*result, new);
                *result = new;
            }
            nodes.push(node);
        }
        let mut results = body.head.results;
        substitute(&mut results, &registers);
        results
    }

    /// The function with its registers numbered in BEF's order; its regions are added to `module`
    /// before it.
    fn flatten(self, module: &mut Module) -> Function {
        let mut function = self.head;
        let old = std::mem::take(&mut function.registers);
        let mut renumbered: HashMap<RegisterId, RegisterId> = HashMap::new();
        let arguments = function.arguments as usize;
        function
            .registers
            .extend(old.iter().take(arguments).cloned());
        renumbered
            .extend((0..function.arguments).map(|index| (RegisterId(index), RegisterId(index))));
        for Node {
            mut kernel,
            regions,
        } in self.nodes
        {
            let regions: Vec<Function> = regions
                .into_iter()
                .map(|region| region.flatten(module))
                .collect();
            let ids = regions
                .into_iter()
                .map(|region| (Name::default(), module.add(region)));
            kernel.functions.extend(ids);
            substitute(&mut kernel.operands, &renumbered);
            for result in &mut kernel.results {
                let new = RegisterId(function.registers.len() as u32);
                let r#type = old.get(result.0 as usize).cloned();
                function.registers.push(r#type.unwrap_or_default());
                renumbered.insert(*result, new);
                *result = new;
            }
            function.kernels.push(kernel);
        }
        substitute(&mut function.results, &renumbered);
        function
    }
}

/// Replaces registers by others.
pub(super) fn substitute(registers: &mut [RegisterId], by: &HashMap<RegisterId, RegisterId>) {
    for register in registers {
        *register = by.get(register).copied().unwrap_or(*register);
    }
}
