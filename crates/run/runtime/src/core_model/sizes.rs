//! Models with symbolic dimensions on cores: the instance of an execution, and the memory of instances.

use crate::cores::{CoreGroup, MemoryUse, Reservation};
use crate::model::Nodes;
use crate::symbolic::{ByteCounts, SymbolicCore};
use crate::{Model, Signature};
use std::sync::{Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

/// How the sizes of an execution follow from its tensors.
pub(super) struct CoreSizes {
    counts: ByteCounts,
    scratch: Mutex<Scratch>,
}

/// The memory that is reserved for executions: that of the largest arena so far.
#[derive(Default)]
struct Scratch {
    bytes: u64,
    reservations: Vec<Reservation>,
}

impl CoreSizes {
    /// Binds the instances of all buckets; `None` for a model of fixed sizes.
    ///
    /// # Errors
    /// Dimensions without bound, or that byte counts do not decide; sizes that depend on data; memory.
    pub fn of(model: &Model, group: &CoreGroup) -> Result<Option<Self>> {
        if model.symbols().is_empty() {
            return Ok(None);
        }
        let core = symbolic(model)?;
        let sizes = Self {
            counts: core.byte_counts()?,
            scratch: Mutex::default(),
        };
        for bucket in core.bucket_sizes() {
            let instance = core.model_at(&model.0.context, &bucket)?;
            sizes.reserve(&instance, group)?;
        }
        Ok(Some(sizes))
    }

    /// A warning about buckets that byte counts do not distinguish.
    pub fn ambiguity(&self, model: &Model) -> Option<String> {
        symbolic(model).ok()?.ambiguity(&self.counts)
    }

    /// The inputs and outputs with the largest size of each dimension.
    pub fn largest(&self, model: &Model) -> Result<[Vec<Signature>; 2]> {
        symbolic(model)?.largest()
    }

    /// The model for inputs of these byte counts, in order.
    pub fn instance(&self, model: &Model, group: &CoreGroup, bytes: &[usize]) -> Result<Model> {
        let core = symbolic(model)?;
        let sizes = core.sizes_for(&self.counts, bytes)?;
        let instance = core.model_at(&model.0.context, &sizes)?;
        self.reserve(&instance, group)?;
        Ok(instance)
    }

    /// Reserves the memory of an execution on each core, if it is more than that of executions before.
    fn reserve(&self, instance: &Model, group: &CoreGroup) -> Result<()> {
        let needed = instance.memory_plan().arena_bytes;
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let more = needed.saturating_sub(scratch.bytes);
        if more == 0 {
            return Ok(());
        }
        let cores = group.cores().iter();
        let added = cores.map(|core| core.memory().reserve(MemoryUse::Scratch, more));
        let added = added.collect::<Result<Vec<_>>>()?;
        scratch.reservations.extend(added);
        scratch.bytes = needed;
        Ok(())
    }
}

fn symbolic(model: &Model) -> Result<&SymbolicCore> {
    match &model.0.nodes {
        Nodes::Symbolic(core) => Ok(core),
        _ => {
            let text = "a model on cores has no sizes that depend on data";
            let error = Error::new(ErrorKind::Unsupported, text);
            Err(error.help("compile it for the sizes of its inputs with --dim NAME=N"))
        }
    }
}
