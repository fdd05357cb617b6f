//! Outputs that extend an input: states that grow in place.
//!
//! The program appends to an input if one Concat alone writes an output, the input is its first operand, and no
//! dimension before the axis has more than one element: then the bytes of the input are the first ones of the output.
//! An execution may have both in the same memory, and the Concat copies only what is new.

use super::variables::SymbolicVariables;
use std::collections::BTreeSet;
use tenon_bef::Module;
use tenon_kernels::{ConcatOperands, Movements, VariableId, written_variables};

/// Positions of an input and of the output that extends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendedPort {
    pub input: usize,
    pub output: usize,
}

/// The outputs that extend an input, in the order of the outputs.
pub(super) fn appended_ports(module: &Module, variables: &SymbolicVariables) -> Vec<AppendedPort> {
    let kernels = || module.functions.iter().flat_map(|f| &f.kernels);
    let mut written = BTreeSet::new();
    let mut written_twice = BTreeSet::new();
    for kernel in kernels() {
        // Kernels that are malformed are refused when they are bound.
        let ids = written_variables(kernel, &Movements::default());
        for id in ids.into_iter().flatten() {
            let id = variables.viewed(id);
            if !written.insert(id) {
                written_twice.insert(id);
            }
        }
    }
    let mut found: Vec<AppendedPort> = Vec::new();
    for concat in kernels().filter_map(ConcatOperands::of) {
        let ports = variables
            .input_position(concat.first)
            .zip(variables.output_position(concat.result));
        if let Some((input, output)) = ports
            && !written_twice.contains(&concat.result)
            && is_outermost(&concat, variables)
            && found.iter().all(|port| port.input != input)
        {
            found.push(AppendedPort { input, output });
        }
    }
    found.sort_by_key(|port| port.output);
    found
}

/// Whether the dimensions before the axis have one element.
fn is_outermost(concat: &ConcatOperands, variables: &SymbolicVariables) -> bool {
    let single = |id: VariableId| {
        let (dtype, extents) = variables.ty(id)?;
        let rank = extents.len() as i64;
        let axis = if concat.axis < 0 {
            concat.axis + rank
        } else {
            concat.axis
        };
        let before = extents.get(..usize::try_from(axis).ok()?)?;
        let single = before.iter().all(|extent| extent.constant() == Some(1));
        single.then_some(dtype)
    };
    single(concat.first).is_some_and(|dtype| single(concat.result) == Some(dtype))
}
