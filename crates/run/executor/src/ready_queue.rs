//! The ready kernels of one thread: those of its stream, and those of other streams (bef 2.3).

use crate::code::Code;
use std::cell::RefCell;

/// Ready kernels of the current stream and of others.
pub(crate) struct ReadyQueue {
    stream: u32,
    lists: Lists,
}

#[derive(Default)]
struct Lists {
    /// Kernels of the current stream, a LIFO stack.
    own: Vec<u32>,
    /// Kernels of other streams.
    others: Vec<u32>,
}

thread_local! {
    /// Empty lists with capacity, reused on this thread.
    static SPARE: RefCell<Vec<Lists>> = const { RefCell::new(Vec::new()) };
}

/// Lists with a larger capacity are freed, so that a large function does not hold memory.
const MAX_SPARE: usize = 1 << 16;

impl ReadyQueue {
    /// An empty queue whose current stream is `stream`.
    pub(crate) fn new(stream: u32) -> Self {
        let lists = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        Self { stream, lists }
    }

    pub(crate) fn stream(&self) -> u32 {
        self.stream
    }

    /// Adds a ready kernel.
    #[inline]
    pub(crate) fn push(&mut self, kernel: u32, code: &Code) {
        if code.stream(kernel) == self.stream {
            self.lists.own.push(kernel);
        } else {
            self.lists.others.push(kernel);
        }
    }

    /// Switches the empty queue to `stream` and adds these kernels of it.
    pub(crate) fn start(&mut self, stream: u32, kernels: impl Iterator<Item = u32>) {
        self.stream = stream;
        self.lists.own.extend(kernels);
    }

    /// The kernel to run next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.lists.own.pop()
    }

    /// Whether there are kernels of other streams.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        !self.lists.others.is_empty()
    }

    /// If no kernel of the current stream is left, switches to the stream whose kernels have been
    /// ready longest.
    #[inline]
    pub(crate) fn switch_stream(&mut self, code: &Code) {
        if self.lists.own.is_empty()
            && let Some(&first) = self.lists.others.first()
        {
            let stream = code.stream(first);
            let others = &mut self.lists.others;
            let kept = partition(others, |kernel| code.stream(kernel) != stream);
            self.lists.own.extend(others.drain(kept..));
            self.stream = stream;
        }
    }

    /// The kernels of other streams, sorted by stream. The caller then calls
    /// [`ReadyQueue::clear_others`].
    pub(crate) fn others(&mut self, code: &Code) -> &[u32] {
        let others = &mut self.lists.others;
        others.sort_by_key(|&kernel| code.stream(kernel));
        others
    }

    /// Removes the kernels of other streams.
    pub(crate) fn clear_others(&mut self) {
        self.lists.others.clear();
    }
}

/// Partitions `kernels` as C++ `std::partition` does (Hoare's exchange from both ends): those that
/// `keep` rejects move to the end; returns their start. The order is observable in the output of
/// programs.
fn partition(kernels: &mut [u32], keep: impl Fn(u32) -> bool) -> usize {
    let (mut start, mut end) = (0, kernels.len());
    loop {
        while start < end && keep(kernels[start]) {
            start += 1;
        }
        while start < end && !keep(kernels[end - 1]) {
            end -= 1;
        }
        if start == end {
            return start;
        }
        kernels.swap(start, end - 1);
        start += 1;
        end -= 1;
    }
}

impl Drop for ReadyQueue {
    fn drop(&mut self) {
        let lists = std::mem::take(&mut self.lists);
        if lists.own.capacity() + lists.others.capacity() <= MAX_SPARE {
            SPARE.with_borrow_mut(|spare| spare.push(lists));
        }
    }
}
