//! Names of values in printed text.

use crate::{Function, RegisterId};
use std::collections::HashSet;

/// The names of a function's values.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) registers: Vec<String>,
    pub(crate) next: usize,
    pub(crate) next_argument: usize,
    taken: HashSet<String>,
}

impl Names {
    /// Names for `function`, whose arguments are called `arguments` if given, numbered from `next`
    /// and `next_argument`.
    pub(crate) fn of(
        function: &Function,
        arguments: Option<Vec<String>>,
        next: usize,
        next_argument: usize,
    ) -> Names {
        let taken = arguments.iter().flatten().cloned().collect();
        let registers = vec![String::new(); function.registers.len()];
        let mut names = Names {
            registers,
            next,
            next_argument,
            taken,
        };
        let given = arguments.unwrap_or_default();
        for index in 0..function.argument_types().len() {
            let name = given.get(index).cloned().unwrap_or_else(|| {
                names.next_argument += 1;
                format!("%arg{}", names.next_argument - 1)
            });
            names.set(RegisterId(index as u32), name);
        }
        for kernel in function
            .kernels
            .iter()
            .filter(|kernel| !kernel.results.is_empty())
        {
            let group = names.fresh();
            for (index, register) in kernel.results.iter().enumerate() {
                let single = kernel.results.len() == 1;
                names.set(
                    *register,
                    if single {
                        group.clone()
                    } else {
                        format!("{group}#{index}")
                    },
                );
            }
        }
        names
    }

    fn fresh(&mut self) -> String {
        loop {
            let name = format!("%{}", self.next);
            self.next += 1;
            let group = format!("{name}#");
            if !self
                .taken
                .iter()
                .any(|taken| *taken == name || taken.starts_with(&group))
            {
                return name;
            }
        }
    }

    fn set(&mut self, register: RegisterId, name: String) {
        if let Some(slot) = self.registers.get_mut(register.0 as usize) {
            *slot = name;
        }
    }

    pub(crate) fn name(&self, register: RegisterId) -> &str {
        self.registers
            .get(register.0 as usize)
            .map_or("%?", String::as_str)
    }
}
