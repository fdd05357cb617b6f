//! Lists of ready kernels of many streams, handed to the threads of a queue together.
//!
//! One task a stream costs a reference to the execution each, which all threads count up and down.
//! So the lists go over as one task instead. Where several threads take tasks in no promised order,
//! it gives away half of its lists until few are left and runs these; one thread runs list after
//! list.

use crate::execution::Execution;
use crate::queue::{Batch, Runnable, Task, WorkQueue};
use std::sync::Arc;
use std::vec::IntoIter;

/// Lists for several threads, each its stream and its first kernel.
pub(crate) struct BatchTask {
    execution: Arc<Execution>,
    lists: Vec<(u32, u32)>,
    /// So many lists one task runs.
    grain: usize,
}

/// No more lists than this run as one task, however many there are.
const MAX_GRAIN: usize = 16;

/// Each thread of the queue has at least so many shares to take, so that all end together.
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

/// Lists for one thread.
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
