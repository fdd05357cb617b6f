//! The program of a subgraph, which all instances of a package with symbols share.

use crate::tap::KernelOutputs;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::Module;
use tenon_executor::{BoundFunction, Label, Program};
use tenon_kernels::{BoundKernels, Movements, depends_on_sizes};
use tenon_neff::{NodeCost, TenonMember};

/// A bound program, and what is known of its kernels without sizes.
pub(crate) struct CoreProgram {
    /// `sg00` and so on.
    pub name: String,
    pub member: Arc<TenonMember>,
    program: Program,
    /// Position of the function `main`.
    main: usize,
    pub outputs: KernelOutputs,
    /// Arithmetic operations of one execution, by the cost table of the package.
    pub flops: u64,
    /// Bytes read and arithmetic operations of each kernel, by the cost table of the package.
    costs: Vec<[u64; 2]>,
    /// For each kernel its position among those that depend on sizes.
    sized: Vec<Option<usize>>,
}

impl CoreProgram {
    /// The subgraph called `name`, of which `program` is `module` bound.
    pub fn new(
        name: &str,
        module: &Module,
        program: Program,
        member: Arc<TenonMember>,
        movements: &Movements,
    ) -> Result<Self> {
        let main = main(&program)?;
        let function = &module.functions[main];
        let by_node = member.costs.iter();
        let by_node: HashMap<&str, &NodeCost> =
            by_node.map(|cost| (cost.node.as_str(), cost)).collect();
        let cost = |label: Label<'_>| by_node.get(label.node).map(|cost| [cost.read, cost.flops]);
        let kernels = program.functions()[main].kernels();
        let costs = kernels.map(|(_, label)| cost(label).unwrap_or_default());
        let costs = costs.collect();
        let all = member.costs.iter();
        let flops = all.fold(0u64, |sum, cost| sum.saturating_add(cost.flops));
        let earlier = module.functions[..main].iter().flat_map(|f| &f.kernels);
        let mut position = earlier.filter(|kernel| depends_on_sizes(kernel)).count();
        let sized = function.kernels.iter().map(|kernel| {
            depends_on_sizes(kernel).then(|| {
                position += 1;
                position - 1
            })
        });
        Ok(Self {
            name: name.to_owned(),
            sized: sized.collect(),
            outputs: KernelOutputs::of(name, function, movements)?,
            flops,
            costs,
            member,
            program,
            main,
        })
    }

    /// The function that executes it.
    pub fn main(&self) -> &BoundFunction {
        &self.program.functions()[self.main]
    }

    /// Bytes that kernel `index` reads and its arithmetic operations, by the cost table of the package; 0 if absent.
    pub fn costs(&self, index: usize) -> [u64; 2] {
        self.costs.get(index).copied().unwrap_or_default()
    }

    /// Name and label of kernel `index`, for the instance that has `kernels`.
    pub fn kernel<'a>(
        &'a self,
        index: usize,
        kernels: &'a BoundKernels,
    ) -> Option<(&'a str, Label<'a>)> {
        let (name, label) = self.main().kernel(index)?;
        let position = self.sized.get(index).copied().flatten();
        let sized = position.and_then(|position| kernels.get(position));
        Some((name, sized.map_or(label, |kernel| kernel.label())))
    }

    /// Types of the tensors that kernel `index` of the instance that has `kernels` reads and writes, for traces.
    pub fn shapes(&self, index: usize, kernels: &BoundKernels) -> String {
        let position = self.sized.get(index).copied().flatten();
        match position.and_then(|position| kernels.get(position)) {
            Some(kernel) => kernel.shapes(),
            None => self.main().shapes(index),
        }
    }
}

/// The function that executes the model.
fn main(program: &Program) -> Result<usize> {
    let found = program
        .functions()
        .iter()
        .position(|function| function.name() == "main");
    let main =
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no function @main"))?;
    let function = &program.functions()[main];
    let registers = function.registers();
    if function.arguments() > 0 || function.results(&registers).next().is_some() {
        let text = "@main has arguments or results";
        return Err(Error::new(ErrorKind::InvalidPackage, text));
    }
    Ok(main)
}
