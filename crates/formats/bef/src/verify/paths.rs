//! Paths of functions and kernels in messages of the verifier.

use crate::{Function, FunctionId};

/// The path of a function in messages: `@name`, or `region N`.
pub(super) fn function_path(id: FunctionId, function: &Function) -> String {
    if function.is_region() {
        format!("region {}", id.0)
    } else {
        format!("@{}", function.name)
    }
}

/// The path of a kernel in messages: that of its function, position and name.
pub(super) fn kernel_path(id: FunctionId, function: &Function, index: usize) -> String {
    let kernel = function.kernels.get(index);
    let name = kernel.map_or("", |kernel| &kernel.name);
    let function = function_path(id, function);
    format!("{function}: kernel {index} '{}'", name.escape_debug())
}
