//! The times of the parts of the workload that ran last, while executions are observed.

use super::{Memory, busy};
use crate::WorkloadBinding;
use crate::workload::SizedWorkload;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tenon_backend::WorkloadPart;
use tenon_base::Result;

#[derive(Default)]
pub(super) struct PartTimes {
    is_timed: Cell<bool>,
    /// The workload that ran last, if it has parts.
    last: RefCell<Option<Arc<SizedWorkload>>>,
    /// The time of each of its parts in nanoseconds.
    nanoseconds: RefCell<Vec<u64>>,
}

impl Memory {
    /// Sets whether the parts of workloads are timed. Each workload with parts is then finished before the next kernel.
    pub fn set_timed(&self, timed: bool) {
        self.parts.is_timed.set(timed);
        self.parts.last.take();
    }

    /// Whether the parts of workloads are timed.
    pub(super) fn is_timed(&self) -> bool {
        self.parts.is_timed.get()
    }

    /// Takes the times of a workload that has just been executed, if its parts are timed.
    pub(crate) fn time_parts(
        &self,
        binding: &WorkloadBinding,
        sized: &Arc<SizedWorkload>,
    ) -> Result<()> {
        let parts = sized.workload.parts();
        if !self.is_timed() || parts.is_empty() {
            return Ok(());
        }
        let mut nanoseconds = self
            .parts
            .nanoseconds
            .try_borrow_mut()
            .map_err(|_| busy())?;
        nanoseconds.clear();
        nanoseconds.resize(parts.len(), 0);
        let mut tensors = self.tensors.try_borrow_mut().map_err(|_| busy())?;
        let stream = match &binding.issuer {
            Some((backend, _)) if !tensors.is_empty() => tensors.stream_of(backend)?,
            _ => None,
        };
        let stream = stream.map(|position| tensors.streams.finished(position));
        let stream = stream.transpose()?;
        sized.workload.part_times(stream, &mut nanoseconds)?;
        self.parts.last.replace(Some(sized.clone()));
        Ok(())
    }

    /// Calls `call` with the parts of the workload that ran last and their times in nanoseconds, once, if it has any.
    pub fn take_parts<R>(&self, call: impl FnOnce(&[WorkloadPart], &[u64]) -> R) -> Option<R> {
        let sized = self.parts.last.take()?;
        let nanoseconds = self.parts.nanoseconds.try_borrow().ok()?;
        Some(call(sized.workload.parts(), &nanoseconds))
    }
}
