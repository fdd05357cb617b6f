//! A thread pool for blocking tasks, such as reading a file or waiting for a device.
//!
//! Up to M threads take tasks from one FIFO queue of 1024 (bef 2.6; TFRT has one queue per thread, a
//! common queue keeps the order among all threads). A task that must not wait for others runs
//! immediately on a dynamic thread: an idle or a new one, which ends after a second without work.
//! Threads start on demand.

use super::Task;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The capacity of the queue.
const PENDING: usize = 1024;

/// The time after which an idle dynamic thread ends.
const IDLE: Duration = Duration::from_secs(1);

/// The queue and its threads.
pub struct Blocking {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when a task is queued for the M threads.
    queued: Condvar,
    /// Signalled when a task is reserved for an idle dynamic thread.
    urgent: Condvar,
    /// Runs a task; must not unwind.
    run: Box<dyn Fn(Task) + Send + Sync>,
    limit: usize,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Task>,
    /// Tasks for which an idle dynamic thread is reserved.
    handed: VecDeque<Task>,
    threads: usize,
    /// The number of idle threads among the M.
    idle: usize,
    /// The number of idle dynamic threads.
    idle_dynamic: usize,
    stopping: bool,
}

impl Blocking {
    /// A pool of at most `limit` threads, not counting dynamic ones. `run` runs a task and must not
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

    /// Runs `task` on one of the threads; with `may_queue` it may wait until one is free. Returns
    /// whether the task was accepted: `false` when the queue is full or no thread can be started.
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
    /// The main function of one of the M threads.
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

    /// The main function of a dynamic thread: runs `first`, then waits [`IDLE`] for further tasks.
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
    /// The threads end when the queue is empty.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.queued.notify_all();
        self.shared.urgent.notify_all();
    }
}

/// Starts a thread; returns whether the system could create it.
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
    fn one_thread_runs_tasks_in_order_and_a_full_queue_rejects_tasks() {
        let queue = threads(1);
        let (gate, channel) = (Arc::new(Barrier::new(2)), mpsc::channel());
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
            let sender = channel.0.clone();
            assert!(queue.add(Task::new(move || sender.send(number).unwrap()), true));
        }
        assert!(!queue.add(Task::new(|| unreachable!("it was rejected")), true));
        gate.wait();
        let order: Vec<usize> = channel.1.iter().take(PENDING).collect();
        assert!(order.is_sorted());
    }

    #[test]
    fn all_threads_can_block_concurrently() {
        let (queue, gate) = (threads(8), Arc::new(Barrier::new(9)));
        for _ in 0..8 {
            let gate = gate.clone();
            assert!(queue.add(Task::new(move || _ = gate.wait()), true));
        }
        gate.wait();
    }

    #[test]
    fn a_task_that_must_not_queue_runs_immediately() {
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
    fn an_idle_dynamic_thread_is_reused() {
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
