//! Workloads of loaded backends: one call of the library per execution.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::core::Core;
use super::stream::LoadedStream;
use crate::marshal::{error_of, invalid, parts};
use crate::{MemoryManager, Operands, Stream, Workload, WorkloadPart, WorkloadSpec};
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
    parts: Vec<WorkloadPart>,
    core: Arc<Core>,
    /// Owns the constants, which the backend may read until the workload is released.
    _spec: Box<WorkloadSpec>,
    _memory: Option<Arc<dyn MemoryManager>>,
}

// SAFETY: the functions of a workload may be called from any thread (header, "Threads").
unsafe impl Send for LoadedWorkload {}
// SAFETY: the functions of a workload may be called concurrently (header, "Threads").
unsafe impl Sync for LoadedWorkload {}

impl LoadedWorkload {
    /// # Safety
    /// `this` is null or the workload that the table's function created from `spec`, not released.
    pub unsafe fn new(
        core: &Arc<Core>,
        this: *const abi::Workload,
        spec: Box<WorkloadSpec>,
        memory: Option<Arc<dyn MemoryManager>>,
    ) -> Result<Self> {
        // SAFETY: `this` is null or a valid, unreleased workload (requirement).
        let table = unsafe { core.read_object(this, "a workload")? };
        let execute = table.execute.ok_or_else(|| {
            let text = format!("{}: a workload has no function 'execute'", core.label());
            Error::new(ErrorKind::InvalidArgument, text)
        })?;
        let mut loaded = Self {
            execute,
            this,
            table,
            parts: Vec::new(),
            core: core.clone(),
            _spec: spec,
            _memory: memory,
        };
        // SAFETY: the list of an unreleased workload is null or of the stated length, with valid structs.
        let parts = unsafe { parts(table.parts, table.part_count) };
        loaded.parts = parts.map_err(|error| core.with_label(&error))?;
        if !loaded.parts.is_empty() && table.part_times.is_none() {
            return Err(core.missing_function("part_times"));
        }
        Ok(loaded)
    }
}

impl Workload for LoadedWorkload {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, outputs, scratch) = operands.raw();
        let timed = operands.is_timed().into();
        let stream = LoadedStream::this_of(operands.stream())?;
        let outcome = stop::with_current(|stop| {
            let control = stop.map(ExportedControl::new);
            let raw = abi::Operands {
                size: size_of::<abi::Operands>(),
                input_count: inputs.len(),
                inputs: inputs.as_ptr().cast(),
                output_count: outputs.len(),
                outputs: outputs.as_ptr().cast(),
                scratch: scratch.into(),
                control: control
                    .as_ref()
                    .map_or(std::ptr::null(), ExportedControl::table),
                stream,
                timed,
            };
            // SAFETY: `execute` of the workload is called with the workload itself, not released.
            // The struct and its arrays live during the call, and `RawOperand` has the layout of
            // `tenon_operand`.
            unsafe { (self.execute)(self.this, &raw const raw) }
        });
        if outcome.is_null() {
            return Ok(());
        }
        // SAFETY: `execute` returned `outcome`, which is not released yet.
        unsafe { error_of(outcome, &self.core.label()) }
    }

    fn reads(&self, input: usize) -> bool {
        let Some(function) = self.table.reads else {
            return true;
        };
        // SAFETY: `reads` of the workload is called with the workload itself, not released.
        unsafe { function(self.this, input as u32) != 0 }
    }

    fn parts(&self) -> &[WorkloadPart] {
        &self.parts
    }

    fn part_times(&self, stream: Option<&mut dyn Stream>, nanoseconds: &mut [u64]) -> Result<()> {
        let function = self.table.part_times;
        let function = function.ok_or_else(|| self.core.missing_function("part_times"))?;
        let (expected, found) = (self.parts.len(), nanoseconds.len());
        if found != expected {
            let error = invalid("the number of times differs from the number of parts");
            return Err(error.expected(expected).found(found));
        }
        let stream = LoadedStream::this_of(stream)?;
        // SAFETY: `part_times` of the workload is called with the workload itself and a stream that is null or of its
        // backend, neither released; there is one value for each part (checked above).
        let outcome = unsafe { function(self.this, stream, nanoseconds.as_mut_ptr()) };
        self.core.check(outcome)
    }
}

/// The stop token of the running execution, as the control of the header.
#[repr(C)]
pub(super) struct ExportedControl<'a> {
    /// The first member: a pointer to it is a pointer to this struct.
    table: abi::Control,
    stop: &'a dyn StopToken,
}

impl<'a> ExportedControl<'a> {
    pub(super) fn new(stop: &'a dyn StopToken) -> Self {
        let table = abi::Control {
            size: size_of::<abi::Control>(),
            is_stopped: Some(is_stopped),
        };
        Self { table, stop }
    }

    /// As the header has it, valid as long as the value.
    pub(super) fn table(&self) -> *const abi::Control {
        (&raw const *self).cast()
    }
}

/// # Safety
/// `control` is the table of an [`ExportedControl`] that is alive.
unsafe extern "C" fn is_stopped(control: *const abi::Control) -> i32 {
    // SAFETY: `control` points to the first member of a live `ExportedControl` (requirement;
    // `#[repr(C)]`).
    let stop = unsafe { (*control.cast::<ExportedControl<'_>>()).stop };
    (stop.is_cancelled() || stop.is_timed() && stop.check().is_err()).into()
}

impl Drop for LoadedWorkload {
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: `release` of the workload is called with the workload itself, once, after all
            // other calls.
            unsafe { release(self.this) }
        }
    }
}
