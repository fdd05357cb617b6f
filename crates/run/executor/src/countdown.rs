//! How many operands each kernel of an execution still waits for.

use crate::sync::{AtomicU32, Ordering};

/// One count for each kernel. Once a kernel is ready its count is not needed any more: it then says
/// which kernel comes next in a list of ready ones.
pub(crate) struct Countdown(Box<[AtomicU32]>);

/// Ends a list of kernels.
const LAST: u32 = u32::MAX;

impl Countdown {
    pub(crate) fn new(kernels: usize) -> Self {
        Self((0..kernels).map(|_| AtomicU32::new(0)).collect())
    }

    /// Starts over, before anybody else counts.
    pub(crate) fn reset(&mut self, counts: &[u32]) {
        for (count, &initial) in self.0.iter().zip(counts) {
            count.store(initial, Ordering::Relaxed);
        }
    }

    /// One operand more is there; answers whether it was the last. What was written before each
    /// counting down is known to who gets true.
    #[inline]
    pub(crate) fn count_down(&self, kernel: u32) -> bool {
        let count = &self.0[kernel as usize];
        // The last one has nobody to race with.
        count.load(Ordering::Acquire) == 1 || count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Makes a list of ready kernels and answers its first one. It is handed over through the queue.
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
    fn the_last_count_is_told() {
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
    fn lists_are_read_in_their_order() {
        let counts = Countdown::new(4);
        let first = counts.link(&[2, 0, 3]);
        assert_eq!(counts.list(first).collect::<Vec<_>>(), [2, 0, 3]);
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code, reason = "cells that loom watches")]
mod model {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};

    /// Two threads write an operand each and count down; one of them finds both.
    #[test]
    fn who_counts_to_zero_sees_all_operands() {
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
                        // SAFETY: both are written; loom fails the test if they may not be.
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
