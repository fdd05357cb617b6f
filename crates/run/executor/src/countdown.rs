//! The dependency counts of an execution: the number of operands that each kernel still waits for
//! (Kahn's topological order, 1962, executed concurrently).

use crate::sync::{AtomicU32, Ordering};

/// One count per kernel. The count of a ready kernel is no longer needed: its word then links to
/// the next kernel in a list of ready kernels.
pub(crate) struct Countdown(Box<[AtomicU32]>);

/// The end of a list of kernels.
const LAST: u32 = u32::MAX;

impl Countdown {
    pub(crate) fn new(kernels: usize) -> Self {
        Self((0..kernels).map(|_| AtomicU32::new(0)).collect())
    }

    /// Resets the counts before the execution is shared.
    pub(crate) fn reset(&mut self, counts: &[u32]) {
        for (count, &initial) in self.0.iter().zip(counts) {
            count.store(initial, Ordering::Relaxed);
        }
    }

    /// Counts one available operand; returns whether it was the last. The thread that gets true
    /// sees all writes made before each count (release and acquire).
    #[inline]
    pub(crate) fn count_down(&self, kernel: u32) -> bool {
        let count = &self.0[kernel as usize];
        // At a count of 1 no other thread will count this kernel down.
        count.load(Ordering::Acquire) == 1 || count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Links ready kernels to a list and returns its first kernel. The queue publishes the list to
    /// other threads.
    pub(crate) fn link(&self, kernels: &[u32]) -> u32 {
        kernels.iter().rev().fold(LAST, |next, &kernel| {
            self.0[kernel as usize].store(next, Ordering::Relaxed);
            kernel
        })
    }

    /// The kernels of a list.
    pub(crate) fn list(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |&kernel| {
            let next = self.0[kernel as usize].load(Ordering::Relaxed);
            (next != LAST).then_some(next)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_count_returns_true() {
        let mut counts = Countdown::new(2);
        for _ in 0..2 {
            counts.reset(&[1, 3]);
            assert!(counts.count_down(0));
            assert_eq!(
                [1, 1, 1].map(|kernel| counts.count_down(kernel)),
                [false, false, true]
            );
        }
    }

    #[test]
    fn lists_are_read_in_the_order_they_were_linked() {
        let counts = Countdown::new(4);
        let first = counts.link(&[2, 0, 3]);
        assert_eq!(counts.list(first).collect::<Vec<_>>(), [2, 0, 3]);
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code, reason = "accesses that loom checks")]
mod model {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};

    /// Two threads each write an operand and count down; the last one reads both.
    #[test]
    fn the_last_count_sees_all_operands() {
        loom::model(|| {
            let mut counts = Countdown::new(1);
            counts.reset(&[2]);
            let shared = Arc::new((counts, [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let operand = |shared: &(Countdown, [UnsafeCell<u32>; 2]), index: usize| {
                // SAFETY: only this thread writes this operand, and it is read after both counts.
                shared.1[index].with_mut(|operand| unsafe { *operand = 1 });
                let last = shared.0.count_down(0);
                if last {
                    for operand in &shared.1 {
                        // SAFETY: `count_down` returned true, so both writes happened before; loom
                        // fails the test otherwise.
                        assert_eq!(operand.with(|operand| unsafe { *operand }), 1);
                    }
                }
                last
            };
            let other = shared.clone();
            let thread = loom::thread::spawn(move || operand(&other, 0));
            let here = operand(&shared, 1);
            assert!(thread.join().unwrap() != here, "one of them is the last");
        });
    }
}
