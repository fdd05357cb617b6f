//! The table of functions.

use crate::structs::{
    Array, CompileOptions, Extent, LoadOptions, Port, QuantizeOptions, State, SubmitOptions,
    TaskOptions,
};
use crate::{
    bindings, blob, compile, model, outputs, quantize, run, session, status, submit, task,
};
use std::ffi::{c_char, c_int, c_void};
use tenon::tensor::dlpack::VersionedTensor;
use tenon_c_callers::handles::Handle;

/// The version of the interface.
pub const MAJOR: u32 = 1;
/// The minor version, incremented by additions.
pub const MINOR: u32 = 1;

/// Declares the table, in the order of the header, with the functions that it has.
macro_rules! table {
    ($($file:ident::$name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// `tenon_functions` of the header.
        #[repr(C)]
        #[allow(missing_docs, reason = "documented in the header")]
        pub struct Functions {
            pub size: usize,
            pub major: u32,
            pub minor: u32,
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        static FUNCTIONS: Functions = Functions {
            size: size_of::<Functions>(),
            major: MAJOR,
            minor: MINOR,
            $($name: $file::$name,)*
        };

        /// Their names, in order.
        #[cfg(test)]
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

table! {
    own::version() -> *const c_char;
    status::status_code(Handle) -> i32;
    status::status_text(Handle) -> *const c_char;
    status::status_part(Handle, usize, i32) -> *const c_char;
    status::status_problem_count(Handle) -> usize;
    status::status_free(Handle);
    blob::blob_get(Handle, *mut *const c_void, *mut usize) -> Handle;
    blob::blob_free(Handle) -> Handle;
    task::task_create(*const TaskOptions, *mut Handle) -> Handle;
    task::task_cancel(Handle) -> Handle;
    task::task_free(Handle) -> Handle;
    compile::compile_file(*const c_char, *const CompileOptions, *mut Handle) -> Handle;
    compile::compile_bytes(*const c_void, usize, *const CompileOptions, *mut Handle) -> Handle;
    compile::package_write(Handle, *const c_char, Handle) -> Handle;
    compile::package_bytes(Handle, Handle, *mut Handle) -> Handle;
    compile::package_placement(Handle, *mut Handle) -> Handle;
    compile::package_load(Handle, *const LoadOptions, *mut Handle) -> Handle;
    compile::package_free(Handle) -> Handle;
    model::model_load_file(*const c_char, *const LoadOptions, *mut Handle) -> Handle;
    model::model_load_bytes(*const c_void, usize, *const LoadOptions, *mut Handle) -> Handle;
    model::model_name(Handle, *mut *const c_char) -> Handle;
    model::model_input_count(Handle, *mut usize) -> Handle;
    model::model_output_count(Handle, *mut usize) -> Handle;
    model::model_input(Handle, usize, *mut Port) -> Handle;
    model::model_output(Handle, usize, *mut Port) -> Handle;
    model::model_find_input(Handle, *const c_char, *mut usize) -> Handle;
    model::model_find_output(Handle, *const c_char, *mut usize) -> Handle;
    model::model_metadata(Handle, *mut Handle) -> Handle;
    model::model_placement(Handle, *mut Handle) -> Handle;
    model::model_free(Handle) -> Handle;
    run::model_run(Handle, *const Array, usize, Handle, *mut Handle) -> Handle;
    run::model_execute(Handle, *const Array, usize, *mut Array, usize, Handle) -> Handle;
    run::model_run_dlpack(Handle, *const *mut VersionedTensor, usize, Handle, *mut *mut VersionedTensor, usize) -> Handle;
    run::model_profile(Handle, *const Array, usize, usize, i32, Handle, *mut Handle) -> Handle;
    outputs::outputs_count(Handle, *mut usize) -> Handle;
    outputs::outputs_get(Handle, usize, *mut Array) -> Handle;
    outputs::outputs_find(Handle, *const c_char, *mut usize) -> Handle;
    outputs::outputs_free(Handle) -> Handle;
    bindings::model_bind(Handle, *const Extent, usize, *mut Handle) -> Handle;
    bindings::bindings_input(Handle, usize, *mut Array) -> Handle;
    bindings::bindings_output(Handle, usize, *mut Array) -> Handle;
    bindings::bindings_run(Handle, Handle) -> Handle;
    bindings::bindings_free(Handle) -> Handle;
    session::model_session(Handle, *const State, usize, *mut Handle) -> Handle;
    session::session_run(Handle, *const Array, usize, Handle, *mut Handle) -> Handle;
    session::session_state_count(Handle, *mut usize) -> Handle;
    session::session_state(Handle, usize, *mut State) -> Handle;
    session::session_value(Handle, *const c_char, *mut Handle) -> Handle;
    session::session_set_value(Handle, *const c_char, *const Array) -> Handle;
    session::session_steps(Handle, *mut i64) -> Handle;
    session::session_truncate(Handle, u64) -> Handle;
    session::session_reset(Handle) -> Handle;
    session::session_fork(Handle, *mut Handle) -> Handle;
    session::session_free(Handle) -> Handle;
    submit::model_submit(Handle, *const Array, usize, *const SubmitOptions, *mut Handle) -> Handle;
    submit::run_descriptor(Handle, *mut c_int) -> Handle;
    submit::run_wait(Handle, f64, *mut i32) -> Handle;
    submit::run_outputs(Handle, *mut Handle) -> Handle;
    submit::run_cancel(Handle) -> Handle;
    submit::run_free(Handle) -> Handle;
    quantize::quantize_file(*const c_char, *const QuantizeOptions, *mut Handle, *mut Handle) -> Handle;
    quantize::quantize_bytes(*const c_void, usize, *const QuantizeOptions, *mut Handle, *mut Handle) -> Handle;
}

/// What the library says of itself.
mod own {
    use super::*;

    pub extern "C" fn version() -> *const c_char {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
    }
}

/// The functions of a version; null if this library does not have them.
#[allow(
    clippy::absurd_extreme_comparisons,
    reason = "the least minor version is the current one only at first"
)]
#[unsafe(no_mangle)]
pub extern "C" fn tenon_api(major: u32, minor: u32) -> *const Functions {
    crate::fork::register();
    match major == MAJOR && minor <= MINOR {
        true => &raw const FUNCTIONS,
        false => std::ptr::null(),
    }
}
