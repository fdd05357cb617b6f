//! What of a backend lives longer than a call: contexts, memory of models, counters.

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

/// Lives as long as a runtime and hears of its models. An error before or after loading aborts the
/// load, one after enqueueing the execution; a model is unloaded whatever is answered (facts,
/// armnn.md 1.2).
pub trait BackendContext: Send + Sync {
    /// A model is about to be loaded.
    fn before_load(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// A model was loaded.
    fn after_load(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// A model is about to be unloaded.
    fn before_unload(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// A model was unloaded.
    fn after_unload(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }

    /// All workloads of an execution were handed over.
    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        let _ = network;
        Ok(())
    }
}

/// Memory that the workloads of one model share. Acquired before the first execution, released when
/// the model is dropped; sizes are fixed in between.
pub trait MemoryManager: Send + Sync {
    /// Makes the memory.
    fn acquire(&self) -> Result<()>;

    /// Gives it back.
    fn release(&self);

    /// For the backend that made it, which alone knows what it is.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A counter of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterDef {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub doc: String,
    /// In which unit, empty for plain numbers.
    pub unit: String,
}

/// The counters of a backend.
pub trait ProfilingContext: Send + Sync {
    /// What is counted; does not change.
    fn counters(&self) -> &[CounterDef];

    /// Starts or stops counting.
    fn enable(&self, on: bool) -> Result<()>;

    /// The counters' values now, in their order.
    fn sample(&self, values: &mut [u64]) -> Result<()>;
}
