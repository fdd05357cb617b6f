//! Who computes: the backends and kernels that models are loaded with.

use std::sync::Arc;

/// The backends and kernels that models are loaded with; not a global.
///
/// `tenon_builtin` has the built-in ones.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) backends: Arc<tenon_backend::Registry>,
    pub(crate) kernels: Arc<tenon_executor::Registry>,
}

impl Runtime {
    /// A runtime with these backends and kernels.
    pub fn new(backends: tenon_backend::Registry, kernels: tenon_executor::Registry) -> Self {
        Self {
            backends: Arc::new(backends),
            kernels: Arc::new(kernels),
        }
    }

    /// Its backends.
    pub fn backends(&self) -> &tenon_backend::Registry {
        &self.backends
    }
}
