//! Invariants across functions: unique names, and regions that belong to exactly one kernel.

use super::paths::{function_path, kernel_path};
use crate::attribute::MAX_NESTING;
use crate::{Function, FunctionId, Module};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location};

/// Maximum nesting of regions.
const MAX_REGION_NESTING: usize = MAX_NESTING;

/// Duplicate function names, regions that do not belong to exactly one kernel, and regions nested
/// too deep.
pub(crate) fn link_problems(module: &Module) -> Vec<Error> {
    let mut problems = Vec::new();
    function_names(module, &mut problems);
    // Without regions, kernels need not be visited.
    if module.functions.iter().any(Function::is_region) {
        let holders = holders(module, &mut problems);
        region_holders(module, &holders, &mut problems);
    }
    problems
}

fn problem(id: FunctionId, function: &Function, message: impl Into<String>) -> Error {
    let place = Location::field(function_path(id, function));
    Error::new(ErrorKind::InvalidProgram, message).at(place)
}

fn function_names(module: &Module, problems: &mut Vec<Error>) {
    let mut names = HashSet::new();
    for (id, function) in (0u32..).zip(&module.functions) {
        if !function.is_region() && !names.insert(function.name.as_str()) {
            problems.push(problem(
                FunctionId(id),
                function,
                "redefinition of this symbol",
            ));
        }
    }
}

/// The function that contains each region; regions precede it.
fn holders(module: &Module, problems: &mut Vec<Error>) -> Vec<Option<FunctionId>> {
    let mut holders: Vec<Option<FunctionId>> = vec![None; module.functions.len()];
    for (id, function) in (0u32..).zip(&module.functions) {
        for (index, kernel) in function.kernels.iter().enumerate() {
            for (_, region) in kernel.functions.iter().filter(|(name, _)| name.is_empty()) {
                let Some(holder) = holders.get_mut(region.0 as usize) else {
                    continue;
                };
                if region.0 < id && holder.replace(FunctionId(id)).is_some() {
                    let place = Location::field(kernel_path(FunctionId(id), function, index));
                    let message = format!("region {} belongs to two kernels", region.0);
                    problems.push(Error::new(ErrorKind::InvalidProgram, message).at(place));
                }
            }
        }
    }
    holders
}

/// Every region belongs to a kernel and is not nested too deep.
fn region_holders(module: &Module, holders: &[Option<FunctionId>], problems: &mut Vec<Error>) {
    // Regions precede their holder: depths are computed in reverse order.
    let mut depths = vec![0usize; module.functions.len()];
    for (index, function) in module.functions.iter().enumerate().rev() {
        let id = FunctionId(index as u32);
        match holders[index] {
            None if function.is_region() => {
                problems.push(problem(id, function, "a region that belongs to no kernel"));
            }
            Some(holder) => {
                depths[index] = depths[holder.0 as usize] + 1;
                if depths[index] == MAX_REGION_NESTING + 1 {
                    let message = format!("regions are nested deeper than {MAX_REGION_NESTING}");
                    problems.push(problem(id, function, message));
                }
            }
            None => {}
        }
    }
}
