//! The extension module `tenon._tenon` of the Python package `tenon` (docs/python.md).
//!
//! Classes and functions that the package re-exports, over the crate `tenon`. Errors, reports and the drop-in modules
//! are Python code beside it (`python/tenon`).

mod arrays;
mod bindings;
mod call;
mod command;
mod compare;
mod compile;
mod dlpack;
mod elements;
mod error;
mod fork;
mod host_program;
mod inputs;
mod memory;
mod model;
mod netlist;
mod outputs;
mod package;
mod port;
mod quantize;
mod session;
mod submit;
mod tensor;
mod types;

/// The extension module.
#[pyo3::pymodule(gil_used = false)]
mod _tenon {
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::bindings::PyBindings;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::compare::compare_package;
    #[pymodule_export]
    use crate::compile::compile_model;
    #[pymodule_export]
    use crate::fork::after_fork;
    #[pymodule_export]
    use crate::host_program::PyHostProgram;
    #[pymodule_export]
    use crate::model::{PyModel, load};
    #[pymodule_export]
    use crate::netlist::PyNetlist;
    #[pymodule_export]
    use crate::outputs::{PyOutputs, make_outputs};
    #[pymodule_export]
    use crate::package::PyPackage;
    #[pymodule_export]
    use crate::port::PyPort;
    #[pymodule_export]
    use crate::quantize::{quantize_model, write_file};
    #[pymodule_export]
    use crate::session::PySession;
    #[pymodule_export]
    use crate::tensor::{PyTensor, empty, tensor};
}
