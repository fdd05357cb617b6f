//! The life of the runtime in a process: started, ended, and not carried over a fork.

use crate::call::{self, attempt, entry};
use crate::{
    arguments, async_api, asynchronous, collectives, data_types, debug_stream, failed_inputs,
    inspect, models, requests, tensor_sets, tensors, trace,
};
use std::ffi::c_char;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{
    Component, CoreOptions, Cores, MAX_CORES, Publisher, RequestQueues, Runtime, SharedFolder,
};

/// What the process has while it is started.
pub(crate) struct Process {
    /// Tells those who watch from outside; first, for it holds the cores until it is dropped.
    _publisher: Option<Publisher>,
    pub cores: Cores,
    pub runtime: Runtime,
    pub queues: RequestQueues,
}

/// Where in its life the runtime is.
static STATE: AtomicU8 = AtomicU8::new(NEVER);
const NEVER: u8 = 0;
const STARTED: u8 = 1;
const ENDED: u8 = 2;
const FORKED: u8 = 3;

static PROCESS: RwLock<Option<Arc<Process>>> = RwLock::new(None);

/// Held by who starts or ends the runtime.
static CHANGING: Mutex<()> = Mutex::new(());

/// Requests that a queue holds unless executions are queued by `nrt_execute`.
const QUEUE_DEPTH: usize = 4096;

/// Fails unless the runtime is started: the first thing in most functions.
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

/// What the process has; fails unless the runtime is started.
pub(crate) fn process() -> Result<Arc<Process>> {
    check()?;
    let process = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    // Between the two, it may have been ended.
    process.clone().ok_or_else(|| not_started(ENDED))
}

entry! {
    fn nrt_init(framework: i32, fw_version: *const c_char, fal_version: *const c_char) {
        // SAFETY: the caller's texts, NULL or NUL-terminated.
        let versions = unsafe {
            [
                arguments::optional_text(fw_version, "fw_version")?,
                arguments::optional_text(fal_version, "fal_version")?,
            ]
        };
        // NRT_FRAMEWORK_TYPE_NO_FW to PRECHECK.
        if !(1..=5).contains(&framework) {
            return Err(arguments::invalid("the framework is none that is known")
                .expected("NRT_FRAMEWORK_TYPE_NO_FW (1) to NRT_FRAMEWORK_TYPE_PRECHECK (5)")
                .found(framework));
        }
        let _alone = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        match STATE.load(Ordering::Acquire) {
            STARTED => return Ok(()),
            FORKED => {
                let error = not_started(FORKED);
                return Err(Error::new(ErrorKind::Internal, error.to_string()));
            }
            _ => {}
        }
        let log = call::renew_log();
        start()?;
        if let Err(error) = inspect::begin_with_process() {
            end();
            // It was never started, as far as the caller knows.
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
            let _alone = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
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
    remember_locks(&cores);
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

/// Starts telling those who watch from outside (docs/monitoring.md). A process that cannot be
/// watched still works.
fn publish(cores: &Cores, folder: Option<SharedFolder>) -> Option<Publisher> {
    let told = cores.clone();
    match Publisher::start(move || folder, move || told.report(), call::log()) {
        Ok(publisher) => Some(publisher),
        Err(error) => {
            let text = format_args!("it will not be seen by tenon monitor: {error}");
            call::log().warning(Component::Nrt, "nrt_init", text);
            None
        }
    }
}

/// How many executions may be in flight on a core, where `nrt_execute` is to queue them.
fn in_flight() -> Result<Option<usize>> {
    const NAME: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => Err(arguments::invalid(format!("{NAME} is not a number"))
            .expected("a number of executions, 0 for none")
            .found(format_args!("'{text}'"))),
    }
}

/// Ends what is in flight, then forgets everything.
fn end() {
    STATE.store(ENDED, Ordering::Release);
    let taken = PROCESS
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(process) = taken else { return };
    // Callers that came before the end are still inside; what they use is theirs until they leave.
    process.queues.close();
    for model in models::MODELS.clear() {
        models::wait_until_idle(&model);
    }
    tensor_sets::SETS.clear();
    tensors::TENSORS.clear();
    requests::TRACKERS.clear();
    collectives::CONTEXTS.clear();
    trace::forget();
    debug_stream::forget();
    LOCKS
        .iter()
        .for_each(|lock| lock.store(-1, Ordering::Relaxed));
    // The cores are given back with the last one who holds the process.
    while Arc::strong_count(&process) > 1 {
        std::thread::yield_now();
    }
}

/// Descriptors of the locks, for the child of a fork: it shares them with its parent and would keep
/// the cores after the parent's death.
static LOCKS: [AtomicI32; MAX_CORES as usize] = [const { AtomicI32::new(-1) }; MAX_CORES as usize];

fn remember_locks(cores: &Cores) {
    static ONCE: Once = Once::new();
    // SAFETY: the handler uses atomics and `close` only, which may be called after a fork.
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
            // SAFETY: a descriptor of this process that nothing uses from now on: every function
            // refuses.
            unsafe { libc::close(descriptor) };
        }
    }
}
