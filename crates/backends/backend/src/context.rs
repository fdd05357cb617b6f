//! State of a backend beyond a call: contexts, memory of models, counters.

use std::fmt;
use tenon_base::Result;

/// A model loaded in a runtime; its text form is `network3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkId(pub u64);

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network{}", self.0)
    }
}

/// A context lives as long as a runtime and receives callbacks on its models. An error before or
/// after loading aborts the load, one after enqueueing the execution; unloading ignores errors
/// (backends 7.4).
pub trait BackendContext: Send + Sync {
    /// Before a model is loaded.
    fn before_load(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// After a model was loaded.
    fn after_load(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// Before a model is unloaded.
    fn before_unload(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// After a model was unloaded.
    fn after_unload(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// After all workloads of an execution were enqueued.
    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }
}

/// Memory shared by the workloads of one model. Acquired before the first execution, released when
/// the model is dropped; sizes are fixed in between.
pub trait MemoryManager: Send + Sync {
    /// Allocates the memory.
    fn acquire(&self) -> Result<()>;

    /// Frees the memory.
    fn release(&self);

    /// For downcasting by the backend that created it.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A counter of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterDef {
    /// Its name.
    pub name: String,
    /// A description of the counted event.
    pub doc: String,
    /// Its unit; empty for a plain count.
    pub unit: String,
}

/// The counters of a backend.
pub trait ProfilingContext: Send + Sync {
    /// The counters; constant.
    fn counters(&self) -> &[CounterDef];

    /// Starts or stops counting.
    fn enable(&self, on: bool) -> Result<()>;

    /// The current values of the counters, in their order.
    fn sample(&self, values: &mut [u64]) -> Result<()>;
}
