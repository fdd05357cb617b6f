//! What the cores of a process tell those who watch.

use super::{Core, Cores, MemoryUse};
use crate::counters::{Latencies, Outcome};
use crate::{CoreReport, ModelReport, ProcessReport};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

impl Cores {
    /// An execution of a model ended; for those who watch.
    pub(crate) fn ended(&self, outcome: Outcome, time: Duration) {
        self.0.counters.ended(outcome, time);
    }

    /// A model was loaded.
    pub(crate) fn loaded(&self, model: ModelReport) {
        self.models().push(model);
    }

    /// A model is gone.
    pub(crate) fn unloaded(&self, id: u32) {
        self.models().retain(|model| model.id != id);
    }

    /// What this process did so far.
    pub fn report(&self) -> ProcessReport {
        let mut executions = self.0.counters.report();
        for core in self.iter() {
            executions.on_core += &core.latencies.report();
        }
        ProcessReport {
            cores: self.iter().map(|core| self.core_report(core)).collect(),
            models: self.models().clone(),
            executions,
            ..ProcessReport::of_this_process()
        }
    }

    fn core_report(&self, core: &Core) -> CoreReport {
        let memory = MemoryUse::ALL.map(|what| {
            let name = match what {
                MemoryUse::Constants => "constants",
                MemoryUse::Code => "code",
                MemoryUse::Scratch => "scratch",
                MemoryUse::Tensors => "tensors",
            };
            (name.to_owned(), core.memory().used_for(what))
        });
        CoreReport {
            core: self.first() + core.index(),
            executions: core.executions(),
            busy_nanos: core.busy_nanos.load(Ordering::Relaxed),
            flops: core.flops.load(Ordering::Relaxed),
            busy: core.is_busy(),
            memory: memory.into(),
            memory_limit: core.memory().limit(),
        }
    }

    fn models(&self) -> MutexGuard<'_, Vec<ModelReport>> {
        // A holder that panicked left a whole list.
        self.0.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::ops::AddAssign<&Latencies> for Latencies {
    fn add_assign(&mut self, other: &Latencies) {
        for (bucket, count) in other.buckets() {
            self.add(bucket, count);
        }
    }
}
