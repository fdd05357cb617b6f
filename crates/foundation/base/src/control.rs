//! The handle of a long operation: reports progress, receives cancellation and a deadline, polls the caller.

use crate::stop::{self, StopToken};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The least time between two polls of a [`Control`].
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of one step of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Name of the step ("read weights", "place").
    pub step: &'a str,
    /// Units done so far.
    pub done: u64,
    /// Total units; 0 when unknown.
    pub total: u64,
}

type Listener = dyn Fn(Progress<'_>) + Send + Sync;

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    deadline: Option<Instant>,
    listener: Option<Box<Listener>>,
    poll: Option<Poll>,
    /// Whether this handle or one of its parents has a poll.
    is_polled: bool,
    /// The handle whose cancellation and listener this one inherits.
    parent: Option<Control>,
}

/// A function that the thread which made the handle calls during the work.
struct Poll {
    is_stopped: Box<dyn Fn() -> bool + Send + Sync>,
    thread: ThreadId,
    start: Instant,
    /// The time of the next call, in nanoseconds from the start.
    next: AtomicU64,
}

impl Poll {
    fn new(is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_stopped: Box::new(is_stopped),
            thread: std::thread::current().id(),
            start: Instant::now(),
            next: AtomicU64::new(POLL_INTERVAL.as_nanos() as u64),
        }
    }

    /// Calls the function if it is due on this thread.
    fn call(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        if std::thread::current().id() != self.thread {
            return false;
        }
        let now = || self.start.elapsed().as_nanos() as u64;
        if now() < next {
            return false;
        }
        let is_stopped = (self.is_stopped)();
        let next = now() + POLL_INTERVAL.as_nanos() as u64;
        self.next.store(next, Ordering::Relaxed);
        is_stopped
    }
}

/// Progress, cancellation and deadline of one long operation. Clones share one state.
///
/// ```
/// use tenon_base::{Control, ErrorKind};
/// let control = Control::new();
/// control.check().unwrap();
/// control.clone().cancel();
/// assert_eq!(control.check().unwrap_err().kind(), ErrorKind::Cancelled);
/// ```
#[derive(Clone, Default)]
pub struct Control {
    shared: Arc<Inner>,
    /// Whether progress is not reported to the listener.
    silent: bool,
}

impl Control {
    /// A handle without deadline or progress listener.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(inner: Inner) -> Self {
        Self {
            shared: Arc::new(inner),
            silent: false,
        }
    }

    /// A handle whose work must end by `deadline`.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self::of(Inner {
            deadline: Some(deadline),
            ..Inner::default()
        })
    }

    /// A handle that reports each step to `listener`, which may be called from several threads.
    pub fn with_listener(listener: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self::of(Inner {
            listener: Some(Box::new(listener)),
            ..Inner::default()
        })
    }

    /// A handle whose work must end by `deadline` and that reports each step to `listener`.
    pub fn with_deadline_and_listener(
        deadline: Instant,
        listener: impl Fn(Progress<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::of(Inner {
            deadline: Some(deadline),
            listener: Some(Box::new(listener)),
            ..Inner::default()
        })
    }

    /// A handle that shares cancellation and deadline but reports no progress, for a part of the
    /// work that is too small to report.
    pub fn without_listener(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            silent: true,
        }
    }

    /// A handle for a part of the work: it has the same deadline and listener and is cancelled with
    /// this one, but cancelling it leaves this one running.
    pub fn child(&self) -> Self {
        Self::of(Inner {
            deadline: self.shared.deadline,
            is_polled: self.shared.is_polled,
            parent: Some(self.clone()),
            ..Inner::default()
        })
    }

    /// A handle for the same work that also calls `is_stopped`, on this thread alone, at checks and checkpoints at
    /// least 50 ms apart; `true` cancels the work. For callers that receive their cancellation on the thread that
    /// works, such as an interpreter its signals.
    ///
    /// ```
    /// use tenon_base::{Control, ErrorKind};
    /// let control = Control::new().polled(|| true);
    /// control.check().unwrap();
    /// std::thread::sleep(std::time::Duration::from_millis(51));
    /// assert_eq!(control.check().unwrap_err().kind(), ErrorKind::Cancelled);
    /// ```
    pub fn polled(&self, is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self::of(Inner {
            deadline: self.shared.deadline,
            poll: Some(Poll::new(is_stopped)),
            is_polled: true,
            parent: Some(self.clone()),
            ..Inner::default()
        })
    }

    /// Requests cancellation: the work stops at its next check.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let is_cancelled = |shared: &Inner| shared.cancelled.load(Ordering::Relaxed);
        is_cancelled(&self.shared)
            || (self.shared.parent.as_ref()).is_some_and(|parent| parent.is_cancelled())
    }

    /// Whether the work has a deadline.
    #[inline]
    pub fn has_deadline(&self) -> bool {
        self.shared.deadline.is_some()
    }

    /// Fails with `Cancelled` after [`cancel`](Self::cancel), with `DeadlineExceeded` past the
    /// deadline.
    pub fn check(&self) -> Result<()> {
        self.poll();
        if self.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the work was cancelled"));
        }
        match self.shared.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::new(
                ErrorKind::DeadlineExceeded,
                "the work did not end by its deadline",
            )),
            _ => Ok(()),
        }
    }

    /// Calls the polls of this handle and its parents that are due on this thread.
    fn poll(&self) {
        let mut source = Some(self);
        while let Some(control) = source.filter(|control| control.shared.is_polled) {
            if (control.shared.poll.as_ref()).is_some_and(|poll| poll.call()) {
                control.cancel();
            }
            source = control.shared.parent.as_ref();
        }
    }

    /// Runs `work`, which stops at its next [`stop::checkpoint`] after cancellation or the
    /// deadline: loops of the thread pool have one before each iteration. Fails if the work ends
    /// after the deadline.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        stop::with_token(self, work)
    }

    /// Reports progress, then calls [`check`](Self::check).
    pub fn progress(&self, step: &str, done: u64, total: u64) -> Result<()> {
        let mut source = Some(self);
        while let Some(control) = source.filter(|control| !control.silent) {
            if let Some(listener) = &control.shared.listener {
                listener(Progress { step, done, total });
            }
            source = control.shared.parent.as_ref();
        }
        self.check()
    }
}

impl StopToken for Control {
    fn is_cancelled(&self) -> bool {
        Control::is_cancelled(self)
    }

    fn is_timed(&self) -> bool {
        self.has_deadline() || self.shared.is_polled
    }

    fn check(&self) -> Result<()> {
        Control::check(self)
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    #[test]
    fn a_child_is_cancelled_with_its_parent_but_not_the_reverse() {
        let steps = Arc::new(AtomicU64::new(0));
        let counter = steps.clone();
        let parent = Control::with_listener(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let (first, second) = (parent.child(), parent.child());
        first.cancel();
        assert!(first.is_cancelled() && !parent.is_cancelled() && !second.is_cancelled());
        second.progress("step", 1, 1).unwrap();
        second.without_listener().progress("step", 1, 1).unwrap();
        assert_eq!(steps.load(Ordering::Relaxed), 1);
        parent.cancel();
        assert_eq!(second.check().unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_poll_stops_a_loop_on_its_thread_alone() {
        let (calls, stopped) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counter, flag) = (calls.clone(), stopped.clone());
        let outer = Control::new();
        let control = outer.polled(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            flag.load(Ordering::Relaxed)
        });
        // A check of another thread does not poll.
        std::thread::sleep(POLL_INTERVAL);
        std::thread::scope(|scope| scope.spawn(|| control.check().unwrap()).join().unwrap());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        let start = Instant::now();
        let done = control.child().run(|| {
            crate::pool::for_each(2000, |_| {
                if start.elapsed() > 2 * POLL_INTERVAL {
                    stopped.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            });
            Ok(())
        });
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!((2..8).contains(&calls.load(Ordering::Relaxed)));
        assert!(!outer.is_cancelled());
    }

    #[test]
    fn a_passed_deadline_stops_the_work() {
        let control = Control::with_deadline(Instant::now() - Duration::from_millis(1));
        assert_eq!(
            control.check().unwrap_err().kind(),
            ErrorKind::DeadlineExceeded
        );
    }

    #[test]
    fn the_listener_receives_every_step() {
        let sum = Arc::new(AtomicU64::new(0));
        let counter = sum.clone();
        let control = Control::with_listener(move |progress| {
            counter.fetch_add(progress.done, Ordering::Relaxed);
        });
        control.progress("read", 1, 2).unwrap();
        control.progress("read", 2, 2).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 3);
        let (counter, past) = (sum.clone(), Instant::now() - Duration::from_millis(1));
        let late = Control::with_deadline_and_listener(past, move |progress| {
            counter.fetch_add(progress.done, Ordering::Relaxed);
        });
        assert!(late.progress("read", 4, 4).is_err());
        assert_eq!(sum.load(Ordering::Relaxed), 7);
    }
}
