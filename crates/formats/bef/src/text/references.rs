//! References to functions, which may precede the functions.

use super::attributes::Value;
use super::parser::{Parser, Reference};
use crate::syntax::{Cursor, print_function_type};
use crate::{Dictionary, Function, FunctionId, Kernel, Name};
use std::collections::HashMap;

impl<'a> Parser<'a> {
    /// A placeholder id of the function called `name`, until all functions are known.
    pub(crate) fn reference(&mut self, name: String, place: Cursor<'a>) -> FunctionId {
        let id = FunctionId(u32::try_from(self.references.len()).unwrap_or(u32::MAX));
        self.references.push(Reference {
            name,
            place,
            by: self.current,
        });
        id
    }

    /// Replaces the placeholders by function ids.
    pub(crate) fn resolve(&mut self) {
        let ids: HashMap<&str, FunctionId> = (0u32..)
            .zip(&self.module.functions)
            .map(|(id, function)| (function.name.as_str(), FunctionId(id)))
            .collect();
        let found: Vec<Option<FunctionId>> = (self.references.iter())
            .map(|reference| ids.get(reference.name.as_str()).copied())
            .collect();
        self.report_missing();
        self.check_calls(&found);
        let references = std::mem::take(&mut self.references);
        for function in &mut self.module.functions {
            for kernel in &mut function.kernels {
                resolve_kernel(kernel, &found, &references);
            }
        }
    }

    fn report_missing(&mut self) {
        let mut errors = Vec::new();
        for Reference { name, place, by } in &self.references {
            // A function that is defined but malformed has been reported.
            if self.names.contains(name) {
            } else if by.is_call {
                let message =
                    format!("'tfrt.call' op '{name}' does not reference a valid function");
                errors.push(by.start.error(message));
            } else if self.purpose.is_bef() {
                errors.push(place.error(format!("function @{name} not defined")));
            }
        }
        errors.into_iter().for_each(|error| self.report(error));
    }

    /// Operands and results of a call must have the types of its callee.
    fn check_calls(&mut self, found: &[Option<FunctionId>]) {
        let mut errors = Vec::new();
        let functions = &self.module.functions;
        for (function, kernel) in functions
            .iter()
            .flat_map(|f| f.kernels.iter().map(move |k| (f, k)))
        {
            if kernel.name != "tfrt.call" {
                continue;
            }
            let Some((_, id)) = kernel.functions.first() else {
                continue;
            };
            let callee = found.get(id.0 as usize).copied().flatten();
            let callee = callee.and_then(|id| functions.get(id.0 as usize));
            let reference = self.references.get(id.0 as usize);
            if let (Some(callee), Some(reference)) = (callee, reference)
                && let Some(problem) = call_problem(function, kernel, callee)
            {
                errors.push(
                    reference
                        .by
                        .start
                        .error(format!("'tfrt.call' op {problem}")),
                );
            }
        }
        errors.into_iter().for_each(|error| self.report(error));
    }
}

fn call_problem(function: &Function, kernel: &Kernel, callee: &Function) -> Option<String> {
    let types = |registers: &[crate::RegisterId]| -> Vec<&str> {
        let r#type = |r: &crate::RegisterId| function.registers.get(r.0 as usize);
        (registers.iter())
            .map(|register| r#type(register).map_or("none", Name::as_str))
            .collect()
    };
    let (operands, results) = (types(&kernel.operands), types(&kernel.results));
    let fits = callee.argument_types() == operands && callee.result_types == results;
    (!fits).then(|| {
        let arguments: Vec<&str> = callee.argument_types().iter().map(Name::as_str).collect();
        let made: Vec<&str> = callee.result_types.iter().map(Name::as_str).collect();
        format!(
            "has type '{}', but its callee @{} has '{}'",
            print_function_type(&operands, &results),
            callee.name,
            print_function_type(&arguments, &made)
        )
    })
}

/// Resolves the references of one kernel. A reference to an undefined function becomes a symbol
/// attribute, which only a text for rewriting may have.
fn resolve_kernel(kernel: &mut Kernel, found: &[Option<FunctionId>], references: &[Reference<'_>]) {
    let mut symbols: Vec<(String, Value<'_>)> = Vec::new();
    let target = |id: &FunctionId| found.get(id.0 as usize).copied().flatten();
    let missing: Vec<Name> = (kernel.functions.iter())
        .filter(|(name, id)| !name.is_empty() && target(id).is_none())
        .map(|(name, _)| name.clone())
        .collect();
    kernel.functions.retain_mut(|(name, id)| {
        if name.is_empty() {
            return true;
        }
        if !missing.contains(name) {
            *id = target(id).unwrap_or(*id);
            return true;
        }
        if let Some(Reference {
            name: function,
            place,
            ..
        }) = references.get(id.0 as usize)
        {
            let symbol = (vec![function.clone()], *place);
            match (name.strip_suffix("[]"), symbols.last_mut()) {
                (Some(base), Some((last, Value::Symbols(list)))) if base == last => {
                    list.push(symbol);
                }
                (Some(base), _) => symbols.push((base.to_owned(), Value::Symbols(vec![symbol]))),
                (None, _) => symbols.push((name.as_str().to_owned(), Value::Symbol(symbol))),
            }
        }
        false
    });
    if !symbols.is_empty() {
        let attributes = symbols
            .into_iter()
            .map(|(name, value)| (Name::from(name), value.into_attribute()));
        kernel.attributes.extend(attributes.collect::<Dictionary>());
        kernel.attributes.sort_by(|(one, _), (two, _)| one.cmp(two));
    }
}
