//! Cancellation of running computations.
//!
//! [`with_token`] makes a [`StopToken`] (usually a [`Control`](crate::Control)) current on the calling thread
//! while it runs a closure. The thread pool calls [`checkpoint`] before each iteration of a loop,
//! on the caller and on the workers, so that kernels need no code of their own; serial loops that
//! may run long call it themselves, about once a millisecond or more often.
//!
//! A checkpoint that finds the work stopped unwinds to `with_token`, which returns the error. Unwinding
//! is the reason why no kernel ever continues after a loop that was left early.
//!
//! A checkpoint costs a thread-local read and a relaxed load. The clock is read only where there is
//! a deadline, and about every 100 µs: in between, calls are counted.

use crate::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// The time between two reads of the clock that checkpoints aim for.
const PACE: Duration = Duration::from_micros(100);

/// Most checkpoints that pass without a look at the clock.
const MOST_SKIPPED: u32 = 255;

/// What may stop a computation.
pub trait StopToken: Sync {
    /// Whether it was stopped, as far as that is known without reading a clock.
    fn is_cancelled(&self) -> bool;

    /// Whether [`StopToken::check`] may find more than [`StopToken::is_cancelled`].
    fn is_timed(&self) -> bool;

    /// Fails when the work should stop. Once it has failed it fails for ever.
    fn check(&self) -> Result<()>;
}

/// A pointer to what stops the work of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Watched(*const dyn StopToken);

/// What a checkpoint unwinds with.
struct Stopped;

thread_local! {
    static WATCHED: Cell<Option<Watched>> = const { Cell::new(None) };
    /// Checkpoints to pass before the clock is read again, and how many they were the last time.
    static SKIP: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    static LAST_READ: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Restores what was watched before.
struct Restore(Option<Watched>);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCHED.set(self.0);
    }
}

/// Runs `work`, which ends early at a [`checkpoint`] when `stop` says so. Work that is stopped, or
/// that ends after its deadline, never succeeds.
///
/// ```
/// use tenon_base::{Control, ErrorKind, pool};
/// let control = Control::new();
/// let stopped = control.run(|| {
///     pool::for_each(1000, |index| {
///         if index == 5 {
///             control.cancel();
///         }
///     });
///     Ok(())
/// });
/// assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
/// ```
pub fn with_token<R>(stop: &dyn StopToken, work: impl FnOnce() -> Result<R>) -> Result<R> {
    // SAFETY: only the lifetime is dropped. `Restore` removes the pointer before `with_token` returns or
    // unwinds, and the pool removes it from its workers before a loop ends.
    let watched =
        Watched(unsafe { std::mem::transmute::<&dyn StopToken, *const dyn StopToken>(stop) });
    let done = with_watched(Some(watched), || catch_unwind(AssertUnwindSafe(work)));
    let done = match done {
        Ok(done) => done,
        Err(panic) if panic.is::<Stopped>() => Err(Error::new(
            ErrorKind::Internal,
            "a checkpoint of other work was reached",
        )),
        Err(panic) => resume_unwind(panic),
    };
    // The reason why it was stopped says more than what the interrupted work made of it.
    stop.check()?;
    done
}

/// Runs `work` with `watched` current on this thread.
pub(crate) fn with_watched<R>(watched: Option<Watched>, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(WATCHED.replace(watched));
    SKIP.set((0, 0));
    work()
}

/// What is current on this thread, for other threads that take part in its work.
pub(crate) fn watched() -> Option<Watched> {
    WATCHED.get()
}

/// Has the next checkpoint of this thread read the clock: what follows may take longer than what
/// was before.
pub(crate) fn pace_anew() {
    SKIP.set((0, 0));
}

/// Ends the work of this thread, by unwinding to [`with_token`], if it was stopped. Does nothing outside
/// of `with_token`.
#[inline]
pub fn checkpoint() {
    if let Some(watched) = WATCHED.get() {
        look(watched);
    }
}

/// Calls `with` with what may stop the work of this thread, for code that cannot unwind.
pub fn with_current<R>(with: impl FnOnce(Option<&dyn StopToken>) -> R) -> R {
    // SAFETY: as in `look`; the reference does not leave `with`.
    with(WATCHED.get().map(|watched| unsafe { &*watched.0 }))
}

fn look(watched: Watched) {
    // SAFETY: the pointer is current on this thread, so that `with_token` has not returned yet.
    let stop = unsafe { &*watched.0 };
    if stop.is_cancelled() || stop.is_timed() && is_due() && stop.check().is_err() {
        resume_unwind(Box::new(Stopped));
    }
}

/// Counts checkpoints; as many pass as took about [`PACE`] the last time.
fn is_due() -> bool {
    let (left, skipped) = SKIP.get();
    if left > 0 {
        SKIP.set((left - 1, skipped));
        return false;
    }
    let now = Instant::now();
    let before = LAST_READ.replace(Some(now));
    let passed = before.map_or(PACE, |before| now.duration_since(before));
    let next = match passed {
        passed if passed < PACE / 2 => (2 * skipped + 1).min(MOST_SKIPPED),
        passed if passed > 2 * PACE => skipped / 8,
        _ => skipped,
    };
    SKIP.set((next, next));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, pool};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn deadline(milliseconds: u64) -> Control {
        Control::with_deadline(Instant::now() + Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_loop_ends_at_its_deadline_on_every_thread() {
        for threads in [1, usize::MAX] {
            let (started, runs) = (Instant::now(), AtomicUsize::new(0));
            let stopped = deadline(30).run(|| {
                pool::with_thread_limit(threads, || {
                    pool::for_each(20_000, |_| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(2));
                    });
                });
                Ok(())
            });
            assert_eq!(stopped.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            assert!(started.elapsed() < Duration::from_secs(10));
            assert!(runs.into_inner() < 10_000);
        }
    }

    #[test]
    fn loops_inside_loops_and_serial_loops_end() {
        let stopped = deadline(20).run(|| {
            pool::for_each(4, |_| {
                pool::for_each(usize::MAX, |_| ());
            });
            Ok(())
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        let control = Control::new();
        let stopped: Result<()> = control.run(|| {
            control.cancel();
            loop {
                checkpoint();
            }
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_loop_after_many_short_iterations_is_stopped_soon() {
        let started = Instant::now();
        let stopped = deadline(50).run(|| {
            pool::for_each(100_000, |_| ());
            pool::for_each(100, |_| std::thread::sleep(Duration::from_millis(40)));
            Ok(())
        });
        assert!(stopped.is_err() && started.elapsed() < Duration::from_millis(1500));
    }

    #[test]
    fn late_work_does_not_succeed_and_the_rest_goes_on() {
        let late = deadline(1).run(|| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(7)
        });
        assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        // Nothing is watched any more, here or on the workers.
        let runs = AtomicUsize::new(0);
        pool::for_each(100, |_| {
            assert!(with_current(|stop| stop.is_none()));
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 100);
        assert_eq!(Control::new().run(|| Ok(3)).unwrap(), 3);
    }

    #[test]
    fn inner_work_is_watched_alone_and_panics_pass() {
        let outer = Control::new();
        let done = outer.run(|| {
            let inner: Result<()> = deadline(1).run(|| {
                loop {
                    checkpoint();
                }
            });
            assert!(inner.is_err());
            checkpoint();
            Ok(1)
        });
        assert_eq!(done.unwrap(), 1);
        let panicked = catch_unwind(|| Control::new().run::<()>(|| panic!("a fault")));
        let panic = panicked.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a fault"));
    }
}
