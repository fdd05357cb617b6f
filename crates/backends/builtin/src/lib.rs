//! The built-in backends, and the kernel libraries of packages.
//!
//! ```
//! assert_eq!(tenon_builtin::registry().names(), "CpuAcc, CpuRef");
//! assert!(tenon_builtin::kernels().find("tenon.workload").is_some());
//! ```
#![forbid(unsafe_code)]

pub use tenon_cpu_acc::{multiply_add_ceiling, sum_of_best_rates};

use std::sync::Arc;
use tenon_backend::Backend;

/// The built-in backends in order of preference: `CpuAcc`, then `CpuRef`.
pub fn registry() -> tenon_backend::Registry {
    let mut registry = tenon_backend::Registry::new();
    let backends: [Arc<dyn Backend>; 2] = [
        Arc::new(tenon_cpu_acc::CpuAcc::new()),
        Arc::new(tenon_cpu_ref::CpuRef),
    ];
    for backend in backends {
        registry
            .register(backend)
            .expect("the names of built-in backends are distinct");
    }
    registry
}

/// The kernels that the programs of packages are made of, those of netlists among them.
pub fn kernels() -> tenon_executor::Registry {
    let mut registry = tenon_executor::Registry::new();
    registry
        .register_all(tenon_kernels::package_library())
        .and_then(|()| registry.register_all(tenon_netlist_kernels::library()))
        .expect("the names of kernels are distinct");
    registry
}
