//! A workload behind the C interface: one call an execution.

use super::core::Core;
use crate::border::error_of;
use crate::{MemoryManager, Operands, Workload, WorkloadSpec};
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::stop::{self, StopToken};
use tenon_base::{Error, ErrorKind, Result};

type Execute = unsafe extern "C" fn(*const abi::Workload, *const abi::Operands) -> Outcome;

pub(super) struct LoadedWorkload {
    execute: Execute,
    this: *const abi::Workload,
    table: abi::Workload,
    core: Arc<Core>,
    /// Data that the backend may read until the workload is released.
    _spec: Box<WorkloadSpec>,
    _memory: Option<Arc<dyn MemoryManager>>,
}

// SAFETY: every function of a workload may be called from any thread (header, "Threads").
unsafe impl Send for LoadedWorkload {}
// SAFETY: as above, several at a time.
unsafe impl Sync for LoadedWorkload {}

impl LoadedWorkload {
    /// # Safety
    /// `this` is what the table's function made, and `spec` what it was made of.
    pub unsafe fn new(
        core: &Arc<Core>,
        this: *const abi::Workload,
        spec: Box<WorkloadSpec>,
        memory: Option<Arc<dyn MemoryManager>>,
    ) -> Result<Self> {
        // SAFETY: the caller vouches.
        let table = unsafe { core.made(this, "a workload")? };
        let execute = table.execute.ok_or_else(|| {
            let text = format!("{}: a workload has no function 'execute'", core.who());
            Error::new(ErrorKind::InvalidArgument, text)
        })?;
        Ok(Self {
            execute,
            this,
            table,
            core: core.clone(),
            _spec: spec,
            _memory: memory,
        })
    }
}

impl Workload for LoadedWorkload {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, outputs, scratch) = operands.raw();
        let outcome = stop::with_current(|stop| {
            let control = stop.map(ControlOut::new);
            let told = abi::Operands {
                size: size_of::<abi::Operands>(),
                input_count: inputs.len(),
                inputs: inputs.as_ptr().cast(),
                output_count: outputs.len(),
                outputs: outputs.as_ptr().cast(),
                scratch: scratch.into(),
                control: control
                    .as_ref()
                    .map_or(std::ptr::null(), |control| (&raw const *control).cast()),
            };
            // SAFETY: a function of the workload with itself; raw operands lie as the header's do.
            unsafe { (self.execute)(self.this, &raw const told) }
        });
        if outcome.is_null() {
            return Ok(());
        }
        // SAFETY: what the function answered.
        unsafe { error_of(outcome, &self.core.who()) }
    }

    fn reads(&self, input: usize) -> bool {
        let Some(function) = self.table.reads else {
            return true;
        };
        // SAFETY: a function of the workload with itself.
        unsafe { function(self.this, input as u32) != 0 }
    }
}

/// What may stop the running execution, as the struct of the header.
#[repr(C)]
struct ControlOut<'a> {
    /// First, so that a pointer to it is one to the whole.
    table: abi::Control,
    stop: &'a dyn StopToken,
}

impl<'a> ControlOut<'a> {
    fn new(stop: &'a dyn StopToken) -> Self {
        let table = abi::Control {
            size: size_of::<abi::Control>(),
            is_stopped: Some(is_stopped),
        };
        Self { table, stop }
    }
}

/// # Safety
/// `control` is the table of a [`ControlOut`] that is still there.
unsafe extern "C" fn is_stopped(control: *const abi::Control) -> i32 {
    // SAFETY: the table is the first member; the caller vouches.
    let stop = unsafe { (*control.cast::<ControlOut<'_>>()).stop };
    (stop.is_cancelled() || stop.is_timed() && stop.check().is_err()).into()
}

impl Drop for LoadedWorkload {
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: the last call.
            unsafe { release(self.this) }
        }
    }
}
