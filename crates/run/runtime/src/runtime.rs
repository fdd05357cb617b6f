//! Runtimes: the backends and kernels with which models are loaded.

use crate::RuntimeCounters;
use crate::backend_counters::BackendCounters;
use crate::lifecycle::Counts;
use std::sync::Arc;
use tenon_backend::{BackendId, ContextEntry, OptionAssignment};
use tenon_base::Error;

/// The backends and kernels with which models are loaded; not a global.
///
/// `tenon_builtin` has the built-in ones.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) backends: Arc<tenon_backend::Registry>,
    pub(crate) kernels: Arc<tenon_executor::Registry>,
    pub(crate) contexts: Arc<[ContextEntry]>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) counters: Arc<BackendCounters>,
}

impl Runtime {
    /// A runtime with these backends and kernels.
    pub fn new(backends: tenon_backend::Registry, kernels: tenon_executor::Registry) -> Self {
        Self {
            backends: Arc::new(backends),
            kernels: Arc::new(kernels),
            contexts: Arc::new([]),
            counts: Arc::default(),
            counters: Arc::default(),
        }
    }

    /// A runtime whose backends have contexts, created with the options in `given`; and the
    /// backends that could not be started, each with the error: its hardware is unavailable, or it
    /// does not support protected content where that is required.
    pub fn start(
        mut backends: tenon_backend::Registry,
        kernels: tenon_executor::Registry,
        given: &[OptionAssignment],
        protected_content: bool,
    ) -> (Self, Vec<(BackendId, Error)>) {
        let (contexts, refused) = backends.start(given, protected_content);
        let mut runtime = Self::new(backends, kernels);
        runtime.contexts = contexts.into();
        (runtime, refused)
    }

    /// The runtime with other instances of the backends, those of one model.
    pub(crate) fn with_backends(&self, backends: tenon_backend::Registry) -> Self {
        Self {
            backends: Arc::new(backends),
            ..self.clone()
        }
    }

    /// The current counters.
    pub fn counters(&self) -> RuntimeCounters {
        self.counts.with(&self.backends)
    }

    /// The backends.
    pub fn backends(&self) -> &tenon_backend::Registry {
        &self.backends
    }
}
