//! The lifecycle of a model in a runtime: the callbacks of backend contexts, and the memory that
//! backends hold for the model.

use crate::Runtime;
use crate::backend_counters::ModelCounters;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenon_backend::{BackendContext, ContextEntry, ModelMemory, NetworkId, Registry};
use tenon_base::{Error, Location, Result};

/// The counters of a runtime (backends 7.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeCounters {
    /// Models loaded.
    pub loads: u64,
    /// Models unloaded.
    pub unloads: u64,
    /// Backends registered.
    pub registered: u64,
    /// Backends deregistered.
    pub deregistered: u64,
    /// Completed executions.
    pub executions: u64,
}

impl RuntimeCounters {
    /// Each counter with its name in traces.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("models loaded", self.loads),
            ("models unloaded", self.unloads),
            ("backends registered", self.registered),
            ("backends deregistered", self.deregistered),
            ("executions", self.executions),
        ]
    }
}

/// The concurrent form of the counters.
#[derive(Default)]
pub(crate) struct Counts {
    networks: AtomicU64,
    pub loads: AtomicU64,
    pub unloads: AtomicU64,
    pub executions: AtomicU64,
}

impl Counts {
    /// The counters, with those of the backend registry.
    pub fn with(&self, backends: &Registry) -> RuntimeCounters {
        let (registered, deregistered) = backends.changes();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RuntimeCounters {
            loads: count(&self.loads),
            unloads: count(&self.unloads),
            registered,
            deregistered,
            executions: count(&self.executions),
        }
    }
}

/// The lifecycle of one model. The last field of a model to be dropped.
pub(crate) struct ModelLifecycle {
    network: NetworkId,
    contexts: Arc<[ContextEntry]>,
    memories: ModelMemory,
    counters: ModelCounters,
    counts: Arc<Counts>,
    settled: AtomicBool,
}

impl ModelLifecycle {
    /// The backends of the runtime.
    pub fn backends(&self) -> &Registry {
        &self.counters.backends
    }

    /// Notifies the backends before a model is loaded.
    pub fn begin(runtime: &Runtime, memories: ModelMemory) -> Result<Self> {
        let counters = ModelCounters {
            backends: runtime.backends.clone(),
            counters: runtime.counters.clone(),
            used: BTreeSet::new(),
        };
        let lifecycle = Self {
            network: NetworkId(runtime.counts.networks.fetch_add(1, Ordering::Relaxed)),
            contexts: runtime.contexts.clone(),
            memories,
            counters,
            counts: runtime.counts.clone(),
            settled: AtomicBool::new(false),
        };
        lifecycle.notify(|context, network| context.before_load(network))?;
        Ok(lifecycle)
    }

    /// Acquires the memory of a loaded model that runs on the backends `used`, and notifies the
    /// backends.
    pub fn settle(&mut self, used: BTreeSet<String>) -> Result<()> {
        self.counters.used = used;
        self.settled.store(true, Ordering::Relaxed);
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        for memory in &self.memories {
            memory.acquire()?;
        }
        self.notify(|context, network| context.after_load(network))
    }

    /// The counters of the backends that the model runs on.
    pub fn counters(&self) -> &ModelCounters {
        &self.counters
    }

    /// The current counters of the runtime.
    pub fn runtime_counters(&self) -> RuntimeCounters {
        self.counts.with(&self.counters.backends)
    }

    /// Counts a completed execution and notifies the backends.
    pub fn executed(&self) -> Result<()> {
        self.counts.executions.fetch_add(1, Ordering::Relaxed);
        if self.contexts.is_empty() {
            Ok(())
        } else {
            self.notify(|context, network| context.after_enqueue(network))
        }
    }

    /// Notifies the backends before the model is unloaded; errors are ignored.
    pub fn leave(&self) {
        if self.settled.load(Ordering::Relaxed) {
            let _ = self.notify(|context, network| context.before_unload(network));
        }
    }

    /// Notifies every backend; all errors together.
    fn notify(&self, event: impl Fn(&dyn BackendContext, NetworkId) -> Result<()>) -> Result<()> {
        let errors = self.contexts.iter().filter_map(|(id, context)| {
            let error = event(&**context, self.network).err()?;
            Some(error.at(Location::field(id.to_string())))
        });
        Error::from_all(errors).map_or(Ok(()), Err)
    }
}

impl Drop for ModelLifecycle {
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            for memory in &self.memories {
                memory.release();
            }
            let _ = self.notify(|context, network| context.after_unload(network));
            self.counts.unloads.fetch_add(1, Ordering::Relaxed);
        }
    }
}
