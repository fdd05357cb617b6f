//! How deep continuations and calls are nested on this thread. What would nest too deep runs later
//! instead, so that no program can exhaust the stack.

use std::cell::{Cell, RefCell};

/// Continuations and executions nest this deep at most (facts 2.3).
const LIMIT: u32 = 100;

/// Synchronous calls nest as long as the thread has taken less stack than this since its outermost
/// level: half of what the smallest thread has that executes programs.
const STACK: usize = 256 << 10;

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Where the stack stood at the outermost level.
    static BASE: Cell<usize> = const { Cell::new(0) };
    static DEFERRED: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

/// One level of nesting, left when dropped. Who leaves the outermost runs what was put off.
pub(crate) struct Level(());

/// Whether one more level would be too much.
#[inline]
pub(crate) fn is_at_limit() -> bool {
    DEPTH.get() >= LIMIT || (DEPTH.get() > 0 && stack() > STACK)
}

/// One level deeper, whatever the depth.
#[inline]
pub(crate) fn enter() -> Level {
    if DEPTH.get() == 0 {
        BASE.set(stack_pointer());
    }
    DEPTH.set(DEPTH.get() + 1);
    Level(())
}

/// One level deeper if there is stack for it; for calls that cannot be put off.
pub(crate) fn enter_call() -> Option<Level> {
    (DEPTH.get() == 0 || stack() <= STACK).then(enter)
}

/// Bytes of stack taken since the outermost level.
fn stack() -> usize {
    BASE.get().abs_diff(stack_pointer())
}

/// About where the stack stands.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr()
}

/// Puts `work` off until the outermost level of this thread is left.
pub(crate) fn defer(work: Work) {
    DEFERRED.with_borrow_mut(|later| later.push(work));
}

impl Drop for Level {
    fn drop(&mut self) {
        // After a panic it waits for the next who leaves.
        if DEPTH.get() == 1 && !std::thread::panicking() {
            // Still inside, so that what runs here is not outermost itself.
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
    fn what_is_put_off_runs_when_the_outermost_level_is_left() {
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
    fn deep_is_deep() {
        let levels: Vec<Level> = (0..LIMIT).map(|_| enter()).collect();
        assert!(is_at_limit());
        drop(levels);
        assert!(!is_at_limit());
    }
}
