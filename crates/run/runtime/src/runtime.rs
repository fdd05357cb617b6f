//! Who computes: the backends and kernels that models are loaded with.

use crate::RuntimeCounters;
use crate::backend_counters::BackendCounters;
use crate::lifecycle::Counts;
use std::sync::Arc;
use tenon_backend::{BackendId, NamedContext, OptionAssignment};
use tenon_base::Error;

/// The backends and kernels that models are loaded with; not a global.
///
/// `tenon_builtin` has the built-in ones.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) backends: Arc<tenon_backend::Registry>,
    pub(crate) kernels: Arc<tenon_executor::Registry>,
    pub(crate) contexts: Arc<[NamedContext]>,
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

    /// A runtime whose backends have contexts, made with the creation options among `given`, and
    /// the backends that it goes on without, each with the reason: what one needs is not on this
    /// machine, or it cannot keep protected content where that is asked for.
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

    /// The same runtime with the backends as one model sees them.
    pub(crate) fn with_backends(&self, backends: tenon_backend::Registry) -> Self {
        Self {
            backends: Arc::new(backends),
            ..self.clone()
        }
    }

    /// What it counted so far.
    pub fn counters(&self) -> RuntimeCounters {
        self.counts.with(&self.backends)
    }

    /// Its backends.
    pub fn backends(&self) -> &tenon_backend::Registry {
        &self.backends
    }
}
