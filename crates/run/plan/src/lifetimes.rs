//! The arena of a program: the lifetimes of its variables over a sequence of kernels, and their offsets.
//!
//! A variable lives from the kernel that writes it to the last kernel that reads it or a view of it. A kernel that
//! computes in place writes its output over an input whose lifetime ends with it.

use crate::{Block, MemoryStrategy, assign};
use tenon_base::{Error, ErrorKind, Result};

/// The memory of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableMemory {
    /// Memory outside the arena.
    Fixed,
    /// A range of the arena.
    Arena,
    /// The bytes of another variable, which is not a view.
    View(u32),
}

/// A variable of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedVariable {
    /// Its size in bytes.
    pub bytes: usize,
    /// Its memory.
    pub memory: VariableMemory,
}

/// The variables that a kernel accesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelOperands {
    /// The variables that it reads; `None` for an operand without memory.
    pub inputs: Vec<Option<u32>>,
    /// The variables that it writes.
    pub outputs: Vec<Option<u32>>,
    /// Memory that only this kernel uses.
    pub scratch: Option<u32>,
}

/// A kernel of the program that is planned.
#[derive(Debug, Clone, Copy)]
pub struct PlannedKernel<'a> {
    /// The variables that it accesses.
    pub operands: &'a KernelOperands,
    /// Positions of inputs and outputs that may be the same memory.
    pub in_place: &'a [(usize, usize)],
}

/// The memory of all variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArenaPlan {
    /// The offset of each variable in the arena, a multiple of 64; 0 outside the arena.
    pub offsets: Vec<usize>,
    /// The first and the last kernel at which each variable in the arena is alive.
    pub alive: Vec<(u32, u32)>,
    /// The arena's size.
    pub bytes: usize,
}

/// Plans the arena of `kernels`, which run one after the other.
///
/// # Errors
/// Operands and views that are no variables, and an arena larger than the address space.
pub fn plan_arena(
    variables: &[PlannedVariable],
    kernels: &[PlannedKernel<'_>],
    strategy: &dyn MemoryStrategy,
) -> Result<ArenaPlan> {
    let mut planner = Planner {
        variables,
        last_read: vec![None; variables.len()],
        block_of: vec![None; variables.len()],
        alive: vec![(0, 0); variables.len()],
        blocks: Vec::new(),
    };
    for (kernel, planned) in (0..).zip(kernels) {
        for &variable in planned.operands.inputs.iter().flatten() {
            let root = planner.root(variable)?;
            planner.last_read[root] = Some(kernel);
        }
    }
    for (kernel, &planned) in (0..).zip(kernels) {
        planner.kernel(kernel, planned)?;
    }
    planner.finish(strategy)
}

struct Planner<'a> {
    variables: &'a [PlannedVariable],
    /// The last kernel that reads the variable or a view of it.
    last_read: Vec<Option<u32>>,
    block_of: Vec<Option<usize>>,
    alive: Vec<(u32, u32)>,
    blocks: Vec<Block>,
}

impl Planner<'_> {
    /// The variable whose memory a variable uses.
    fn root(&self, variable: u32) -> Result<usize> {
        let root = match self.variables.get(variable as usize).map(|v| v.memory) {
            Some(VariableMemory::View(of)) => of,
            Some(_) => variable,
            None => return Err(no_variable(variable)),
        };
        match self.variables.get(root as usize).map(|v| v.memory) {
            Some(VariableMemory::View(_)) | None => Err(no_variable(root)),
            Some(_) => Ok(root as usize),
        }
    }

    fn is_in_arena(&self, root: usize) -> bool {
        self.variables[root].memory == VariableMemory::Arena
    }

    fn kernel(&mut self, kernel: u32, planned: PlannedKernel<'_>) -> Result<()> {
        let PlannedKernel { operands, in_place } = planned;
        for &variable in operands.inputs.iter().flatten() {
            // Nothing wrote it: its contents are unspecified, its memory is not.
            let root = self.root(variable)?;
            self.write(root, kernel, None);
        }
        let mut reused: Vec<(usize, usize)> = Vec::new();
        for &(input, output) in in_place {
            if let Some(block) = self.reusable_block(kernel, operands, input, output)?
                && !reused
                    .iter()
                    .any(|&(other, used)| used == block || other == output)
            {
                reused.push((output, block));
            }
        }
        for (position, &variable) in operands.outputs.iter().enumerate() {
            let Some(variable) = variable else { continue };
            let root = self.root(variable)?;
            let block = reused.iter().find(|(output, _)| *output == position);
            if root == variable as usize {
                self.write(root, kernel, block.map(|&(_, block)| block));
            }
        }
        if let Some(scratch) = operands.scratch {
            let root = self.root(scratch)?;
            self.write(root, kernel, None);
        }
        Ok(())
    }

    /// Gives a variable its block when it has none.
    fn write(&mut self, root: usize, kernel: u32, reused: Option<usize>) {
        if !self.is_in_arena(root) {
            return;
        }
        let last = self.last_read[root].unwrap_or(kernel).max(kernel);
        if let Some(block) = self.block_of[root] {
            let block = &mut self.blocks[block];
            block.last = block.last.max(last);
            return;
        }
        let block = match reused {
            Some(block) => {
                self.blocks[block].last = last;
                block
            }
            None => {
                self.blocks.push(Block {
                    bytes: self.variables[root].bytes,
                    first: kernel,
                    last,
                });
                self.blocks.len() - 1
            }
        };
        self.block_of[root] = Some(block);
        self.alive[root] = (kernel, last);
    }

    /// The block of an input that an output may overwrite: this kernel is the last that reads it, no other input
    /// of the kernel is in it, and it has the output's size.
    fn reusable_block(
        &self,
        kernel: u32,
        operands: &KernelOperands,
        input: usize,
        output: usize,
    ) -> Result<Option<usize>> {
        let operand = |list: &[Option<u32>], at: usize| list.get(at).copied().flatten();
        let pair = operand(&operands.inputs, input).zip(operand(&operands.outputs, output));
        let Some((read, written)) = pair else {
            return Ok(None);
        };
        let (source, target) = (self.root(read)?, self.root(written)?);
        let Some(block) = self.block_of[source] else {
            return Ok(None);
        };
        for (position, &other) in operands.inputs.iter().enumerate() {
            if let Some(other) = other.filter(|_| position != input)
                && self.root(other)? == source
            {
                return Ok(None);
            }
        }
        let bytes = |variable: u32| self.variables[variable as usize].bytes;
        let fits = bytes(read) == bytes(written) && bytes(written) == self.blocks[block].bytes;
        let ends = self.last_read[source] == Some(kernel);
        let is_new = self.is_in_arena(target)
            && target == written as usize
            && self.block_of[target].is_none();
        Ok((fits && ends && is_new).then_some(block))
    }

    fn finish(self, strategy: &dyn MemoryStrategy) -> Result<ArenaPlan> {
        let assignment = assign(strategy, &self.blocks)?;
        let mut plan = ArenaPlan {
            offsets: vec![0; self.variables.len()],
            alive: self.alive.clone(),
            bytes: assignment.bytes,
        };
        for variable in 0..self.variables.len() {
            let root = self.root(variable as u32)?;
            if let Some(block) = self.block_of[root] {
                plan.offsets[variable] = assignment.offsets[block];
                plan.alive[variable] = self.alive[root];
            }
        }
        Ok(plan)
    }
}

fn no_variable(id: u32) -> Error {
    let text = format!("{id} is no variable, or a view of a view");
    Error::new(ErrorKind::InvalidPackage, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MEMORY_STRATEGIES;
    use proptest::prelude::*;

    fn variable(bytes: usize, memory: VariableMemory) -> PlannedVariable {
        PlannedVariable { bytes, memory }
    }

    type TestKernel = (KernelOperands, Vec<(usize, usize)>);

    fn kernel(inputs: &[u32], outputs: &[u32], in_place: &[(usize, usize)]) -> TestKernel {
        let some = |list: &[u32]| list.iter().copied().map(Some).collect();
        let operands = KernelOperands {
            inputs: some(inputs),
            outputs: some(outputs),
            scratch: None,
        };
        (operands, in_place.to_vec())
    }

    fn plan(
        variables: &[PlannedVariable],
        kernels: &[TestKernel],
        strategy: usize,
    ) -> Result<ArenaPlan> {
        let planned = kernels.iter();
        let planned = planned.map(|(operands, in_place)| PlannedKernel { operands, in_place });
        let planned: Vec<PlannedKernel<'_>> = planned.collect();
        plan_arena(variables, &planned, MEMORY_STRATEGIES[strategy])
    }

    #[test]
    fn an_output_replaces_an_input_that_ends_there() {
        use VariableMemory::{Arena, Fixed, View};
        let variables = [
            variable(64, Fixed),
            variable(64, Arena),
            variable(64, View(1)),
            variable(64, Arena),
            variable(64, Arena),
            variable(64, Fixed),
        ];
        let kernels = [
            kernel(&[0], &[1], &[(0, 0)]),
            kernel(&[2], &[3], &[(0, 0)]),
            // Two operands in one block: not in place.
            kernel(&[3, 3], &[4], &[(0, 0)]),
            kernel(&[4], &[5], &[(0, 0)]),
        ];
        let plan = plan(&variables, &kernels, 0).unwrap();
        assert_eq!(plan.offsets[1], plan.offsets[3]);
        assert_eq!(plan.offsets[1], plan.offsets[2]);
        assert_ne!(plan.offsets[3], plan.offsets[4]);
        assert_eq!((plan.alive[1], plan.alive[3]), ((0, 1), (1, 2)));
        assert_eq!(plan.bytes, 128);
    }

    #[test]
    fn a_view_of_a_view_is_refused() {
        let variables = [
            variable(4, VariableMemory::Arena),
            variable(4, VariableMemory::View(0)),
            variable(4, VariableMemory::View(1)),
        ];
        let refused =
            |kernels: &[TestKernel]| plan(&variables, kernels, 0).unwrap_err().to_string();
        assert!(refused(&[kernel(&[2], &[0], &[])]).contains("1 is no variable"));
        assert!(refused(&[kernel(&[7], &[0], &[])]).contains("7 is no variable"));
    }

    proptest! {
        /// Simulates the program: every kernel reads what was written, whatever shares memory.
        #[test]
        fn values_are_intact_when_they_are_read(
            sizes in proptest::collection::vec(0usize..400, 2..20),
            choices in proptest::collection::vec((0usize..100, 0usize..100, any::<bool>(), 0usize..200), 1..20),
            strategy in 0usize..3,
        ) {
            // Variable 0 is an input; kernel k writes variable k + 1, followed by its scratch memory.
            let count = sizes.len().min(choices.len() + 1);
            let mut variables = vec![variable(sizes[0], VariableMemory::Fixed)];
            let mut kernels = Vec::new();
            let mut values = vec![0u32];
            for index in 1..count {
                let (a, b, in_place, scratch) = choices[index - 1];
                let inputs = [values[a % index], values[b % index]];
                let bytes = if in_place { variables[inputs[0] as usize].bytes } else { sizes[index] };
                let output = variables.len() as u32;
                variables.push(variable(bytes, VariableMemory::Arena));
                let scratch_variable = (scratch > 0).then(|| {
                    variables.push(variable(scratch, VariableMemory::Arena));
                    variables.len() as u32 - 1
                });
                let pairs: &[(usize, usize)] = if in_place { &[(0, 0), (1, 0)] } else { &[] };
                let mut operands = kernel(&inputs, &[output], pairs);
                operands.0.scratch = scratch_variable;
                kernels.push(operands);
                values.push(output);
            }
            let plan = plan(&variables, &kernels, strategy).unwrap();
            let mut arena = vec![0u8; plan.bytes];
            let range = |id: u32| {
                let start = plan.offsets[id as usize];
                start..start + variables[id as usize].bytes
            };
            for (index, (operands, _)) in kernels.iter().enumerate() {
                for &input in operands.inputs.iter().flatten().filter(|&&input| input > 0) {
                    prop_assert!(arena[range(input)].iter().all(|&byte| byte == input as u8));
                }
                if let Some(scratch) = operands.scratch {
                    let read = operands.inputs.iter().flatten().filter(|&&input| input > 0);
                    for &input in read {
                        let (a, b) = (range(scratch), range(input));
                        prop_assert!(a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start);
                    }
                    arena[range(scratch)].fill(0xff);
                }
                let output = operands.outputs[0].unwrap();
                arena[range(output)].fill(output as u8);
                prop_assert!(plan.alive[output as usize].0 as usize == index);
            }
        }
    }
}
