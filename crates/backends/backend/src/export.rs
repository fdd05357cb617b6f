//! A Rust backend behind the C interface: how one becomes a loadable library.
//!
//! A crate of type `cdylib` names its backend once, and exports what the header asks for:
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

mod backend;
mod made;
mod told;

use crate::Backend;
use backend::ExportedBackend;
use std::sync::Arc;
use tenon_backend_abi as abi;

/// A table of functions over `backend`, freed by its release; what [`export_backend`](crate::export_backend) answers.
pub fn export(backend: Arc<dyn Backend>) -> *const abi::Backend {
    ExportedBackend::table(backend)
}

/// Exports `GetBackendId`, `GetVersion` and `BackendFactory` for a backend: its id as a C literal,
/// and an expression that makes it.
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
        /// `major` and `minor` are valid for writes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn GetVersion(major: *mut u32, minor: *mut u32) {
            // SAFETY: the caller vouches.
            unsafe {
                *major = $crate::abi::MAJOR;
                *minor = $crate::abi::MINOR;
            }
        }

        /// The backend.
        #[unsafe(no_mangle)]
        pub extern "C" fn BackendFactory() -> *const $crate::abi::Backend {
            let made =
                ::std::panic::catch_unwind(|| $crate::export(::std::sync::Arc::new($backend)));
            made.unwrap_or(::std::ptr::null())
        }
    };
}
