//! Keeps a thread that serves connections awake for a moment after each request: to wake one that sleeps takes tens of
//! microseconds, in which the next request may have come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether a thread is kept awake, and until when.
#[derive(Debug)]
pub struct BusyPoll {
    time: Duration,
    origin: Instant,
    /// Nanoseconds after `origin`.
    until: AtomicU64,
    is_polling: AtomicBool,
}

impl BusyPoll {
    /// After each request for this time; zero lets threads sleep at once.
    pub fn new(time: Duration) -> Arc<Self> {
        Arc::new(Self {
            time,
            origin: Instant::now(),
            until: AtomicU64::new(0),
            is_polling: AtomicBool::new(false),
        })
    }

    /// Keeps this thread, one of the runtime, awake while `is_idle`: executions need the CPU.
    pub fn stay_awake(self: &Arc<Self>, is_idle: impl Fn() -> bool + Send + 'static) {
        if self.time.is_zero() {
            return;
        }
        let until = self.now().saturating_add(nanos(self.time));
        self.until.fetch_max(until, Ordering::Relaxed);
        if !self.is_polling.swap(true, Ordering::Relaxed) {
            let this = self.clone();
            tokio::spawn(async move {
                while is_idle() && this.now() < this.until.load(Ordering::Relaxed) {
                    // The runtime polls the sockets before it continues this task.
                    tokio::task::yield_now().await;
                }
                this.is_polling.store(false, Ordering::Relaxed);
            });
        }
    }

    fn now(&self) -> u64 {
        nanos(self.origin.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).build().unwrap()
    }

    #[test]
    fn one_task_polls_at_a_time_and_ends() {
        let runtime = runtime();
        let poll = BusyPoll::new(Duration::from_millis(5));
        runtime.block_on(async {
            for _ in 0..100 {
                poll.stay_awake(|| true);
            }
        });
        assert!(runtime.metrics().num_alive_tasks() <= 1);
        while runtime.metrics().num_alive_tasks() > 0 {
            std::thread::yield_now();
        }
        assert!(poll.origin.elapsed() >= poll.time);
        assert!(!poll.is_polling.load(Ordering::Relaxed));
    }

    #[test]
    fn without_a_time_nothing_is_started() {
        // Outside of a runtime a task cannot be started.
        BusyPoll::new(Duration::ZERO).stay_awake(|| true);
    }

    #[test]
    fn executions_end_it() {
        let runtime = runtime();
        let poll = BusyPoll::new(Duration::from_secs(1000));
        runtime.block_on(async { poll.stay_awake(|| false) });
        while runtime.metrics().num_alive_tasks() > 0 {
            std::thread::yield_now();
        }
    }
}
