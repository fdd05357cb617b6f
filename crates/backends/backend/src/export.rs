//! Export of a Rust backend through the C interface, as a loadable library.
//!
//! A crate of type `cdylib` exports the functions of the header with one macro:
//!
//! ```
//! # use tenon_backend as backend;
//! # use backend::{Backend, BackendId, CpuLevel, NodeView, Reason, Refusal};
//! # use backend::{Workload, WorkloadPlan, WorkloadSpec};
//! # struct Mine;
//! # impl Backend for Mine {
//! #     fn id(&self) -> BackendId { BackendId::new("Mine") }
//! #     fn description(&self) -> String { "mine".into() }
//! #     fn supports(&self, _: &NodeView<'_>) -> Result<(), Refusal> {
//! #         Err(Reason::UnknownOperator.into())
//! #     }
//! #     fn plan(&self, _: &WorkloadSpec, _: CpuLevel) -> tenon_base::Result<WorkloadPlan> {
//! #         Ok(WorkloadPlan::default())
//! #     }
//! #     fn workload(&self, _: &WorkloadSpec) -> tenon_base::Result<Box<dyn Workload>> {
//! #         unimplemented()
//! #     }
//! # }
//! # fn unimplemented() -> ! { std::process::abort() }
//! tenon_backend::export_backend!(c"Mine", Mine);
//! ```

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

mod backend;
mod cache;
mod description;
mod objects;
mod stream;
mod workload;

use crate::Backend;
use backend::ExportedBackend;
use std::sync::Arc;
use tenon_backend_abi as abi;

/// The function table of `backend`, owned by the caller and freed by its `release`; the return
/// value of the `BackendFactory` of [`export_backend`](crate::export_backend).
pub fn export(backend: Arc<dyn Backend>) -> *const abi::Backend {
    ExportedBackend::table(backend)
}

/// Exports `GetBackendId`, `GetVersion` and `BackendFactory` for a backend, given its id as a C
/// string literal and an expression that creates it.
#[macro_export]
macro_rules! export_backend {
    ($id:expr, $backend:expr) => {
        /// The backend's id.
        #[unsafe(no_mangle)]
        pub extern "C" fn GetBackendId() -> *const ::std::ffi::c_char {
            const ID: &::std::ffi::CStr = $id;
            ID.as_ptr()
        }

        /// The version of the interface that this library was built with.
        ///
        /// # Safety
        /// `major` and `minor` must be valid for writes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn GetVersion(major: *mut u32, minor: *mut u32) {
            // SAFETY: both pointers are valid for writes (requirement).
            unsafe {
                *major = $crate::abi::MAJOR;
                *minor = $crate::abi::MINOR;
            }
        }

        /// The backend.
        #[unsafe(no_mangle)]
        pub extern "C" fn BackendFactory() -> *const $crate::abi::Backend {
            let table =
                ::std::panic::catch_unwind(|| $crate::export(::std::sync::Arc::new($backend)));
            table.unwrap_or(::std::ptr::null())
        }
    };
}
