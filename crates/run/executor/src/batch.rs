//! Batches of ready kernels of many streams, queued as one task.
//!
//! One task per stream would cost one atomic reference count of the execution each, contended by
//! all threads. A batch is one task instead. On several threads it is split recursively: the task
//! queues the upper half of its lists until the grain size is reached, as in divide-and-conquer
//! loops of Cilk and oneTBB (Blumofe and Leiserson 1999). On one thread it runs its lists in order.

use crate::execution::Execution;
use crate::queue::{Batch, Runnable, Task, WorkQueue};
use std::sync::Arc;
use std::vec::IntoIter;

/// Lists for several threads; a list is its stream and its first kernel.
pub(crate) struct BatchTask {
    execution: Arc<Execution>,
    lists: Vec<(u32, u32)>,
    /// The grain size: the number of lists that one task runs.
    grain: usize,
}

/// The maximum grain size.
const MAX_GRAIN: usize = 16;

/// The minimum number of tasks per thread, for load balance at the end.
const CHUNKS_PER_THREAD: usize = 32;

impl BatchTask {
    /// Adds all lists to the queue.
    pub(crate) fn enqueue(
        execution: Arc<Execution>,
        lists: Vec<(u32, u32)>,
        queue: &dyn WorkQueue,
    ) {
        if queue.parallelism() == 1 {
            let lists = lists.into_iter();
            return queue.add(Task::Batch(Box::new(SequentialBatch { execution, lists })));
        }
        let grain = lists.len() / (CHUNKS_PER_THREAD * queue.parallelism());
        let all = argument(0, lists.len());
        let outline = Self {
            execution,
            lists,
            grain: grain.clamp(1, MAX_GRAIN),
        };
        queue.add(Task::Shared(Arc::new(outline), all));
    }
}

impl Runnable for BatchTask {
    fn run(self: Arc<Self>, argument_of_task: u64) {
        let (start, mut end) = (
            (argument_of_task >> 32) as usize,
            argument_of_task as u32 as usize,
        );
        while end - start > self.grain {
            let middle = start + (end - start) / 2;
            let half = Task::Shared(self.clone(), argument(middle, end));
            self.execution.queue().add(half);
            end = middle;
        }
        let lists = self.lists[start..end].iter().copied();
        self.execution.run_lists(lists, &mut || false);
        if let Some(outline) = Arc::into_inner(self) {
            outline.execution.recycle();
        }
    }
}

/// Lists for one thread, run in order.
struct SequentialBatch {
    execution: Arc<Execution>,
    lists: IntoIter<(u32, u32)>,
}

impl Batch for SequentialBatch {
    fn run(mut self: Box<Self>, stop: &mut dyn FnMut() -> bool) -> Option<Box<dyn Batch>> {
        self.execution.run_lists(&mut self.lists, stop);
        if self.lists.len() > 0 {
            return Some(self);
        }
        self.execution.recycle();
        None
    }
}

/// The lists from `start` to before `end`; a function has fewer than 2^32 kernels.
fn argument(start: usize, end: usize) -> u64 {
    (start as u64) << 32 | end as u64
}
