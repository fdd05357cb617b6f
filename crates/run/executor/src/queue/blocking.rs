//! Threads for tasks that block: reading a file, waiting for a device.
//!
//! Up to M threads take tasks from one first-in, first-out queue of 1024 (facts 2.6 give each
//! thread a queue of its own; one queue keeps the order among all threads). A task that must not
//! queue behind others gets a thread at once: an idle one or a new one, which ends after a second
//! without work. Threads start when they are first needed.

use super::Task;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks that may wait.
const PENDING: usize = 1024;

/// How long a thread made for a task that must not queue waits for another one.
const IDLE: Duration = Duration::from_secs(1);

/// The queue and its threads.
pub struct Blocking {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when a task waits for one of the M threads.
    queued: Condvar,
    /// Signalled when a task waits for a thread that waits for it alone.
    urgent: Condvar,
    /// Runs a task; does not unwind.
    run: Box<dyn Fn(Task) + Send + Sync>,
    limit: usize,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Task>,
    /// Tasks for which an idle dynamic thread is reserved.
    handed: VecDeque<Task>,
    threads: usize,
    /// Of the M threads, those without a task.
    idle: usize,
    /// Dynamic threads without a task.
    idle_dynamic: usize,
    stopping: bool,
}

impl Blocking {
    /// A queue of at most `limit` threads beside the dynamic ones. `run` runs a task and does not
    /// unwind.
    pub fn new(limit: usize, run: impl Fn(Task) + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                queued: Condvar::new(),
                urgent: Condvar::new(),
                run: Box::new(run),
                limit,
            }),
        }
    }

    /// Runs `task` on one of the threads; `may_queue` says that it can wait until one is free.
    /// Answers whether it was taken: `false` when too many wait, or no thread can be had.
    pub fn add(&self, task: Task, may_queue: bool) -> bool {
        if may_queue {
            self.queue(task)
        } else {
            self.run_at_once(task)
        }
    }

    fn queue(&self, task: Task) -> bool {
        let mut state = self.shared.lock();
        if state.pending.len() >= PENDING {
            return false;
        }
        if state.idle <= state.pending.len() && state.threads < self.shared.limit {
            let shared = self.shared.clone();
            let thread = format!("tenon-blocking-{}", state.threads + 1);
            if start(thread, move || shared.serve()) {
                state.threads += 1;
                state.idle += 1;
            } else if state.threads == 0 {
                return false;
            }
        }
        state.pending.push_back(task);
        self.shared.queued.notify_one();
        true
    }

    fn run_at_once(&self, task: Task) -> bool {
        let mut state = self.shared.lock();
        if state.handed.len() < state.idle_dynamic {
            state.handed.push_back(task);
            self.shared.urgent.notify_one();
            return true;
        }
        let shared = self.shared.clone();
        start("tenon-dynamic".into(), move || shared.serve_dynamic(task))
    }
}

impl Shared {
    /// A thread of the M.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.pending.pop_front() {
                state.idle -= 1;
                drop(state);
                (self.run)(task);
                state = self.lock();
                state.idle += 1;
            } else if state.stopping {
                return;
            } else {
                state = self
                    .queued
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// A thread started for one task, which stays for a moment in case another one comes.
    fn serve_dynamic(&self, first: Task) {
        (self.run)(first);
        let mut state = self.lock();
        state.idle_dynamic += 1;
        loop {
            if let Some(task) = state.handed.pop_front() {
                state.idle_dynamic -= 1;
                drop(state);
                (self.run)(task);
                state = self.lock();
                state.idle_dynamic += 1;
                continue;
            }
            let woken = self.urgent.wait_timeout(state, IDLE);
            let (now, waited) = woken.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if state.handed.is_empty() && (waited.timed_out() || state.stopping) {
                state.idle_dynamic -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Blocking {
    /// The threads end when they have no task left.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.queued.notify_all();
        self.shared.urgent.notify_all();
    }
}

/// Starts a thread; answers whether the system gave one.
fn start(name: String, work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name).spawn(work).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, mpsc};
    use std::thread::ThreadId;

    fn threads(limit: usize) -> Blocking {
        Blocking::new(limit, Task::run)
    }

    #[test]
    fn one_thread_runs_them_in_order_and_too_many_are_refused() {
        let queue = threads(1);
        let (gate, numbers) = (Arc::new(Barrier::new(2)), mpsc::channel());
        let started = gate.clone();
        assert!(queue.add(
            Task::new(move || {
                started.wait();
                started.wait();
            }),
            true
        ));
        gate.wait();
        for number in 0..PENDING {
            let sender = numbers.0.clone();
            assert!(queue.add(Task::new(move || sender.send(number).unwrap()), true));
        }
        assert!(!queue.add(Task::new(|| unreachable!("it was refused")), true));
        gate.wait();
        let order: Vec<usize> = numbers.1.iter().take(PENDING).collect();
        assert!(order.is_sorted());
    }

    #[test]
    fn as_many_block_at_a_time_as_there_are_threads() {
        let (queue, gate) = (threads(8), Arc::new(Barrier::new(9)));
        for _ in 0..8 {
            let gate = gate.clone();
            assert!(queue.add(Task::new(move || _ = gate.wait()), true));
        }
        gate.wait();
    }

    #[test]
    fn a_task_that_must_not_queue_gets_a_thread_at_once() {
        let (queue, gate) = (threads(1), Arc::new(Barrier::new(5)));
        let (sender, receiver) = mpsc::channel();
        let wait = || {
            let (gate, sender) = (gate.clone(), sender.clone());
            Task::new(move || {
                gate.wait();
                sender.send(std::thread::current().id()).unwrap();
            })
        };
        assert!(queue.add(wait(), true));
        (0..3).for_each(|_| assert!(queue.add(wait(), false)));
        gate.wait();
        let distinct: HashSet<ThreadId> = receiver.iter().take(4).collect();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn an_idle_dynamic_thread_is_used_again() {
        let queue = threads(1);
        let (sender, receiver) = mpsc::channel();
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let sender = sender.clone();
            let task = move || sender.send(std::thread::current().id()).unwrap();
            assert!(queue.add(Task::new(task), false));
            seen.insert(receiver.recv().unwrap());
            while queue.shared.lock().idle_dynamic == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(seen.len(), 1);
    }
}
