//! Module to text: functions and their blocks (facts 4.4).

use super::PrintOptions;
use super::compiled::compiled_name;
use super::print_attributes::{
    PrintSymbol, print_location, print_string, print_symbol_name, separate,
};
use crate::{Attribute, Function, FunctionId, FunctionKind, Module, Name, RegisterId};
use std::collections::{HashMap, HashSet};

/// The names of a function's values.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) registers: Vec<String>,
    pub(crate) next: usize,
    pub(crate) next_argument: usize,
    taken: HashSet<String>,
}

impl Names {
    /// Names for `function`, whose arguments have `arguments` where given, numbered from `next`
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

/// Prints one Module.
pub(crate) struct Printer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) options: PrintOptions,
    pub(crate) out: String,
    /// Text of each compiled module that stands by itself, by name.
    compiled: HashMap<String, &'a str>,
    /// Their names in the order they are printed.
    compiled_order: Vec<String>,
    /// Regions that have been printed, so that an unverified module cannot repeat itself.
    printed: Vec<bool>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(module: &'a Module, options: PrintOptions) -> Self {
        let mut this = Self {
            module,
            options,
            out: String::new(),
            compiled: HashMap::new(),
            compiled_order: Vec::new(),
            printed: vec![false; module.functions.len()],
        };
        let kernels = module
            .functions
            .iter()
            .flat_map(|function| &function.kernels);
        kernels
            .flat_map(|kernel| &kernel.attributes)
            .for_each(|(_, a)| this.collect_compiled(a));
        this
    }

    pub(crate) fn print(mut self) -> String {
        for name in std::mem::take(&mut self.compiled_order) {
            self.out
                .push_str(self.compiled.get(&name).copied().unwrap_or_default());
            self.out.push('\n');
        }
        for function in self
            .module
            .functions
            .iter()
            .filter(|function| !function.is_region())
        {
            self.function(function);
        }
        self.out
    }

    fn collect_compiled(&mut self, attribute: &'a Attribute) {
        attribute
            .as_list()
            .unwrap_or_default()
            .iter()
            .for_each(|a| self.collect_compiled(a));
        let Attribute::Symbol { path, module } = attribute else {
            return;
        };
        let Some(root) = path.first() else { return };
        let taken = self.compiled.contains_key(root) || self.module.function(root).is_some();
        if !taken && compiled_name(module).as_ref() == Some(root) {
            self.compiled.insert(root.clone(), module);
            self.compiled_order.push(root.clone());
        }
    }

    /// Prints a symbol by its path when its module is printed, else with its module.
    pub(crate) fn attribute(&mut self, attribute: &Attribute) {
        let compiled = &self.compiled;
        let symbol: &PrintSymbol<'_> = &|out, path, module| {
            let known = path.first().and_then(|root| compiled.get(root)) == Some(&module);
            if !known {
                out.push_str("#tenon.symbol<");
            }
            for (index, name) in path.iter().enumerate() {
                if index > 0 {
                    out.push_str("::");
                }
                print_symbol_name(out, name);
            }
            if !known {
                out.push_str(", ");
                print_string(out, module);
                out.push('>');
            }
        };
        super::print_attributes::print_attribute(&mut self.out, attribute, symbol);
    }

    fn function(&mut self, function: &Function) {
        let native = function.kind == FunctionKind::Native;
        self.out.push_str(if native {
            "func.func private "
        } else {
            "func.func "
        });
        print_symbol_name(&mut self.out, &function.name);
        let names = Names::of(function, None, 0, 0);
        self.out.push('(');
        for (index, r#type) in function.argument_types().iter().enumerate() {
            separate(&mut self.out, index);
            if !native {
                self.out.push_str(names.name(RegisterId(index as u32)));
                self.out.push_str(": ");
            }
            self.out.push_str(r#type);
        }
        self.out.push(')');
        if !function.result_types.is_empty() {
            self.out.push_str(" -> ");
            self.types(&function.result_types);
        }
        match function.kind {
            FunctionKind::Async => {}
            FunctionKind::Native => self.out.push_str(" attributes {tfrt.native}"),
            FunctionKind::Sync => self.out.push_str(" attributes {tfrt.sync}"),
        }
        if !native {
            self.out.push_str(" {\n");
            self.block(function, &names, 1);
            self.out.push('}');
            if self.options.locations {
                print_location(&mut self.out, &function.location);
            }
        }
        self.out.push('\n');
    }

    /// One type, or several (or none) in parentheses.
    pub(crate) fn types(&mut self, types: &[Name]) {
        match types {
            [one] if !one.starts_with('(') => self.out.push_str(one),
            several => {
                self.out.push('(');
                self.out.push_str(&several.join(", "));
                self.out.push(')');
            }
        }
    }

    pub(crate) fn indent(&mut self, depth: usize) {
        (0..depth).for_each(|_| self.out.push_str("  "));
    }

    /// The kernels of a function and its return.
    pub(crate) fn block(&mut self, function: &Function, names: &Names, depth: usize) {
        for kernel in &function.kernels {
            self.indent(depth);
            self.kernel(function, kernel, names, depth);
            if self.options.locations {
                print_location(&mut self.out, &kernel.location);
            }
            self.out.push('\n');
        }
        self.indent(depth);
        self.out.push_str("tfrt.return");
        if !function.results.is_empty() {
            self.out.push(' ');
            self.values(&function.results, names);
            self.out.push_str(" : ");
            self.out.push_str(&function.result_types.join(", "));
        }
        self.out.push('\n');
    }

    pub(crate) fn values(&mut self, registers: &[RegisterId], names: &Names) {
        for (index, register) in registers.iter().enumerate() {
            separate(&mut self.out, index);
            self.out.push_str(names.name(*register));
        }
    }

    /// A region that stands before its holder and was not printed yet.
    pub(crate) fn region(&mut self, id: FunctionId) -> Option<&'a Function> {
        let printed = self.printed.get_mut(id.0 as usize)?;
        if std::mem::replace(printed, true) {
            return None;
        }
        self.module.functions.get(id.0 as usize)
    }
}
