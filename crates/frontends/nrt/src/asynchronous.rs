//! Executions that are queued: `nrt_execute` answers at once, a callback hears the end.

use crate::call::{entry, log};
use crate::execution;
use crate::process::{Process, process};
use crate::status::{NRT_SUCCESS, Status};
use crate::tensor_sets::Set;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::Result;
use tenon_runtime::{CompletionCallback, Component, CoreModel, ExecutionUnit, RequestWork};

/// Hears how an execution ended: the caller's value, model, core, number of the execution, status.
pub(crate) type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, u64, Status);

#[derive(Clone, Copy)]
struct Listener {
    callback: Callback,
    parameters: *mut c_void,
}

// SAFETY: the pointer is the caller's value, which only the callback uses; the header says that it
// is called from other threads.
unsafe impl Send for Listener {}

/// The last one that was registered.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Whether executions are queued.
static ON: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Sets whether executions are queued, when the runtime starts.
pub(crate) fn set(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Queues an execution on a core of the model: the one with the fewest before it.
pub(crate) fn put(
    process: &Process,
    model: Arc<CoreModel>,
    inputs: Arc<Set>,
    outputs: Arc<Set>,
    count: u32,
) -> Result<()> {
    let cores = model.group().cores();
    let waiting = |core: &u32| process.queues.waiting(*core, ExecutionUnit::Compute, 0);
    let core = cores.iter().map(|core| core.index()).min_by_key(waiting);
    let core = core.unwrap_or_default();
    let id = model.id();
    let work: RequestWork = Box::new(move || execution::run(&model, &inputs, &outputs, count));
    let ended: CompletionCallback = Box::new(move |sequence, done| {
        if let Err(error) = done {
            log().problems(Component::Nrt, "nrt_execute", error);
        }
        let status = done
            .as_ref()
            .err()
            .map_or(NRT_SUCCESS, |error| error.kind().nrt_status());
        let listener = *LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Listener {
            callback,
            parameters,
        }) = listener
        {
            // SAFETY: the caller's function and value, as it registered them.
            unsafe { callback(parameters, id, core, sequence.place(), status) };
        }
    });
    process
        .queues
        .put(core, ExecutionUnit::Compute, 0, work, None, Some(ended))?;
    Ok(())
}

entry! {
    fn nrt_register_async_exec_callback(callback: Option<Callback>, params: *mut c_void) {
        process()?;
        let listener = callback.map(|callback| Listener { callback, parameters: params });
        *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = listener;
        Ok(())
    }

    fn nrt_async_drain_queued_execs(vnc: i32) {
        let process = process()?;
        let core = crate::cores::number(vnc.into())?;
        process.cores.core(core)?;
        process.queues.drain(core, ExecutionUnit::Compute)
    }
}
