//! Cooperative cancellation of running computations, by stop tokens and checkpoints.
//!
//! [`with_token`] makes a [`StopToken`] (usually a [`Control`](crate::Control)) current on the
//! calling thread while it runs a closure. The thread pool calls [`checkpoint`] before each
//! iteration of a loop, on the caller and on the workers, so that kernels need no cancellation
//! code; serial loops that may run long call it themselves, at least about once a millisecond.
//!
//! A checkpoint of stopped work unwinds to `with_token`, which returns the error. By unwinding, no
//! kernel continues after a loop that ended early.
//!
//! A checkpoint costs a thread-local read and a relaxed load. The clock is read only if there is a
//! deadline, and about every 100 µs: between two reads, checkpoints are counted.

#![allow(unsafe_code, reason = "the current Control of a thread")]

use crate::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Target time between two reads of the clock by checkpoints.
const CLOCK_INTERVAL: Duration = Duration::from_micros(100);

/// Maximum number of checkpoints between two reads of the clock.
const MAX_SKIPPED: u32 = 255;

/// A source of cancellation, queried by checkpoints.
pub trait StopToken: Sync {
    /// Whether the work was cancelled; reads no clock.
    fn is_cancelled(&self) -> bool;

    /// Whether there is a deadline, which only [`StopToken::check`] checks.
    fn is_timed(&self) -> bool;

    /// Fails when the work was cancelled or is past its deadline; from then on it always fails.
    fn check(&self) -> Result<()>;
}

/// A pointer to the current token of a thread.
#[derive(Clone, Copy)]
pub(crate) struct TokenPointer(*const dyn StopToken);

/// The panic payload with which a checkpoint unwinds.
struct StopUnwind;

thread_local! {
    static CURRENT: Cell<Option<TokenPointer>> = const { Cell::new(None) };
    /// Checkpoints left before the next read of the clock, and their number after the last read.
    static SKIP: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    /// Time of the last read of the clock.
    static LAST_READ: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Restores the previous token.
struct Restore(Option<TokenPointer>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs `work`, which ends early at a [`checkpoint`] once `token` is cancelled or past its
/// deadline. Work that was stopped, or that ends after its deadline, always fails.
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
pub fn with_token<R>(token: &dyn StopToken, work: impl FnOnce() -> Result<R>) -> Result<R> {
    // SAFETY: the transmute only erases the lifetime of a reference. The pointer is current on this
    // thread until `Restore` resets it, before `with_token` returns or unwinds, and on a worker
    // until the loop ends, which is within `work`; it is dereferenced only while current.
    let pointer =
        TokenPointer(unsafe { std::mem::transmute::<&dyn StopToken, *const dyn StopToken>(token) });
    let done = with_pointer(Some(pointer), || catch_unwind(AssertUnwindSafe(work)));
    let done = match done {
        Ok(done) => done,
        Err(panic) if panic.is::<StopUnwind>() => Err(Error::new(
            ErrorKind::Internal,
            "a checkpoint unwound although its token is not stopped",
        )),
        Err(panic) => resume_unwind(panic),
    };
    // Cancellation is the cause of any error that interrupted work returned.
    token.check()?;
    done
}

/// Runs `work` with `token` current on this thread.
pub(crate) fn with_pointer<R>(token: Option<TokenPointer>, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(CURRENT.replace(token));
    SKIP.set((0, 0));
    work()
}

/// The current token of this thread, for workers that join its loop.
pub(crate) fn current() -> Option<TokenPointer> {
    CURRENT.get()
}

/// Makes the next checkpoint of this thread read the clock: the iterations of a new loop may take
/// longer than those of the last one.
pub(crate) fn reset_skipping() {
    SKIP.set((0, 0));
}

/// Ends the work of this thread, by unwinding to [`with_token`], if it is stopped. Does nothing
/// outside of `with_token`.
#[inline]
pub fn checkpoint() {
    if let Some(token) = CURRENT.get() {
        check_current(token);
    }
}

/// Calls `with` with the current token of this thread, for code that cannot unwind.
pub fn with_current<R>(with: impl FnOnce(Option<&dyn StopToken>) -> R) -> R {
    // SAFETY: the pointer is current on this thread, so the `with_token` that borrows the token has
    // not returned; the reference cannot outlive the call of `with`, whose signature bounds it.
    with(CURRENT.get().map(|token| unsafe { &*token.0 }))
}

fn check_current(token: TokenPointer) {
    // SAFETY: the pointer is current on this thread, so the `with_token` that borrows the token has
    // not returned.
    let token = unsafe { &*token.0 };
    if token.is_cancelled() || token.is_timed() && is_clock_due() && token.check().is_err() {
        resume_unwind(Box::new(StopUnwind));
    }
}

/// Counts checkpoints down; the count is adapted so that it takes about [`CLOCK_INTERVAL`].
fn is_clock_due() -> bool {
    let (left, skipped) = SKIP.get();
    if left > 0 {
        SKIP.set((left - 1, skipped));
        return false;
    }
    let now = Instant::now();
    let before = LAST_READ.replace(Some(now));
    let passed = before.map_or(CLOCK_INTERVAL, |before| now.duration_since(before));
    let next = match passed {
        passed if passed < CLOCK_INTERVAL / 2 => (2 * skipped + 1).min(MAX_SKIPPED),
        passed if passed > 2 * CLOCK_INTERVAL => skipped / 8,
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
    fn a_slow_loop_after_a_fast_one_is_stopped_soon() {
        let started = Instant::now();
        let stopped = deadline(50).run(|| {
            pool::for_each(100_000, |_| ());
            pool::for_each(100, |_| std::thread::sleep(Duration::from_millis(40)));
            Ok(())
        });
        assert!(stopped.is_err() && started.elapsed() < Duration::from_millis(1500));
    }

    #[test]
    fn late_work_fails_and_later_work_is_not_affected() {
        let late = deadline(1).run(|| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(7)
        });
        assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        // No token is current any more, here or on the workers.
        let runs = AtomicUsize::new(0);
        pool::for_each(100, |_| {
            assert!(with_current(|stop| stop.is_none()));
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 100);
        assert_eq!(Control::new().run(|| Ok(3)).unwrap(), 3);
    }

    #[test]
    fn inner_work_has_its_token_and_panics_propagate() {
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
