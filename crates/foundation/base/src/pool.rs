//! The one thread pool of the process.
//!
//! An execution drives its own function and offers loops to the pool: [`for_each`] runs the
//! iterations of a loop on the caller and on whichever workers are free. A lone execution so uses
//! all CPUs; when several offer loops at once, one has the workers and the others run theirs
//! alone, which shares the CPUs between them. A loop inside a loop runs on its own thread.
//!
//! Inside [`stop::with_token`] each iteration begins with a checkpoint, which ends the loop when the work
//! was cancelled or is past its deadline.
//!
//! Inside [`with_trace`] workers tell a sink what they did.
//!
//! Workers spin for a moment after each loop, since the next one of a model follows within
//! microseconds, then sleep. Offering a loop allocates nothing.

use crate::stop::{self, Watched};
use crate::trace::TraceSink;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::Instant;

/// Spins of an idle worker before it sleeps: about half a millisecond where a pause takes 28 ns (Zen 5),
/// so that it is still awake after the parts of a model that run on one thread.
const IDLE_SPINS: u32 = 20_000;

/// `OPEN` bit of [`Pool::gate`]; the bits below count the workers inside the loop.
const OPEN: usize = 1 << (usize::BITS - 1);

/// The loop on offer. Only valid between opening and closing of the gate.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    body: *const (),
    count: usize,
    /// Workers that may join: the caller's thread limit less itself.
    seats: usize,
    trace: Option<Told>,
    /// What may stop the caller's work; valid as long as the body.
    watched: Option<Watched>,
}

/// A sink that hears what workers do.
#[derive(Clone, Copy)]
struct Told {
    scope: unsafe fn(*const (), Instant, Instant),
    sink: *const (),
}

struct Pool {
    /// Held by the thread whose loop is on offer.
    offering: AtomicBool,
    /// Counts loops offered, so that a worker knows a new one from the last.
    generation: AtomicUsize,
    /// [`OPEN`] while workers may join, plus the number inside.
    gate: AtomicUsize,
    /// Next iteration to take.
    next: AtomicUsize,
    job: std::cell::UnsafeCell<Job>,
    panicked: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    sleepers: AtomicUsize,
    workers: OnceLock<Vec<Worker>>,
}

struct Worker {
    thread: Thread,
    asleep: &'static AtomicBool,
}

// SAFETY: `job` is written only by the holder of `offering` while the gate is shut and no worker is
// inside, and read only by workers that passed the gate, which happens after (release/acquire).
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    offering: AtomicBool::new(false),
    generation: AtomicUsize::new(0),
    gate: AtomicUsize::new(0),
    next: AtomicUsize::new(0),
    job: std::cell::UnsafeCell::new(Job {
        call: call_nothing,
        body: std::ptr::null(),
        count: 0,
        seats: 0,
        trace: None,
        watched: None,
    }),
    panicked: Mutex::new(None),
    sleepers: AtomicUsize::new(0),
    workers: OnceLock::new(),
};

thread_local! {
    static INSIDE_LOOP: Cell<bool> = const { Cell::new(false) };
    static THREAD_LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
    static TRACE: Cell<Option<Told>> = const { Cell::new(None) };
}

/// # Safety
/// None needed: it does nothing.
unsafe fn call_nothing(_: *const (), _: usize) {}

/// # Safety
/// `body` must point to a live `F`.
unsafe fn call_body<F: Fn(usize) + Sync>(body: *const (), index: usize) {
    // SAFETY: the caller of this function vouches for the pointer.
    unsafe { (*body.cast::<F>())(index) }
}

/// # Safety
/// `sink` must point to a live `S`.
unsafe fn call_scope<S: TraceSink>(sink: *const (), start: Instant, end: Instant) {
    // SAFETY: the caller of this function vouches for the pointer.
    unsafe { (*sink.cast::<S>()).scope("loop", "", start, end, 0) }
}

/// Number of threads a loop of the calling thread can use, the caller included: the machine's
/// CPUs, or less inside [`with_thread_limit`].
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

/// Runs `work` with at most `limit` threads for each loop that it offers from this thread.
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

/// Runs `work`; `sink` hears a scope of category `loop`, without a name, for every loop that this
/// thread offers meanwhile and each worker that takes part in it, from that worker's thread. What
/// the caller itself does is its own to tell.
pub fn with_trace<S: TraceSink, R>(sink: &S, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Told>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRACE.set(self.0);
        }
    }
    let told = Told {
        scope: call_scope::<S>,
        sink: std::ptr::from_ref(sink).cast(),
    };
    let _restore = Restore(TRACE.replace(Some(told)));
    work()
}

/// Calls `body(0)` to `body(count - 1)`, each once, in any order, on the calling thread and on free
/// workers; returns when all calls have ended. A panic in a call is raised again here. Inside
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
    let seats = threads().min(count).saturating_sub(1);
    stop::pace_anew();
    if seats == 0 || POOL.offering.swap(true, Ordering::Acquire) {
        for index in 0..count {
            stop::checkpoint();
            body(index);
        }
        return;
    }
    POOL.offer(Job {
        call: call_body::<F>,
        body: std::ptr::from_ref(&body).cast(),
        count,
        seats,
        trace: TRACE.get(),
        watched: stop::watched(),
    });
}

impl Pool {
    /// Runs `job` to its end. The caller holds `offering`, which is given back here.
    fn offer(&'static self, job: Job) {
        let workers = self.workers.get_or_init(|| start_workers(cpus() - 1));
        // SAFETY: `offering` is held, the gate is shut and empty since the last loop ended.
        unsafe { *self.job.get() = job };
        self.next.store(0, Ordering::Relaxed);
        self.gate.store(OPEN, Ordering::Release);
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            for worker in workers
                .iter()
                .filter(|worker| worker.asleep.load(Ordering::SeqCst))
            {
                worker.thread.unpark();
            }
        }
        self.take_iterations(&job);
        // Shut the gate, then wait for the workers inside; later ones find it shut.
        let mut spins = 0u32;
        self.gate.fetch_and(!OPEN, Ordering::AcqRel);
        while self.gate.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < IDLE_SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let panicked = lock(&self.panicked).take();
        self.offering.store(false, Ordering::Release);
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    /// Answers whether there were any.
    fn take_iterations(&self, job: &Job) -> bool {
        let outer = INSIDE_LOOP.replace(true);
        let mut some = false;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= job.count {
                break;
            }
            some = true;
            let call = AssertUnwindSafe(|| {
                stop::checkpoint();
                // SAFETY: the body lives until `offer` returns, which waits for every thread here.
                unsafe { (job.call)(job.body, index) }
            });
            if let Err(panic) = catch_unwind(call) {
                self.next.store(job.count, Ordering::Relaxed);
                lock(&self.panicked).get_or_insert(panic);
            }
        }
        INSIDE_LOOP.set(outer);
        some
    }

    /// What a worker does of a loop that it has entered.
    fn join(&self, job: &Job) {
        let take = || stop::with_watched(job.watched, || self.take_iterations(job));
        let Some(Told { scope, sink }) = job.trace else {
            take();
            return;
        };
        let start = Instant::now();
        if take() {
            // SAFETY: the sink lives until `with_trace` returns, which is after `offer` has, which
            // waits for every thread here.
            let tell = AssertUnwindSafe(|| unsafe { scope(sink, start, Instant::now()) });
            // A sink that panics loses a scope, nothing else.
            let _ = catch_unwind(tell);
        }
    }

    /// Passes the gate if it is open and has a seat left.
    fn enter(&self) -> Option<Job> {
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
        // SAFETY: the gate was open when we entered, so the job stays until we leave.
        let job = unsafe { *self.job.get() };
        // Seats are counted by those inside; a worker too many leaves at once.
        if (gate & !OPEN) >= job.seats {
            self.leave();
            return None;
        }
        Some(job)
    }

    fn leave(&self) {
        self.gate.fetch_sub(1, Ordering::AcqRel);
    }

    fn work(&'static self, asleep: &'static AtomicBool) -> ! {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.generation.load(Ordering::SeqCst) == seen {
                spins += 1;
                if spins < IDLE_SPINS {
                    std::hint::spin_loop();
                    continue;
                }
                asleep.store(true, Ordering::SeqCst);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while self.generation.load(Ordering::SeqCst) == seen {
                    std::thread::park();
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                asleep.store(false, Ordering::SeqCst);
            }
            seen = self.generation.load(Ordering::SeqCst);
            if let Some(job) = self.enter() {
                self.join(&job);
                self.leave();
            }
        }
    }
}

/// Locks even if a holder panicked: the data is a plain `Option`.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts up to `count` workers; fewer when the system refuses more threads.
fn start_workers(count: usize) -> Vec<Worker> {
    (0..count)
        .map_while(|index| {
            let asleep: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let thread = std::thread::Builder::new()
                .name(format!("tenon-{}", index + 1))
                .spawn(move || POOL.work(asleep))
                .ok()?;
            Some(Worker {
                thread: thread.thread().clone(),
                asleep,
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
    fn loops_from_many_threads_and_inside_each_other() {
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
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let result = catch_unwind(|| for_each(16, |i| assert_ne!(i, 7, "seven")));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        for_each(16, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 120);
    }

    #[test]
    fn workers_tell_what_they_do() {
        struct Threads(Mutex<Vec<std::thread::ThreadId>>);
        impl TraceSink for Threads {
            fn scope(&self, category: &'static str, _: &str, start: Instant, end: Instant, _: u64) {
                assert!(category == "loop" && start <= end);
                lock(&self.0).push(std::thread::current().id());
            }
        }
        // Workers of a machine with one CPU are none; elsewhere they are busy with loops of other
        // tests at times.
        let heard = Threads(Mutex::new(Vec::new()));
        let started = Instant::now();
        while cpus() > 1 && lock(&heard.0).is_empty() && started.elapsed().as_secs() < 60 {
            with_trace(&heard, || {
                for_each(16, |_| {
                    std::thread::sleep(std::time::Duration::from_micros(50))
                });
            });
        }
        let before = lock(&heard.0).clone();
        assert!(cpus() == 1 || !before.is_empty());
        assert!(!before.contains(&std::thread::current().id()));
        for_each(16, |_| {
            std::thread::sleep(std::time::Duration::from_micros(50))
        });
        assert_eq!(*lock(&heard.0), before);
    }

    #[test]
    fn a_limit_of_one_stays_on_the_caller() {
        let caller = std::thread::current().id();
        with_thread_limit(1, || {
            assert_eq!(threads(), 1);
            for_each(100, |_| assert_eq!(std::thread::current().id(), caller));
        });
    }
}
