//! A work-stealing thread pool (Blumofe and Leiserson 1999; structure of Eigen's `ThreadPool`): one
//! deque per worker.

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

/// The capacity of a worker's deque, and of its inbox (bef 2.6).
const SLOTS: usize = 1024;

/// Rounds of stealing before a worker sleeps, divided among the workers (bef 2.6).
const SPINS: usize = 5000;

/// The nesting limit of tasks that run inside the task that adds them, because the deque is full.
/// Beyond it, tasks go to an inbox without limit, so that the stack stays bounded.
const MAX_NESTED: usize = 16;

/// A multi-threaded work queue. A worker takes the newest task of its deque first (LIFO), then
/// tasks of its inbox, then steals the oldest task of another worker (FIFO). At most one idle
/// worker spins in search of work; the others sleep.
pub struct MultiThreaded {
    shared: Arc<Shared>,
    blocking: Blocking,
    blocking_threads: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    workers: Box<[WorkerSlot]>,
    /// Strides that visit every worker from any start: the integers coprime to the number of
    /// workers.
    steps: Box<[usize]>,
    /// Sleeping workers.
    idle: EventCount,
    /// Whether an idle worker is searching for work.
    spinning: AtomicBool,
    stopping: AtomicBool,
    /// Tasks added or run by threads other than the workers, blocking tasks included.
    external: Tally,
    /// The number of running tasks that wait in `quiesce` for the others.
    quiescing: AtomicU64,
    /// Threads that await values or quiesce.
    waiters: EventCount,
    /// The first panic of a task, raised again in the next thread that awaits or quiesces.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    panicked: AtomicBool,
}

/// The part of a worker that other threads access.
struct WorkerSlot {
    stealer: Stealer<Task, SLOTS>,
    inbox: Inbox,
    /// Tasks added and run by the worker; only the worker writes it.
    tally: Tally,
}

thread_local! {
    /// The worker of this thread, if it is a worker's thread.
    static WORKER: OnceCell<Worker> = const { OnceCell::new() };
    /// The state of this thread's random number generator; 0 before its first use.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// Nested tasks of this thread that run because a deque was full.
    static NESTED_TASKS: Cell<usize> = const { Cell::new(0) };
    /// All nested tasks of this thread.
    static RUNNING_TASKS: Cell<u64> = const { Cell::new(0) };
    /// The number of these that wait in `quiesce`.
    static QUIESCING_TASKS: Cell<u64> = const { Cell::new(0) };
}

impl MultiThreaded {
    /// A queue of `threads` workers and at most `blocking_threads` threads for blocking tasks.
    /// Fails when a thread cannot be started.
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

    /// Calls `with` with the worker of the calling thread, if it is a worker of this queue.
    fn with_worker<R>(&self, with: impl FnOnce(Option<&Worker>) -> R) -> R {
        WORKER.with(|slot| {
            let ours = |worker: &&Worker| Arc::ptr_eq(&worker.shared, &self.shared);
            with(slot.get().filter(ours))
        })
    }

    /// Whether no task is left, blocking ones included, except those counted by `waiting`.
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
            // A worker runs other tasks meanwhile: the tasks that it waits for may be in its deque.
            Some(worker) => worker.work_until(done),
            None => self.shared.wait_until(done),
        });
        self.shared.raise();
    }

    fn quiesce(&self) {
        let shared = &self.shared;
        // The tasks that are running on this thread cannot end before this call returns.
        let (running, before) = (
            RUNNING_TASKS.get(),
            QUIESCING_TASKS.replace(RUNNING_TASKS.get()),
        );
        let waiting = running - before;
        if waiting > 0 {
            shared.quiescing.fetch_add(waiting, Ordering::SeqCst);
            shared.waiters.notify_all();
        }
        let none = AtomicU64::new(0);
        let others = if running == 0 {
            &none
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
    /// Runs the remaining tasks, then ends the threads. On a thread of this queue, which runs the
    /// current task, it cannot wait: the workers then end when they find no more work.
    fn drop(&mut self) {
        let is_worker = self.with_worker(|worker| worker.is_some());
        if !is_worker {
            let _panic = catch_unwind(AssertUnwindSafe(|| self.quiesce()));
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.idle.notify_all();
        if !is_worker {
            for thread in self.threads.drain(..) {
                // A worker's thread catches the panics of its tasks.
                let _ended = thread.join();
            }
        }
    }
}

impl Shared {
    /// Adds the task to the inbox of a random worker; runs it on this thread if the inbox is full.
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

    /// Wakes a worker unless one is already searching for work.
    fn notify_work(&self) {
        let spinning = || self.spinning.load(Ordering::Relaxed);
        self.idle.notify_one_unless(spinning);
    }

    /// Steals the oldest task of another worker, in random order of victims.
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

    /// Runs a task on a thread that is not a worker.
    fn run_external(&self, task: Task) {
        self.run(task, &self.external, Tally::done);
        self.waiters.notify_all();
    }

    fn has_work(&self) -> bool {
        (self.workers.iter()).any(|slot| !slot.stealer.is_empty() || !slot.inbox.is_empty())
    }

    /// Runs a task and counts it.
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

    /// Sleeps until `done`, or until a task has panicked, after which `done` might never hold.
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

    /// Resumes the panic of a task on this thread.
    fn raise(&self) {
        if self.panicked.swap(false, Ordering::SeqCst)
            && let Some(panic) = lock(&self.panic).take()
        {
            resume_unwind(panic);
        }
    }
}

/// The owner's end of a new worker's deque, and the worker's slot with the stealer's end.
fn slot() -> (Owner<Task, SLOTS>, WorkerSlot) {
    let (owner, stealer) = deque();
    let slot = WorkerSlot {
        stealer,
        inbox: Inbox::default(),
        tally: Tally::default(),
    };
    (owner, slot)
}

/// Runs a task nested in another one.
fn nest(run: impl FnOnce()) {
    NESTED_TASKS.set(NESTED_TASKS.get() + 1);
    run();
    NESTED_TASKS.set(NESTED_TASKS.get() - 1);
}

/// Locks, ignoring poison: no holder leaves inconsistent data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A random integer of the calling thread (xorshift64, Marsaglia 2003).
fn random() -> u64 {
    RANDOM.with(|state| {
        let mut bits = state.get();
        if bits == 0 {
            // The seed: the address of the thread-local state differs between threads.
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
