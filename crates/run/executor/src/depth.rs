//! The nesting depth of continuations and calls on this thread. Work beyond the limit is deferred
//! (a trampoline), so that no program can exhaust the stack.

use std::cell::{Cell, RefCell};

/// The maximum nesting depth of continuations and executions (bef 2.3).
const LIMIT: u32 = 100;

/// Bytes of stack that synchronous calls may use since the outermost level of the thread: half the
/// stack of the smallest thread that executes programs.
const STACK: usize = 256 << 10;

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The stack pointer at the outermost level.
    static BASE: Cell<usize> = const { Cell::new(0) };
    static DEFERRED: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

/// One level of nesting, left when dropped. Leaving the outermost level runs the deferred work.
pub(crate) struct Level(());

/// Whether another level would exceed the limit.
#[inline]
pub(crate) fn is_at_limit() -> bool {
    DEPTH.get() >= LIMIT || (DEPTH.get() > 0 && stack() > STACK)
}

/// Enters a level, without a limit.
#[inline]
pub(crate) fn enter() -> Level {
    if DEPTH.get() == 0 {
        BASE.set(stack_pointer());
    }
    DEPTH.set(DEPTH.get() + 1);
    Level(())
}

/// Enters a level if the stack suffices; for calls that cannot be deferred.
pub(crate) fn enter_call() -> Option<Level> {
    (DEPTH.get() == 0 || stack() <= STACK).then(enter)
}

/// Bytes of stack used since the outermost level.
fn stack() -> usize {
    BASE.get().abs_diff(stack_pointer())
}

/// An approximation of the stack pointer.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr()
}

/// Defers `work` until the outermost level of this thread is left.
pub(crate) fn defer(work: Work) {
    DEFERRED.with_borrow_mut(|later| later.push(work));
}

impl Drop for Level {
    fn drop(&mut self) {
        // During a panic the work stays deferred until the outermost level is left the next time.
        if DEPTH.get() == 1 && !std::thread::panicking() {
            // The depth is still 1, so that the work runs inside a level.
            while let Some(work) = DEFERRED.with_borrow_mut(Vec::pop) {
                work();
            }
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn deferred_work_runs_when_the_outermost_level_is_left() {
        let runs = Arc::new(AtomicU32::new(0));
        let outer = enter();
        let inner = enter();
        for _ in 0..2 {
            let runs = runs.clone();
            defer(Box::new(move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }));
        }
        drop(inner);
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        drop(outer);
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_limit_is_reached_and_left() {
        let levels: Vec<Level> = (0..LIMIT).map(|_| enter()).collect();
        assert!(is_at_limit());
        drop(levels);
        assert!(!is_at_limit());
    }
}
