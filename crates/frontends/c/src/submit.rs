//! `tenon_run`: an asynchronous execution.

use crate::arrays::inputs;
use crate::blob::write_handle;
use crate::fork;
use crate::model::model_of;
use crate::outputs::write_outputs;
use crate::status;
use crate::structs::{Array, SubmitOptions, options};
use crate::task::control_of;
use rustix::event::{EventfdFlags, eventfd};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tenon::{
    AsyncOptions, Control, Error, ErrorKind, Outputs, Priority, Result, RunFuture, RunQueue,
};
use tenon_c_callers::arguments::{check, invalid, write_output};
use tenon_c_callers::handles::{Handle, Handles};

/// Executions that may wait.
const CAPACITY: usize = 1024;

/// The queue of this process, never freed.
struct ProcessQueue {
    queue: RunQueue,
    /// The count of forks when it was made: the threads of an earlier one are not in this process.
    forks: u64,
}

static QUEUE: AtomicPtr<ProcessQueue> = AtomicPtr::new(std::ptr::null_mut());

/// The queue of this process. Without a lock, which another thread could hold at a fork.
fn queue() -> &'static RunQueue {
    let forks = fork::forks();
    let current = QUEUE.load(Ordering::Acquire);
    // SAFETY: null, or a queue that is never freed.
    match unsafe { current.as_ref() } {
        Some(found) if found.forks == forks => return &found.queue,
        _ => {}
    }
    let queue = RunQueue::new(tenon::machine::threads(), CAPACITY);
    let made = Box::into_raw(Box::new(ProcessQueue { queue, forks }));
    let stored = QUEUE.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire);
    let used = stored.map_or_else(
        |other| {
            // SAFETY: made above, and not stored.
            drop(unsafe { Box::from_raw(made) });
            other
        },
        |_| made,
    );
    // SAFETY: stored queues are not null and never freed.
    unsafe { &(*used).queue }
}

static RUNS: Handles<Arc<Run>> = Handles::new(0x52, "run");

struct Run {
    result: Mutex<RunResult>,
    control: Control,
    end: Arc<End>,
}

/// The result of an execution.
enum RunResult {
    Awaited(RunFuture),
    Ready(Result<Outputs>),
    Taken,
}

/// Whether the execution has ended, for those that wait.
struct End {
    state: Mutex<EndState>,
    changed: Condvar,
    callback: Option<Callback>,
}

#[derive(Default)]
struct EndState {
    is_ended: bool,
    /// Made when it is first requested.
    descriptor: Option<OwnedFd>,
}

/// The function of the caller for the end of the execution.
struct Callback {
    ended: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
}

// SAFETY: the function may be called on any thread with its context (header).
unsafe impl Send for Callback {}
// SAFETY: it is called once.
unsafe impl Sync for Callback {}

impl End {
    fn lock(&self) -> MutexGuard<'_, EndState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_ended, true) {
            return;
        }
        state.descriptor.iter().for_each(make_readable);
        drop(state);
        self.changed.notify_all();
        if let Some(Callback { ended, context }) = &self.callback {
            // SAFETY: the function is called as the header says, once.
            unsafe { ended(*context) };
        }
    }

    /// Waits for the end, at most until a time; whether it has come.
    fn wait(&self, until: Option<Instant>) -> bool {
        let mut state = self.lock();
        while !state.is_ended {
            let Some(until) = until else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// An eventfd that was written to once cannot fail to count.
fn make_readable(descriptor: &OwnedFd) {
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

impl Wake for End {
    fn wake(self: Arc<Self>) {
        self.signal();
    }
}

impl Run {
    fn lock(&self) -> MutexGuard<'_, RunResult> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the result if the execution has ended, else the end is signalled when it comes.
    fn poll(&self) {
        let mut result = self.lock();
        if let RunResult::Awaited(future) = &mut *result {
            let waker = Waker::from(self.end.clone());
            let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(done) = polled {
                *result = RunResult::Ready(done);
                drop(result);
                self.end.signal();
            }
        }
    }

    /// Waits for the outputs.
    fn take(&self) -> Result<Outputs> {
        self.end.wait(None);
        self.poll();
        match std::mem::replace(&mut *self.lock(), RunResult::Taken) {
            RunResult::Ready(done) => done,
            RunResult::Taken => {
                let text = "the outputs of this run were taken before";
                Err(Error::new(ErrorKind::Usage, text))
            }
            RunResult::Awaited(_) => Err(Error::new(
                ErrorKind::Internal,
                "an ended run has no result",
            )),
        }
    }
}

pub unsafe extern "C" fn model_submit(
    model: Handle,
    arrays: *const Array,
    count: usize,
    from: *const SubmitOptions,
    run: *mut Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        check(run, "run")?;
        // SAFETY: null or options, null or `count` arrays (header).
        let (given, inputs) = unsafe {
            let given = options(from, "options")?;
            (given, inputs(loaded.model.inputs(), arrays, count)?)
        };
        let priority = match given.priority {
            0 => Priority::Normal,
            1 => Priority::High,
            2 => Priority::Low,
            other => {
                let error = invalid("options.priority is no tenon_priority");
                return Err(error.expected("0, 1 or 2").found(other));
            }
        };
        let control = control_of(given.task)?.child();
        let submitted = AsyncOptions::new()
            .priority(priority)
            .control(control.clone());
        let end = Arc::new(End {
            state: Mutex::default(),
            changed: Condvar::new(),
            callback: given.ended.map(|ended| Callback {
                ended,
                context: given.context,
            }),
        });
        let future = queue().run(&loaded.model, inputs, submitted);
        let made = Arc::new(Run {
            result: Mutex::new(RunResult::Awaited(future)),
            control,
            end,
        });
        // SAFETY: null or valid for writing (header).
        unsafe { write_handle(run, "run", &RUNS, made.clone())? };
        made.poll();
        Ok(())
    })
}

pub unsafe extern "C" fn run_descriptor(run: Handle, descriptor: *mut c_int) -> Handle {
    status::of(|| {
        let run = RUNS.find(run)?;
        check(descriptor, "descriptor")?;
        let mut state = run.end.lock();
        if state.descriptor.is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let made = made.map_err(|error| Error::io("an eventfd", "make", error.into()))?;
            if state.is_ended {
                make_readable(&made);
            }
            state.descriptor = Some(made);
        }
        let number = state.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(descriptor, "descriptor", number) }
    })
}

pub unsafe extern "C" fn run_wait(run: Handle, seconds: f64, ended: *mut i32) -> Handle {
    status::of(|| {
        let run = RUNS.find(run)?;
        if seconds.is_nan() {
            return Err(invalid("seconds is no time").found(seconds));
        }
        let until = match Duration::try_from_secs_f64(seconds) {
            Ok(time) => Instant::now().checked_add(time),
            // Without a limit: negative, or beyond the clock's range.
            Err(_) => None,
        };
        let found = i32::from(run.end.wait(until));
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(ended, "ended", found) }
    })
}

pub unsafe extern "C" fn run_outputs(run: Handle, outputs: *mut Handle) -> Handle {
    status::of(|| {
        let run = RUNS.find(run)?;
        check(outputs, "outputs")?;
        let found = run.take()?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_outputs(outputs, "outputs", found.named()) }
    })
}

pub extern "C" fn run_cancel(run: Handle) -> Handle {
    status::of(|| {
        RUNS.find(run)?.control.cancel();
        Ok(())
    })
}

pub extern "C" fn run_free(run: Handle) -> Handle {
    // Another thread may wait for the outputs, and keep the run.
    if let Ok(run) = RUNS.find(run) {
        run.control.cancel();
    }
    status::freed(&RUNS, run)
}
