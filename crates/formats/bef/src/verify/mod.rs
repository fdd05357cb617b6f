//! The verifier: the invariants of a Module that is encoded or executed.

mod links;
mod paths;
mod rules;

use crate::syntax::is_type;
use crate::{Dictionary, Function, FunctionId, FunctionKind, Kernel, Module, RegisterId};
pub(crate) use links::link_problems;
use paths::{function_path, kernel_path};
pub(crate) use rules::{
    attribute_name_problem, cost_problem, dictionary_problems, reference_problem, result_problems,
};
use rules::{location_problem, text_problem};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Checks the invariants of `module`: each register is defined once, before its uses; referenced
/// functions exist; returned registers match the result types; regions precede the function that
/// contains them and belong to one kernel each; names are encodable; attributes are sorted and
/// valid.
///
/// # Errors
/// All problems at once, each with function and kernel.
pub fn verify(module: &Module) -> Result<()> {
    let mut verifier = Verifier {
        module,
        errors: Vec::new(),
        types: HashSet::new(),
    };
    verifier.dictionary("module", &module.attributes);
    for (id, function) in (0u32..).zip(&module.functions) {
        FunctionVerifier {
            verifier: &mut verifier,
            function,
            id: FunctionId(id),
        }
        .verify();
    }
    verifier.errors.extend(link_problems(module));
    Error::from_all(verifier.errors).map_or(Ok(()), Err)
}

struct Verifier<'a> {
    module: &'a Module,
    errors: Vec<Error>,
    /// The types checked so far; most occur many times.
    types: HashSet<&'a str>,
}

impl Verifier<'_> {
    fn report(&mut self, place: String, message: impl Into<String>) {
        let error = Error::new(ErrorKind::InvalidProgram, message);
        self.errors.push(error.at(Location::field(place)));
    }

    fn dictionary(&mut self, place: &str, attributes: &Dictionary) {
        for problem in dictionary_problems(attributes) {
            self.report(place.into(), problem);
        }
    }
}

struct FunctionVerifier<'a, 'v> {
    verifier: &'v mut Verifier<'a>,
    function: &'a Function,
    id: FunctionId,
}

impl<'a> FunctionVerifier<'a, '_> {
    fn verify(&mut self) {
        let function = self.function;
        if let Some(problem) = text_problem(&function.name) {
            self.report(format!("a function name {problem}"));
        }
        if function.is_region() && !function.attributes.is_empty() {
            self.report("a region with attributes");
        }
        self.verifier
            .dictionary(&function_path(self.id, function), &function.attributes);
        for r#type in function.registers.iter().chain(&function.result_types) {
            let new = self.verifier.types.insert(r#type);
            if new && (!is_type(r#type) || text_problem(r#type).is_some()) {
                self.report(format!("'{}' is not a type", r#type.escape_debug()));
            }
        }
        if function.arguments as usize > function.registers.len() {
            let registers = function.registers.len();
            self.report(format!(
                "{} arguments but {registers} registers",
                function.arguments
            ));
        } else if function.kind == FunctionKind::Native {
            self.native();
        } else {
            self.registers();
            self.results();
        }
        for location in [&function.location, &function.return_location] {
            if let Some(problem) = location_problem(location) {
                self.report(problem);
            }
        }
        for (index, kernel) in function.kernels.iter().enumerate() {
            self.kernel(index, kernel);
        }
    }

    fn report(&mut self, message: impl Into<String>) {
        self.verifier
            .report(function_path(self.id, self.function), message);
    }

    fn report_kernel(&mut self, index: usize, message: impl Into<String>) {
        let place = kernel_path(self.id, self.function, index);
        self.verifier.report(place, message);
    }

    fn native(&mut self) {
        let function = self.function;
        if function.is_region() {
            self.report("a native function without a name");
        }
        let registers = function.registers.len() != function.arguments as usize;
        if !function.kernels.is_empty() || !function.results.is_empty() || registers {
            self.report("a native function has no body");
        }
    }

    /// Every register is defined once, before its uses: arguments at the start, the others by one
    /// kernel.
    fn registers(&mut self) {
        let function = self.function;
        let mut defined = vec![false; function.registers.len()];
        defined[..function.arguments as usize].fill(true);
        for (index, kernel) in function.kernels.iter().enumerate() {
            for register in &kernel.operands {
                match defined.get(register.0 as usize) {
                    Some(true) => {}
                    Some(false) => {
                        self.report_kernel(index, format!("uses {register} before its definition"));
                    }
                    None => self.report_kernel(index, self.unknown(*register)),
                }
            }
            for register in &kernel.results {
                match defined.get_mut(register.0 as usize) {
                    Some(defined) if !*defined => *defined = true,
                    Some(_) => {
                        self.report_kernel(index, format!("defines {register} a second time"))
                    }
                    None => self.report_kernel(index, self.unknown(*register)),
                }
            }
        }
        for (index, _) in defined.iter().enumerate().filter(|(_, defined)| !**defined) {
            self.report(format!("%{index} is never defined"));
        }
    }

    fn unknown(&self, register: RegisterId) -> String {
        format!(
            "{register} is not one of the {} registers",
            self.function.registers.len()
        )
    }

    fn results(&mut self) {
        for problem in result_problems(self.function) {
            self.report(problem);
        }
    }

    fn kernel(&mut self, index: usize, kernel: &'a Kernel) {
        if kernel.name.is_empty() {
            self.report_kernel(index, "a kernel without a name");
        } else if let Some(problem) = text_problem(&kernel.name) {
            self.report_kernel(index, format!("a kernel name {problem}"));
        }
        if let Some(problem) = location_problem(&kernel.location) {
            self.report_kernel(index, problem);
        }
        self.attributes(index, kernel);
        self.references(index, kernel);
    }

    fn attributes(&mut self, index: usize, kernel: &Kernel) {
        for problem in dictionary_problems(&kernel.attributes) {
            self.report_kernel(index, problem);
        }
        if let Some(problem) = cost_problem(&kernel.attributes) {
            self.report_kernel(index, problem);
        }
    }

    fn references(&mut self, index: usize, kernel: &Kernel) {
        for (position, (name, id)) in kernel.functions.iter().enumerate() {
            let Some(target) = self.verifier.module.functions.get(id.0 as usize) else {
                self.report_kernel(index, format!("function {} does not exist", id.0));
                continue;
            };
            let before = &kernel.functions[..position];
            let region = target.is_region();
            let problem = reference_problem(before, name, region, &kernel.attributes);
            if let Some(problem) = problem {
                self.report_kernel(index, problem);
            } else if region && *id >= self.id {
                let message = format!("region {} does not precede its function", id.0);
                self.report_kernel(index, message);
            }
        }
    }
}

#[cfg(test)]
mod tests;
