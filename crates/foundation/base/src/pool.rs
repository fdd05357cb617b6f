//! The one thread pool of the process: fork-join parallel loops with affinity scheduling.
//!
//! [`for_each`] runs the iterations of a loop on the calling thread and on idle workers. Each thread has a part of the
//! iterations, the same one in every loop of this length, and takes them one after the other; a thread without any left
//! steals from the ends of the other parts (Markatos and LeBlanc, "Using processor affinity in loop scheduling on
//! shared-memory multiprocessors", 1994). So the rows that a layer of a network wrote are in the caches of the core on
//! which the next layer reads them. Callers that need larger chunks choose the iterations so.
//!
//! One loop at a time is published to the workers: a single execution uses all CPUs; of several
//! concurrent executions one has the workers and the others run their loops serially on their own
//! threads, which divides the CPUs between them. A nested loop runs serially.
//!
//! Inside [`stop::with_token`] each iteration begins with a checkpoint, which ends the loop after
//! cancellation or the deadline. Inside [`with_trace`] workers report their share to a trace sink.
//!
//! Workers spin for 50 microseconds after each loop, since the next loop of a model follows within
//! microseconds, then park. So does a caller whose iterations are done while a worker still computes: where other
//! processes use the CPUs, the worker may be waiting for the CPU that the caller would occupy. Publishing a loop
//! allocates nothing.

#![allow(unsafe_code, reason = "the published loop and its wakers")]

use crate::stop::{self, TokenPointer};
use crate::trace::TraceSink;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a thread spins before it parks. Waking it takes about as long.
const SPINNING: Duration = Duration::from_micros(50);

/// Spins between two readings of the clock.
const SPINS: u32 = 64;

/// Flags in [`Pool::gate`]; the bits below them count the workers inside the loop.
const OPEN: usize = 1 << (usize::BITS - 1);
const IS_AWAITED: usize = OPEN >> 1;

/// Waiting by spinning, before a thread parks.
struct Spinning {
    spins: u32,
    start: Option<Instant>,
}

impl Spinning {
    fn new() -> Self {
        Self {
            spins: 0,
            start: None,
        }
    }

    /// Spins once; `false` when the time is over.
    #[inline]
    fn spin(&mut self) -> bool {
        std::hint::spin_loop();
        self.spins += 1;
        if !self.spins.is_multiple_of(SPINS) {
            return true;
        }
        let start = *self.start.get_or_insert_with(Instant::now);
        start.elapsed() < SPINNING
    }
}

/// The published loop. Its pointers are valid while the gate is open or workers are inside.
#[derive(Clone, Copy)]
struct Job {
    body: Body,
    /// The index of the first iteration, and their number.
    first: usize,
    count: usize,
    /// Maximum number of workers: the caller's thread limit less one.
    max_workers: usize,
    trace: Option<TraceHook>,
    /// The caller's stop token, valid as long as the body.
    token: Option<TokenPointer>,
}

/// The body of a loop with its type erased, so that the code of a loop is compiled once, not once for each body.
#[derive(Clone, Copy)]
struct Body {
    call: unsafe fn(*const (), usize),
    body: *const (),
}

impl Body {
    fn new<F: Fn(usize) + Sync>(body: &F) -> Self {
        Self {
            call: call_body::<F>,
            body: std::ptr::from_ref(body).cast(),
        }
    }

    /// # Safety
    /// The closure of [`Body::new`] must live during the call.
    unsafe fn call(self, index: usize) {
        // SAFETY: `body` points to the `F` of which `call` is the instance (`new`), which lives during the call
        // (requirement).
        unsafe { (self.call)(self.body, index) }
    }
}

/// A trace sink with its type erased.
#[derive(Clone, Copy)]
struct TraceHook {
    scope: unsafe fn(*const (), Instant, Instant),
    sink: *const (),
}

struct Pool {
    /// Lock of the thread whose loop is published.
    is_publishing: AtomicBool,
    /// Number of loops published, by which a worker detects a new one.
    generation: AtomicUsize,
    /// [`OPEN`] while workers may enter the loop, [`IS_AWAITED`] while the publishing thread is parked until they
    /// leave, plus the number of workers inside.
    gate: AtomicUsize,
    /// The publishing thread, where it has parked.
    publisher: Mutex<Option<Thread>>,
    job: std::cell::UnsafeCell<Job>,
    /// Payload of the first panic of an iteration.
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    /// Number of parked workers.
    sleepers: AtomicUsize,
    /// Null until the first loop of the process. Never freed.
    workers: AtomicPtr<Workers>,
}

struct Workers {
    workers: Vec<Worker>,
    /// The iterations of each thread, the publishing thread first.
    parts: Vec<Part>,
}

/// The iterations of a thread that are left: the next one in the upper half, the end in the lower half.
#[repr(align(128))]
struct Part(AtomicU64);

/// The maximum number of iterations of a loop that is published at once.
const MAX_COUNT: usize = u32::MAX as usize;

impl Part {
    fn set(&self, iterations: Range<usize>) {
        let packed = (iterations.start as u64) << 32 | iterations.end as u64;
        self.0.store(packed, Ordering::Relaxed);
    }

    /// Takes the first iteration.
    fn first(&self) -> Option<usize> {
        self.take(|next, end| (next, [next + 1, end]))
    }

    /// Takes the last iteration.
    fn last(&self) -> Option<usize> {
        self.take(|next, end| (end - 1, [next, end - 1]))
    }

    fn take(&self, choose: impl Fn(u64, u64) -> (u64, [u64; 2])) -> Option<usize> {
        let mut packed = self.0.load(Ordering::Relaxed);
        loop {
            let (next, end) = (packed >> 32, packed & u64::from(u32::MAX));
            if next >= end {
                return None;
            }
            let (taken, [next, end]) = choose(next, end);
            let (relaxed, left) = (Ordering::Relaxed, next << 32 | end);
            match self.0.compare_exchange_weak(packed, left, relaxed, relaxed) {
                Ok(_) => return Some(taken as usize),
                Err(now) => packed = now,
            }
        }
    }
}

struct Worker {
    thread: Thread,
    is_asleep: &'static AtomicBool,
}

// SAFETY: only `job` and the pointers in it are not `Sync` by themselves. `job` is written only by
// the thread that set `is_publishing`, while the gate is closed and no worker is inside; workers
// read it only after passing the open gate, which that thread stored (release) after the write
// (acquire).
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    is_publishing: AtomicBool::new(false),
    generation: AtomicUsize::new(0),
    gate: AtomicUsize::new(0),
    publisher: Mutex::new(None),
    job: std::cell::UnsafeCell::new(Job {
        body: Body {
            call: call_nothing,
            body: std::ptr::null(),
        },
        first: 0,
        count: 0,
        max_workers: 0,
        trace: None,
        token: None,
    }),
    panic: Mutex::new(None),
    sleepers: AtomicUsize::new(0),
    workers: AtomicPtr::new(std::ptr::null_mut()),
};

thread_local! {
    static INSIDE_LOOP: Cell<bool> = const { Cell::new(false) };
    static THREAD_LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
    static TRACE: Cell<Option<TraceHook>> = const { Cell::new(None) };
}

/// # Safety
/// No requirements.
unsafe fn call_nothing(_: *const (), _: usize) {}

/// # Safety
/// `body` must point to an `F` that lives during the call.
unsafe fn call_body<F: Fn(usize) + Sync>(body: *const (), index: usize) {
    // SAFETY: `body` points to a live `F` (requirement of this function); `F: Sync` permits the
    // shared reference on any thread.
    unsafe { (*body.cast::<F>())(index) }
}

/// # Safety
/// `sink` must point to an `S` that lives during the call.
unsafe fn call_scope<S: TraceSink>(sink: *const (), start: Instant, end: Instant) {
    // SAFETY: `sink` points to a live `S` (requirement of this function); `TraceSink: Sync` permits
    // the shared reference on any thread.
    unsafe { (*sink.cast::<S>()).scope("loop", "", start, end, 0) }
}

/// Maximum number of threads of a loop of the calling thread, the caller included: the number of
/// CPUs, or less inside [`with_thread_limit`]; 1 inside a loop.
pub fn threads() -> usize {
    if INSIDE_LOOP.get() {
        1
    } else {
        cpus().min(THREAD_LIMIT.get())
    }
}

fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get()))
}

/// Prepares the pool in the child of a fork, which has no workers: its next loop starts them. If another thread of the
/// parent was in a loop at the time, the loops of the child stay on their callers' threads. The only thread of the
/// child calls it before any loop.
pub fn after_fork() {
    // A lock that another thread of the parent held is never released.
    let is_busy = POOL.is_publishing.swap(true, Ordering::Acquire)
        || POOL.publisher.try_lock().is_err()
        || POOL.panic.try_lock().is_err();
    if !is_busy {
        POOL.workers.store(std::ptr::null_mut(), Ordering::Relaxed);
        POOL.gate.store(0, Ordering::Relaxed);
        POOL.sleepers.store(0, Ordering::Relaxed);
        POOL.is_publishing.store(false, Ordering::Release);
    }
}

/// Runs `work` with at most `limit` threads for each loop that it starts on this thread.
pub fn with_thread_limit<R>(limit: usize, work: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREAD_LIMIT.set(self.0);
        }
    }
    let _restore = Restore(THREAD_LIMIT.replace(limit.max(1)));
    work()
}

/// Runs `work` with `sink` as the trace sink of its loops: for each loop of this thread and each
/// worker that executes iterations of it, `sink` receives one scope of category `loop` with an
/// empty name, on that worker's thread. The caller's own share is not reported.
pub fn with_trace<S: TraceSink, R>(sink: &S, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<TraceHook>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRACE.set(self.0);
        }
    }
    let hook = TraceHook {
        scope: call_scope::<S>,
        sink: std::ptr::from_ref(sink).cast(),
    };
    let _restore = Restore(TRACE.replace(Some(hook)));
    work()
}

/// Calls `body(0)` to `body(count - 1)`, each once, in any order, on the calling thread and on idle
/// workers; returns when all calls have returned. A panic of a call is propagated. Inside
/// [`stop::with_token`] the loop ends early, by unwinding, when the work is stopped.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// tenon_base::pool::for_each(10, |i| {
///     sum.fetch_add(i, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub fn for_each<F: Fn(usize) + Sync>(count: usize, body: F) {
    let erased = Body::new(&body);
    for first in (0..count).step_by(MAX_COUNT) {
        // SAFETY: `body` lives until the end of this function.
        unsafe { run_loop(first..count.min(first.saturating_add(MAX_COUNT)), erased) };
    }
}

/// Runs at most [`MAX_COUNT`] iterations.
///
/// # Safety
/// The closure of `body` must live during the call.
unsafe fn run_loop(iterations: Range<usize>, body: Body) {
    let max_workers = threads().min(iterations.len()).saturating_sub(1);
    stop::reset_skipping();
    if max_workers == 0 || POOL.is_publishing.swap(true, Ordering::Acquire) {
        for index in iterations {
            stop::checkpoint();
            // SAFETY: the closure lives during the call (requirement).
            unsafe { body.call(index) };
        }
        return;
    }
    POOL.run(Job {
        body,
        first: iterations.start,
        count: iterations.len(),
        max_workers,
        trace: TRACE.get(),
        token: stop::current(),
    });
}

impl Pool {
    /// Publishes `job` and runs it to its end. The caller has set `is_publishing`, which is cleared
    /// here.
    fn run(&'static self, job: Job) {
        let Workers { workers, parts } = self.workers();
        let threads = (job.max_workers + 1).min(parts.len());
        for (index, part) in parts[..threads].iter().enumerate() {
            let start = |index: usize| job.count * index / threads;
            part.set(start(index)..start(index + 1));
        }
        // SAFETY: this thread set `is_publishing`, so no other thread writes; the gate is closed
        // with no worker inside since the last loop ended, so none reads.
        unsafe { *self.job.get() = job };
        self.gate.store(OPEN, Ordering::Release);
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            for worker in workers
                .iter()
                .take(job.max_workers)
                .filter(|worker| worker.is_asleep.load(Ordering::SeqCst))
            {
                worker.thread.unpark();
            }
        }
        self.take_iterations(&job, 0);
        // Close the gate, then wait until no worker is inside.
        self.gate.fetch_and(!OPEN, Ordering::AcqRel);
        self.wait_for_workers();
        let panic = lock(&self.panic).take();
        self.is_publishing.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Waits until no worker is inside the closed gate.
    fn wait_for_workers(&self) {
        let is_occupied = || self.gate.load(Ordering::Acquire) & !IS_AWAITED != 0;
        let mut spinning = Spinning::new();
        while is_occupied() {
            if spinning.spin() {
                continue;
            }
            *lock(&self.publisher) = Some(std::thread::current());
            self.gate.fetch_or(IS_AWAITED, Ordering::AcqRel);
            while is_occupied() {
                std::thread::park();
            }
        }
    }

    /// The workers, which the thread that publishes the first loop starts.
    fn workers(&'static self) -> &'static Workers {
        // SAFETY: null, or a box that was leaked below.
        if let Some(workers) = unsafe { self.workers.load(Ordering::Acquire).as_ref() } {
            return workers;
        }
        let workers = start_workers(cpus() - 1);
        let parts = (0..=workers.len()).map(|_| Part(AtomicU64::new(0)));
        let started = Box::leak(Box::new(Workers {
            parts: parts.collect(),
            workers,
        }));
        self.workers.store(started, Ordering::Release);
        started
    }

    /// Takes and executes iterations until none is left; whether there were any. `thread` is the position of this
    /// thread's part.
    fn take_iterations(&'static self, job: &Job, thread: usize) -> bool {
        let parts = &self.workers().parts;
        let parts = &parts[..(job.max_workers + 1).min(parts.len())];
        let (before, own) = parts.split_at(thread);
        let others = own[1..].iter().chain(before);
        let outer = INSIDE_LOOP.replace(true);
        let mut any = false;
        loop {
            let own = || own[0].first();
            let Some(index) = own().or_else(|| others.clone().find_map(Part::last)) else {
                break;
            };
            any = true;
            let call = AssertUnwindSafe(|| {
                stop::checkpoint();
                // SAFETY: the closure lives until `run` returns (`run_loop`), which waits until no
                // worker is inside.
                unsafe { job.body.call(job.first + index) }
            });
            if let Err(panic) = catch_unwind(call) {
                parts.iter().for_each(|part| part.set(0..0));
                lock(&self.panic).get_or_insert(panic);
            }
        }
        INSIDE_LOOP.set(outer);
        any
    }

    /// A worker's share of a loop that it has entered.
    fn work_on(&'static self, job: &Job, thread: usize) {
        let take = || stop::with_pointer(job.token, || self.take_iterations(job, thread));
        let Some(TraceHook { scope, sink }) = job.trace else {
            take();
            return;
        };
        let start = Instant::now();
        if take() {
            // SAFETY: `sink` points to the `S` of which `scope` is the instance (`with_trace`). It
            // is borrowed until `with_trace` returns, which is after `run` returned, which waits
            // until no worker is inside.
            let report = AssertUnwindSafe(|| unsafe { scope(sink, start, Instant::now()) });
            // A panic of the sink loses this scope only.
            let _ = catch_unwind(report);
        }
    }

    /// Enters the published loop if the gate is open and this worker, the thread of this position, has a part of it.
    fn enter(&self, thread: usize) -> Option<Job> {
        let mut gate = self.gate.load(Ordering::Acquire);
        loop {
            if gate & OPEN == 0 {
                return None;
            }
            match self.gate.compare_exchange_weak(
                gate,
                gate + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(now) => gate = now,
            }
        }
        // SAFETY: the gate was open when this worker was counted (acquire), so the job was written
        // before and is not overwritten until `leave`: `run` waits until no worker is inside.
        let job = unsafe { *self.job.get() };
        if thread > job.max_workers {
            self.leave();
            return None;
        }
        Some(job)
    }

    fn leave(&self) {
        // Another loop may have been published by the time that the thread is woken, which then is of no effect: parked
        // threads test their condition again.
        if self.gate.fetch_sub(1, Ordering::AcqRel) == IS_AWAITED + 1
            && let Some(publisher) = &*lock(&self.publisher)
        {
            publisher.unpark();
        }
    }

    /// The main loop of a worker.
    fn work(&'static self, thread: usize, is_asleep: &'static AtomicBool) -> ! {
        let mut last = 0;
        loop {
            let mut spinning = Spinning::new();
            while self.generation.load(Ordering::SeqCst) == last {
                if spinning.spin() {
                    continue;
                }
                is_asleep.store(true, Ordering::SeqCst);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while self.generation.load(Ordering::SeqCst) == last {
                    std::thread::park();
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                is_asleep.store(false, Ordering::SeqCst);
            }
            last = self.generation.load(Ordering::SeqCst);
            if let Some(job) = self.enter(thread) {
                self.work_on(&job, thread);
                self.leave();
            }
        }
    }
}

/// Locks even if a holder panicked: the data is consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts up to `count` workers; fewer when creating a thread fails.
fn start_workers(count: usize) -> Vec<Worker> {
    (0..count)
        .map_while(|index| {
            let is_asleep: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let thread = std::thread::Builder::new()
                .name(format!("tenon-{}", index + 1))
                .spawn(move || POOL.work(index + 1, is_asleep))
                .ok()?;
            Some(Worker {
                thread: thread.thread().clone(),
                is_asleep,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_iteration_runs_once() {
        for count in [0, 1, 2, 3, 100, 1000] {
            let hits: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
            for _ in 0..50 {
                for_each(count, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 50));
        }
    }

    #[test]
    fn iterations_of_a_part_are_taken_once_from_both_ends() {
        let part = Part(AtomicU64::new(0));
        part.set(7..7);
        assert_eq!((part.first(), part.last()), (None, None));
        part.set(3..6);
        assert_eq!((part.first(), part.last()), (Some(3), Some(5)));
        assert_eq!((part.last(), part.first()), (Some(4), None));
        for _ in 0..200 {
            part.set(10..60);
            let hits: Vec<AtomicU32> = (0..60).map(|_| AtomicU32::new(0)).collect();
            let hit = |index: usize| {
                hits[index].fetch_add(1, Ordering::Relaxed);
            };
            std::thread::scope(|scope| {
                scope.spawn(|| std::iter::from_fn(|| part.first()).for_each(hit));
                scope.spawn(|| std::iter::from_fn(|| part.last()).for_each(hit));
            });
            let expected = |index| u32::from(index >= 10);
            let mut hits = hits.iter().enumerate();
            assert!(hits.all(|(index, hit)| hit.load(Ordering::Relaxed) == expected(index)));
        }
    }

    #[test]
    fn a_parked_caller_is_woken_by_the_last_worker() {
        let caller = std::thread::current().id();
        for _ in 0..50 {
            let done = AtomicUsize::new(0);
            for_each(8, |_| {
                if std::thread::current().id() != caller {
                    std::thread::sleep(10 * SPINNING);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 8);
        }
    }

    #[test]
    fn concurrent_and_nested_loops_run_every_iteration() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        for_each(8, |i| {
                            for_each(4, |j| {
                                sum.fetch_add(i * 4 + j, Ordering::Relaxed);
                            });
                        });
                        assert_eq!(sum.into_inner(), 496);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_propagates_and_the_pool_stays_usable() {
        let result = catch_unwind(|| for_each(16, |i| assert_ne!(i, 7, "seven")));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        for_each(16, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 120);
    }

    #[test]
    fn workers_report_their_share_of_a_loop() {
        struct Threads(Mutex<Vec<std::thread::ThreadId>>);
        impl TraceSink for Threads {
            fn scope(&self, category: &'static str, _: &str, start: Instant, end: Instant, _: u64) {
                assert!(category == "loop" && start <= end);
                lock(&self.0).push(std::thread::current().id());
            }
        }
        // A machine with one CPU has no workers; elsewhere they may be busy with loops of other
        // tests.
        let reported = Threads(Mutex::new(Vec::new()));
        let started = Instant::now();
        while cpus() > 1 && lock(&reported.0).is_empty() && started.elapsed().as_secs() < 60 {
            with_trace(&reported, || {
                for_each(16, |_| {
                    std::thread::sleep(std::time::Duration::from_micros(50))
                });
            });
        }
        let before = lock(&reported.0).clone();
        assert!(cpus() == 1 || !before.is_empty());
        assert!(!before.contains(&std::thread::current().id()));
        for_each(16, |_| {
            std::thread::sleep(std::time::Duration::from_micros(50))
        });
        assert_eq!(*lock(&reported.0), before);
    }

    #[test]
    fn with_a_limit_of_one_only_the_caller_runs_iterations() {
        let caller = std::thread::current().id();
        with_thread_limit(1, || {
            assert_eq!(threads(), 1);
            for_each(100, |_| assert_eq!(std::thread::current().id(), caller));
        });
    }
}
