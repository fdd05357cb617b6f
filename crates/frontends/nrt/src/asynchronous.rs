//! Queued executions: `nrt_execute` returns at once, a callback receives the result.

use crate::call::{entry, log};
use crate::execution;
use crate::process::{Process, process};
use crate::status::{NRT_SUCCESS, Status};
use crate::tensor_sets::HandleSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::Result;
use tenon_runtime::{CompletionCallback, Component, CoreModel, ExecutionUnit, RequestWork};

/// Called at the end of an execution: the caller's value, model, core, sequence number, status.
pub(crate) type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, u64, Status);

#[derive(Clone, Copy)]
struct RegisteredCallback {
    callback: Callback,
    parameters: *mut c_void,
}

// SAFETY: this library does not dereference `parameters`; it passes it to the callback, which the
// header requires to be callable from any thread.
unsafe impl Send for RegisteredCallback {}

/// The registered callback.
static CALLBACK: Mutex<Option<RegisteredCallback>> = Mutex::new(None);

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

/// Queues an execution on the core of the model with the fewest pending requests.
pub(crate) fn put(
    process: &Process,
    model: Arc<CoreModel>,
    inputs: Arc<HandleSet>,
    outputs: Arc<HandleSet>,
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
        let registered = *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(RegisteredCallback {
            callback,
            parameters,
        }) = registered
        {
            // SAFETY: the function pointer and its argument are those of one call of
            // `nrt_register_async_exec_callback`, whose header requires them to stay valid until
            // another callback is registered.
            unsafe { callback(parameters, id, core, sequence.position(), status) };
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
        let registered = callback.map(|callback| RegisteredCallback { callback, parameters: params });
        *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner) = registered;
        Ok(())
    }

    fn nrt_async_drain_queued_execs(vnc: i32) {
        let process = process()?;
        let core = crate::cores::number(vnc.into())?;
        process.cores.core(core)?;
        process.queues.drain(core, ExecutionUnit::Compute)
    }
}
