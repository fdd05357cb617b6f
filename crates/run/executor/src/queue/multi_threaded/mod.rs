//! The queue of several threads, each with a deque of its own, that steal from each other.

mod inbox;
mod worker;

use self::inbox::Inbox;
use self::worker::Worker;
use super::blocking::Blocking;
use super::deque::{Owner, StealResult, Stealer, deque};
use super::event_count::EventCount;
use super::tally::{Tally, all_done};
use super::{Task, WorkQueue};
use crate::AsyncValue;
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Slots of a worker's deque, and of what other threads may add to it (facts 2.6).
const SLOTS: usize = 1024;

/// Rounds of stealing, shared among the workers, before a worker sleeps (facts 2.6).
const SPINS: usize = 5000;

/// Tasks that found no slot and run inside each other; one more waits in an inbox, however many
/// there are, so that the stack stays bounded.
const MAX_NESTED: usize = 16;

/// Workers take their own newest task first, then what other threads gave them, then the oldest
/// task of another worker. One idle worker at most looks around for a moment; the others sleep.
pub struct MultiThreaded {
    shared: Arc<Shared>,
    blocking: Blocking,
    blocking_threads: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    workers: Box<[WorkerSlot]>,
    /// Steps that reach every slot from any start: the numbers coprime to that of the workers.
    steps: Box<[usize]>,
    /// Sleeping workers.
    idle: EventCount,
    /// Whether a worker without work is looking around.
    spinning: AtomicBool,
    stopping: AtomicBool,
    /// Tasks that threads other than the workers added or ran; blocking ones are among them.
    external: Tally,
    /// Tasks in the middle of which a thread quiesces: they wait for the others.
    quiescing: AtomicU64,
    /// Threads that await values or quiesce.
    waiters: EventCount,
    /// The first panic of a task, raised again in the next thread that awaits or quiesces.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    panicked: AtomicBool,
}

/// What others see of a worker.
struct WorkerSlot {
    stealer: Stealer<Task, SLOTS>,
    inbox: Inbox,
    /// Tasks that the worker added and ran; it alone writes it.
    tally: Tally,
}

thread_local! {
    /// Of a worker's thread, the worker.
    static WORKER: OnceCell<Worker> = const { OnceCell::new() };
    /// State of the random numbers of this thread; 0 before the first.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// Tasks that run inside each other on this thread because they found no slot.
    static NESTED_TASKS: Cell<usize> = const { Cell::new(0) };
    /// All tasks that run on this thread, inside each other.
    static RUNNING_TASKS: Cell<u64> = const { Cell::new(0) };
    /// How many of them quiesce.
    static QUIESCING_TASKS: Cell<u64> = const { Cell::new(0) };
}

impl MultiThreaded {
    /// A queue of `threads` workers and at most `blocking_threads` threads for blocking tasks.
    /// Fails when the system refuses a thread.
    pub fn new(threads: usize, blocking_threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let (owners, workers): (Vec<_>, Vec<_>) = (0..threads).map(|_| slot()).unzip();
        let shared = Arc::new(Shared {
            workers: workers.into(),
            steps: (1..=threads)
                .filter(|&step| coprime(step, threads))
                .collect(),
            idle: EventCount::new(),
            spinning: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            external: Tally::default(),
            quiescing: AtomicU64::new(0),
            waiters: EventCount::new(),
            panic: Mutex::default(),
            panicked: AtomicBool::new(false),
        });
        let runner = shared.clone();
        let mut queue = Self {
            blocking: Blocking::new(blocking_threads, move |task| runner.run_external(task)),
            shared,
            blocking_threads,
            threads: Vec::with_capacity(threads),
        };
        for (index, owner) in owners.into_iter().enumerate() {
            let worker = Worker {
                shared: queue.shared.clone(),
                index,
                deque: owner,
            };
            let thread = std::thread::Builder::new()
                .name(format!("tenon-worker-{}", index + 1))
                .spawn(move || WORKER.with(|slot| slot.get_or_init(|| worker).work()))?;
            queue.threads.push(thread);
        }
        Ok(queue)
    }

    /// Calls `with` with the worker that the calling thread is, if it is one of this queue.
    fn with_worker<R>(&self, with: impl FnOnce(Option<&Worker>) -> R) -> R {
        WORKER.with(|slot| {
            let ours = |worker: &&Worker| Arc::ptr_eq(&worker.shared, &self.shared);
            with(slot.get().filter(ours))
        })
    }

    /// Whether no task is left, blocking ones included, but those `waiting` for the others.
    fn is_quiet(&self, waiting: &AtomicU64) -> bool {
        let workers = self.shared.workers.iter().map(|slot| &slot.tally);
        let shared = &self.shared;
        all_done(workers.chain([&shared.external]), waiting)
    }
}

impl WorkQueue for MultiThreaded {
    fn name(&self) -> String {
        let (threads, blocking) = (self.shared.workers.len(), self.blocking_threads);
        format!("Multi-threaded C++ work queue ({threads} threads, {blocking} blocking threads)")
    }

    fn add(&self, task: Task) {
        self.with_worker(|worker| match worker {
            Some(worker) => worker.add(task),
            None => self.shared.add_external(task),
        });
    }

    fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        self.with_worker(|worker| match worker {
            Some(worker) => worker.add_all(tasks),
            None => tasks.for_each(|task| self.shared.add_external(task)),
        });
    }

    fn add_blocking(&self, task: Task, may_queue: bool) -> bool {
        self.shared.external.add();
        let taken = self.blocking.add(task, may_queue);
        if !taken {
            self.shared.external.done();
            self.shared.waiters.notify_all();
        }
        taken
    }

    fn parallelism(&self) -> usize {
        self.shared.workers.len()
    }

    fn await_all(&self, values: &[AsyncValue]) {
        let missing = Arc::new(AtomicUsize::new(1));
        for value in values.iter().filter(|value| !value.is_available()) {
            missing.fetch_add(1, Ordering::Relaxed);
            let (missing, shared) = (missing.clone(), self.shared.clone());
            value.when_available(move |_| {
                if missing.fetch_sub(1, Ordering::Release) == 1 {
                    shared.waiters.notify_all();
                }
            });
        }
        missing.fetch_sub(1, Ordering::Release);
        let done = || missing.load(Ordering::Acquire) == 0;
        self.with_worker(|worker| match worker {
            // A worker goes on with other tasks: what it awaits may be in its own deque.
            Some(worker) => worker.work_until(done),
            None => self.shared.wait_until(done),
        });
        self.shared.raise();
    }

    fn quiesce(&self) {
        let shared = &self.shared;
        // The tasks that this thread is in the middle of cannot end before this does.
        let (running, before) = (
            RUNNING_TASKS.get(),
            QUIESCING_TASKS.replace(RUNNING_TASKS.get()),
        );
        let waiting = running - before;
        if waiting > 0 {
            shared.quiescing.fetch_add(waiting, Ordering::SeqCst);
            shared.waiters.notify_all();
        }
        let nobody = AtomicU64::new(0);
        let others = if running == 0 {
            &nobody
        } else {
            &shared.quiescing
        };
        loop {
            while let Some(task) = shared.steal() {
                shared.run_external(task);
            }
            let ticket = shared.waiters.prepare_wait();
            if self.is_quiet(others) {
                shared.waiters.cancel_wait(ticket);
                break;
            }
            if shared.has_work() {
                shared.waiters.cancel_wait(ticket);
            } else {
                shared.waiters.commit_wait(ticket);
            }
        }
        shared.quiescing.fetch_sub(waiting, Ordering::SeqCst);
        QUIESCING_TASKS.set(before);
        shared.raise();
    }
}

impl Drop for MultiThreaded {
    /// Runs what is left, then ends the threads. On one of its own workers, which the current task
    /// keeps busy, it cannot wait: the workers then end when they find no more work.
    fn drop(&mut self) {
        let own = self.with_worker(|worker| worker.is_some());
        if !own {
            let _panic = catch_unwind(AssertUnwindSafe(|| self.quiesce()));
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.idle.notify_all();
        if !own {
            for thread in self.threads.drain(..) {
                // A worker's thread catches the panics of its tasks.
                let _ended = thread.join();
            }
        }
    }
}

impl Shared {
    /// Gives the task to a random worker; where that one has too many, runs it here.
    fn add_external(&self, task: Task) {
        self.external.add();
        let slot = &self.workers[random() as usize % self.workers.len()];
        match slot.inbox.offer(task) {
            Ok(()) => {}
            Err(task) if NESTED_TASKS.get() == MAX_NESTED => slot.inbox.put(task),
            Err(task) => return nest(|| self.run_external(task)),
        }
        self.notify_work();
        if self.quiescing.load(Ordering::SeqCst) > 0 {
            self.waiters.notify_all();
        }
    }

    /// Wakes a worker unless one looks around already.
    fn notify_work(&self) {
        let spinning = || self.spinning.load(Ordering::Relaxed);
        self.idle.notify_one_unless(spinning);
    }

    /// Takes the oldest task of some worker; the order of looking is random.
    fn steal(&self) -> Option<Task> {
        let count = self.workers.len();
        let random = random() as usize;
        let mut victim = random % count;
        let step = self.steps[(random >> 32) % self.steps.len()];
        for _ in 0..count {
            let slot = &self.workers[victim];
            if let StealResult::Item(task) = slot.stealer.steal() {
                return Some(task);
            }
            if let Some(task) = slot.inbox.take() {
                return Some(task);
            }
            victim = (victim + step) % count;
        }
        None
    }

    /// Runs a task on a thread other than a worker's.
    fn run_external(&self, task: Task) {
        self.run(task, &self.external, Tally::done);
        self.waiters.notify_all();
    }

    fn has_work(&self) -> bool {
        (self.workers.iter()).any(|slot| !slot.stealer.is_empty() || !slot.inbox.is_empty())
    }

    /// Runs a task and counts it as done.
    fn run(&self, task: Task, tally: &Tally, done: fn(&Tally)) {
        RUNNING_TASKS.set(RUNNING_TASKS.get() + 1);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.run())) {
            lock(&self.panic).get_or_insert(panic);
            self.panicked.store(true, Ordering::SeqCst);
            self.waiters.notify_all();
        }
        RUNNING_TASKS.set(RUNNING_TASKS.get() - 1);
        done(tally);
    }

    /// Sleeps until `done`, or until a task has panicked: what it should have done never will be.
    fn wait_until(&self, done: impl Fn() -> bool) {
        let done = || done() || self.panicked.load(Ordering::SeqCst);
        while !done() {
            let ticket = self.waiters.prepare_wait();
            if done() {
                self.waiters.cancel_wait(ticket);
                return;
            }
            self.waiters.commit_wait(ticket);
        }
    }

    /// Raises the panic of a task again.
    fn raise(&self) {
        if self.panicked.swap(false, Ordering::SeqCst)
            && let Some(panic) = lock(&self.panic).take()
        {
            resume_unwind(panic);
        }
    }
}

/// A new worker's end of its deque, and the slot with the other one.
fn slot() -> (Owner<Task, SLOTS>, WorkerSlot) {
    let (owner, stealer) = deque();
    let slot = WorkerSlot {
        stealer,
        inbox: Inbox::default(),
        tally: Tally::default(),
    };
    (owner, slot)
}

/// Runs a task inside another one.
fn nest(run: impl FnOnce()) {
    NESTED_TASKS.set(NESTED_TASKS.get() + 1);
    run();
    NESTED_TASKS.set(NESTED_TASKS.get() - 1);
}

/// Locks even if a holder panicked: what is locked is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A random number of the calling thread (xorshift, Marsaglia 2003).
fn random() -> u64 {
    RANDOM.with(|state| {
        let mut bits = state.get();
        if bits == 0 {
            // The address of the thread's own cell differs from that of the others.
            bits =
                (std::ptr::from_ref(state).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        state.set(bits);
        bits
    })
}

fn coprime(a: usize, b: usize) -> bool {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests;
