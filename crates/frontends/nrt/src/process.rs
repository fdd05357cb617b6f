//! The lifecycle of the runtime in a process: started, closed, and unusable after a fork.

use crate::call::{self, attempt, entry};
use crate::{
    async_api, asynchronous, collectives, data_types, debug_stream, failed_inputs, inspect, models,
    requests, tensor_sets, tensors, trace,
};
use std::ffi::c_char;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock};
use tenon_base::{CpuLevel, Error, ErrorKind, Result};
use tenon_c_callers::arguments;
use tenon_runtime::{
    Component, CoreOptions, Cores, MAX_CORES, Publisher, RequestQueues, Runtime, SharedFolder,
};

/// The state of a process between `nrt_init` and `nrt_close`.
pub(crate) struct Process {
    /// Publishes reports for monitors. The first field, since it owns the cores until it is dropped.
    _publisher: Option<Publisher>,
    pub cores: Cores,
    pub runtime: Runtime,
    pub queues: RequestQueues,
}

/// The state of the runtime.
static STATE: AtomicU8 = AtomicU8::new(NEVER);
const NEVER: u8 = 0;
const STARTED: u8 = 1;
const ENDED: u8 = 2;
const FORKED: u8 = 3;

static PROCESS: RwLock<Option<Arc<Process>>> = RwLock::new(None);

/// Locked while the runtime is started or closed.
static LIFECYCLE: Mutex<()> = Mutex::new(());

/// Capacity of a queue unless `nrt_execute` queues executions.
const QUEUE_DEPTH: usize = 4096;

/// Fails unless the runtime is started; most functions call it first.
#[inline]
pub(crate) fn check() -> Result<()> {
    match STATE.load(Ordering::Acquire) {
        STARTED => Ok(()),
        state => Err(not_started(state)),
    }
}

#[cold]
fn not_started(state: u8) -> Error {
    match state {
        ENDED => Error::new(ErrorKind::Closed, "the runtime was ended by nrt_close"),
        FORKED => Error::new(
            ErrorKind::Uninitialized,
            "the process was made by a fork of one that had called nrt_init",
        )
        .help("fork before nrt_init, or execute another program in the child"),
        _ => Error::new(ErrorKind::Uninitialized, "nrt_init was not called"),
    }
}

/// The state of the process; fails unless the runtime is started.
pub(crate) fn process() -> Result<Arc<Process>> {
    check()?;
    let process = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    // `nrt_close` may have run since the check.
    process.clone().ok_or_else(|| not_started(ENDED))
}

entry! {
    fn nrt_init(framework: i32, fw_version: *const c_char, fal_version: *const c_char) {
        // SAFETY: `fw_version` and `fal_version` are null or NUL-terminated (header).
        let versions = unsafe {
            [
                arguments::optional_text(fw_version, "fw_version")?,
                arguments::optional_text(fal_version, "fal_version")?,
            ]
        };
        // NRT_FRAMEWORK_TYPE_NO_FW to PRECHECK.
        if !(1..=5).contains(&framework) {
            return Err(arguments::invalid("unknown framework")
                .expected("NRT_FRAMEWORK_TYPE_NO_FW (1) to NRT_FRAMEWORK_TYPE_PRECHECK (5)")
                .found(framework));
        }
        let _lifecycle = LIFECYCLE.lock().unwrap_or_else(PoisonError::into_inner);
        match STATE.load(Ordering::Acquire) {
            STARTED => return Ok(()),
            FORKED => {
                let error = not_started(FORKED);
                return Err(Error::new(ErrorKind::Internal, error.to_string()));
            }
            _ => {}
        }
        let log = call::reset_log();
        start()?;
        if let Err(error) = inspect::begin_with_process() {
            end();
            // The call fails, so the caller has never started the runtime.
            STATE.store(NEVER, Ordering::Release);
            return Err(error);
        }
        let [fw, fal] = versions;
        let cores = process()?.cores.len();
        log.info(Component::Nrt, "nrt_init", format_args!(
            "started with {cores} cores for framework {framework} ({fw:?}, {fal:?})"
        ));
        Ok(())
    }

    fn nrt_close() -> () {
        let _ = attempt("nrt_close", || {
            let _lifecycle = LIFECYCLE.lock().unwrap_or_else(PoisonError::into_inner);
            if STATE.load(Ordering::Acquire) != STARTED {
                return Ok(());
            }
            let written = inspect::end_with_process();
            end();
            written
        });
    }
}

fn start() -> Result<()> {
    let (folder, refused) = SharedFolder::find();
    if let Some(error) = refused {
        call::log().warning(Component::Nrt, "nrt_init", format_args!("{error}"));
    }
    let cores = Cores::new(&CoreOptions {
        locks: folder.clone(),
        ..CoreOptions::from_environment()?
    })?;
    let in_flight = in_flight()?;
    failed_inputs::set_by_environment()?;
    async_api::set_by_environment()?;
    data_types::set_by_environment()?;
    CpuLevel::from_environment()?;
    register_locks(&cores);
    let queues = RequestQueues::new(cores.len() as u32, in_flight.unwrap_or(QUEUE_DEPTH));
    let process = Process {
        _publisher: publish(&cores, folder),
        runtime: Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels()),
        cores,
        queues,
    };
    asynchronous::set(in_flight.is_some());
    *PROCESS.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(process));
    STATE.store(STARTED, Ordering::Release);
    Ok(())
}

/// Starts to publish reports for monitors (docs/monitoring.md). A failure is logged and does not
/// prevent the start.
fn publish(cores: &Cores, folder: Option<SharedFolder>) -> Option<Publisher> {
    let reported = cores.clone();
    match Publisher::start(move || folder, move || reported.report(), call::log()) {
        Ok(publisher) => Some(publisher),
        Err(error) => {
            let text = format_args!("tenon monitor cannot observe this process: {error}");
            call::log().warning(Component::Nrt, "nrt_init", text);
            None
        }
    }
}

/// The number of executions in flight on a core, if `nrt_execute` queues them.
fn in_flight() -> Result<Option<usize>> {
    const NAME: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => Err(arguments::invalid(format!("{NAME} is not a number"))
            .expected("a number of executions, 0 to disable the queue")
            .found(format_args!("'{text}'"))),
    }
}

/// Completes the requests in flight, then removes all handles and captures.
fn end() {
    STATE.store(ENDED, Ordering::Release);
    let taken = PROCESS
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(process) = taken else { return };
    // Calls that began before the end continue with their references.
    process.queues.close();
    for model in models::MODELS.clear() {
        models::wait_until_idle(&model);
    }
    tensor_sets::SETS.clear();
    tensors::TENSORS.clear();
    requests::TRACKERS.clear();
    collectives::CONTEXTS.clear();
    trace::clear();
    debug_stream::clear();
    LOCKS
        .iter()
        .for_each(|lock| lock.store(-1, Ordering::Relaxed));
    // The last reference to the process releases the cores.
    while Arc::strong_count(&process) > 1 {
        std::thread::yield_now();
    }
}

/// Descriptors of the core locks, which the child of a fork closes: it shares them with its parent
/// and would own the cores after the parent's exit.
static LOCKS: [AtomicI32; MAX_CORES as usize] = [const { AtomicI32::new(-1) }; MAX_CORES as usize];

fn register_locks(cores: &Cores) {
    static ONCE: Once = Once::new();
    // SAFETY: the handler uses only atomics and `close`, which are async-signal-safe, as the child of
    // a fork of a multi-threaded process requires.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
    });
    let descriptors = cores
        .claim()
        .into_iter()
        .flat_map(|claim| claim.descriptors());
    for (slot, descriptor) in LOCKS.iter().zip(descriptors) {
        slot.store(descriptor, Ordering::Relaxed);
    }
}

/// Runs in the child of a fork.
extern "C" fn forked() {
    if STATE.load(Ordering::Acquire) != STARTED {
        return;
    }
    STATE.store(FORKED, Ordering::Release);
    for lock in &LOCKS {
        let descriptor = lock.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: an open descriptor of this process, swapped out of `LOCKS`, so it is closed
            // once; no function uses it any more, since all fail in the state `FORKED`.
            unsafe { libc::close(descriptor) };
        }
    }
}
