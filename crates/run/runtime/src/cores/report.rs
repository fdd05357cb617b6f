//! The report of a process's cores, for monitoring.

use super::{Core, Cores, MemoryUse};
use crate::counters::Latencies;
use crate::{Activity, CoreReport, ProcessReport};
use std::sync::atomic::Ordering;

impl Cores {
    /// The models on the cores, and their executions.
    pub(crate) fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// The current report of this process.
    pub fn report(&self) -> ProcessReport {
        let mut report = self.0.activity.report();
        for core in self.iter() {
            report.executions.on_core += &core.latencies.report();
            let nanos = core.busy_nanos.load(Ordering::Relaxed);
            report.executions.on_core_nanos = report.executions.on_core_nanos.saturating_add(nanos);
        }
        report.cores = self.iter().map(|core| self.core_report(core)).collect();
        report
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
}

impl std::ops::AddAssign<&Latencies> for Latencies {
    fn add_assign(&mut self, other: &Latencies) {
        for (bucket, count) in other.buckets() {
            self.add(bucket, count);
        }
    }
}
