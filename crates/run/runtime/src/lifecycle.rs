//! A model's stay in a runtime: what backends hear of it, and the memory they keep for it.

use crate::Runtime;
use crate::backend_counters::ModelCounters;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenon_backend::{BackendContext, ModelMemory, NamedContext, NetworkId, Registry};
use tenon_base::{Error, Location, Result};

/// What a runtime counts (the five counters of facts, armnn.md 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeCounters {
    /// Models loaded.
    pub loads: u64,
    /// Models dropped again.
    pub unloads: u64,
    /// Backends registered.
    pub registered: u64,
    /// Backends taken out.
    pub deregistered: u64,
    /// Executions that came to their end.
    pub executions: u64,
}

impl RuntimeCounters {
    /// Each with its name, as traces show them.
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

/// The counters while they count.
#[derive(Default)]
pub(crate) struct Counts {
    networks: AtomicU64,
    pub loads: AtomicU64,
    pub unloads: AtomicU64,
    pub executions: AtomicU64,
}

impl Counts {
    /// Together with what the backends' registry counts.
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

/// One model's stay. Dropped last of all that the model has.
pub(crate) struct ModelLifecycle {
    network: NetworkId,
    contexts: Arc<[NamedContext]>,
    memories: ModelMemory,
    counters: ModelCounters,
    counts: Arc<Counts>,
    settled: AtomicBool,
}

impl ModelLifecycle {
    /// Tells the backends that a model is about to be loaded.
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
        lifecycle.tell(|context, network| context.before_load(network))?;
        Ok(lifecycle)
    }

    /// The model is loaded, and runs on the backends `used`: its memory is made, the backends hear
    /// of it.
    pub fn settle(&mut self, used: BTreeSet<String>) -> Result<()> {
        self.counters.used = used;
        self.settled.store(true, Ordering::Relaxed);
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        for memory in &self.memories {
            memory.acquire()?;
        }
        self.tell(|context, network| context.after_load(network))
    }

    /// The counters of the backends that the model runs on.
    pub fn counters(&self) -> &ModelCounters {
        &self.counters
    }

    /// What the runtime counted so far.
    pub fn runtime_counters(&self) -> RuntimeCounters {
        self.counts.with(&self.counters.backends)
    }

    /// An execution came to its end.
    pub fn executed(&self) -> Result<()> {
        self.counts.executions.fetch_add(1, Ordering::Relaxed);
        match self.contexts.is_empty() {
            true => Ok(()),
            false => self.tell(|context, network| context.after_enqueue(network)),
        }
    }

    /// The model is about to be unloaded, whatever the backends say.
    pub fn leave(&self) {
        if self.settled.load(Ordering::Relaxed) {
            let _ = self.tell(|context, network| context.before_unload(network));
        }
    }

    /// Every backend hears; what goes wrong is told together.
    fn tell(&self, say: impl Fn(&dyn BackendContext, NetworkId) -> Result<()>) -> Result<()> {
        let told = self.contexts.iter().filter_map(|(id, context)| {
            let error = say(&**context, self.network).err()?;
            Some(error.at(Location::field(id.to_string())))
        });
        Error::from_all(told).map_or(Ok(()), Err)
    }
}

impl Drop for ModelLifecycle {
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            for memory in &self.memories {
                memory.release();
            }
            let _ = self.tell(|context, network| context.after_unload(network));
            self.counts.unloads.fetch_add(1, Ordering::Relaxed);
        }
    }
}
