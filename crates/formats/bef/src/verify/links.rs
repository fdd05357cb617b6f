//! What shows only between functions: their names, and who holds which region.

use super::paths::{function_path, kernel_path};
use crate::attribute::MAX_NESTING;
use crate::{Function, FunctionId, Module};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location};

/// Regions nest this deep at most.
const MAX_REGION_NESTING: usize = MAX_NESTING;

/// Two functions of one name, and regions that are not held by exactly one kernel, or too deep.
pub(crate) fn link_problems(module: &Module) -> Vec<Error> {
    let mut problems = Vec::new();
    function_names(module, &mut problems);
    // Without regions nothing can be held, and kernels need not be looked at.
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

/// The function that holds each region; regions stand before it.
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
                    let message = format!("region {} is held twice", region.0);
                    problems.push(Error::new(ErrorKind::InvalidProgram, message).at(place));
                }
            }
        }
    }
    holders
}

/// Every region is held, and not too deep.
fn region_holders(module: &Module, holders: &[Option<FunctionId>], problems: &mut Vec<Error>) {
    // Regions stand before their holder, so that depths are known from the back.
    let mut depths = vec![0usize; module.functions.len()];
    for (index, function) in module.functions.iter().enumerate().rev() {
        let id = FunctionId(index as u32);
        match holders[index] {
            None if function.is_region() => {
                problems.push(problem(id, function, "a region that no kernel holds"));
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
