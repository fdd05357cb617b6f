//! The kernels that one thread has to run: its own stream's, and those for others (facts 2.3).

use crate::code::Code;
use std::cell::RefCell;

/// ReadyQueue kernels by stream.
pub(crate) struct ReadyQueue {
    stream: u32,
    lists: Lists,
}

#[derive(Default)]
struct Lists {
    /// Kernels of this stream; the last one runs first.
    own: Vec<u32>,
    /// Kernels of other streams.
    others: Vec<u32>,
}

thread_local! {
    /// Empty lists with room, for the next ones on this thread.
    static SPARE: RefCell<Vec<Lists>> = const { RefCell::new(Vec::new()) };
}

/// Lists with more room than this are given back, lest a big function holds memory for ever.
const MAX_SPARE: usize = 1 << 16;

impl ReadyQueue {
    /// Nothing ready, running `stream`.
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

    /// Goes over to `stream` with these kernels of it, when nothing else is ready.
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

    /// When nothing is left of this stream, goes over to the stream that has been ready longest.
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

    /// The kernels of other streams, sorted by stream; [`ReadyQueue::clear_others`] follows.
    pub(crate) fn others(&mut self, code: &Code) -> &[u32] {
        let others = &mut self.lists.others;
        others.sort_by_key(|&kernel| code.stream(kernel));
        others
    }

    /// Forgets the kernels of other streams.
    pub(crate) fn clear_others(&mut self) {
        self.lists.others.clear();
    }
}

/// Moves those that `keep` refuses to the end and answers where they start. The order is that of the
/// usual exchange from both ends, which programs' output shows.
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
