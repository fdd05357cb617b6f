//! Uses of registers: use counts and used-by lists, as BEF stores them (bef 1.6).

use crate::{Function, RegisterId};

/// The uses of every register of a function. Kernels are numbered from 0 in block order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uses {
    counts: Vec<u32>,
    /// The users of register r are `users[starts[r]..starts[r + 1]]`.
    users: Vec<u32>,
    starts: Vec<u32>,
    without_operands: Vec<u32>,
}

impl Uses {
    /// Collects the uses of `function`. Registers out of range are ignored; the verifier reports
    /// them.
    pub fn of(function: &Function) -> Uses {
        let registers = function.registers.len();
        let mut starts = vec![0u32; registers + 1];
        for register in function.kernels.iter().flat_map(|kernel| &kernel.operands) {
            if let Some(start) = starts.get_mut(register.0 as usize + 1) {
                *start += 1;
            }
        }
        let mut counts: Vec<u32> = starts[1..].to_vec();
        for register in &function.results {
            if let Some(count) = counts.get_mut(register.0 as usize) {
                *count += 1;
            }
        }
        for register in 0..registers {
            starts[register + 1] += starts[register];
        }
        // Filled in reverse: the most recent use is first, as in MLIR's use lists. Execution order
        // depends on it.
        let mut next: Vec<u32> = starts[1..].to_vec();
        let mut users = vec![0; starts[registers] as usize];
        for (index, kernel) in function.kernels.iter().enumerate() {
            for register in &kernel.operands {
                if let Some(next) = next.get_mut(register.0 as usize) {
                    *next -= 1;
                    users[*next as usize] = index as u32;
                }
            }
        }
        let without_operands = (0u32..)
            .zip(&function.kernels)
            .filter(|(_, kernel)| kernel.operands.is_empty())
            .map(|(index, _)| index)
            .collect();
        Uses {
            counts,
            users,
            starts,
            without_operands,
        }
    }

    /// Number of uses of the register, including returns.
    pub fn count(&self, register: RegisterId) -> u32 {
        self.counts.get(register.0 as usize).copied().unwrap_or(0)
    }

    /// The kernels that use the register, last first; a kernel that uses it twice is listed twice.
    pub fn users(&self, register: RegisterId) -> &[u32] {
        let index = register.0 as usize;
        match (self.starts.get(index), self.starts.get(index + 1)) {
            (Some(start), Some(end)) => &self.users[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// The kernels without operands, in block order: the kernels that are ready at the start.
    pub fn without_operands(&self) -> &[u32] {
        &self.without_operands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FunctionBuilder, FunctionKind};

    #[test]
    fn the_most_recent_use_comes_first() {
        let mut function = FunctionBuilder::new("f", FunctionKind::Async);
        let a = function.argument("i32");
        let b = function.kernel("one").result("i32");
        let c = function.kernel("add").operands([a, b]).result("i32");
        function.kernel("square").operands([b, b]).result("i32");
        let function = function.returns([c, c]);
        let uses = Uses::of(&function);
        assert_eq!(uses.users(a), [1]);
        assert_eq!(uses.users(b), [2, 2, 1]);
        assert_eq!((uses.count(b), uses.count(c)), (3, 2));
        assert_eq!(uses.users(c), [0u32; 0]);
        assert_eq!(uses.without_operands(), [0]);
        assert_eq!(uses.users(RegisterId(99)), [0u32; 0]);
    }
}
