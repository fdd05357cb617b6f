//! Parallel loops over integer ranges, one task per block.

use crate::host::failed;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::Result;
use tenon_executor::{
    Chain, FunctionHandle, KernelDef, PendingResult, Promise, Request, RestOperands, Value, kernel,
    pending_result, when_all_available,
};

pub(super) fn kernels() -> Vec<KernelDef> {
    let doc = "Calls the function for each block of the given size between start and end, with \
               the block's start and end and the further operands; blocks are tasks. The chain \
               is available when all calls have returned, and the chains that they return are available.";
    vec![
        kernel("tfrt.parallel_for.i32", parallel_for).doc(doc),
        kernel("tfrt.parallel_call.i32", parallel_for).doc(doc),
    ]
}

fn parallel_for(
    start: i32,
    end: i32,
    block: i32,
    extras: RestOperands<'_>,
    body: FunctionHandle,
    request: &Request,
) -> Result<PendingResult<Chain>> {
    let (done, promise) = pending_result();
    let total = (i64::from(end) - i64::from(start)).max(0).unsigned_abs();
    if body.result_types().len() > 1 {
        // Without a diagnostic, as in the original.
        promise.fail(failed("Invalid parallel body function result types"));
        return Ok(done);
    }
    if total == 0 {
        promise.set(Value::Chain);
        return Ok(done);
    }
    let size = u64::try_from(block).unwrap_or(0);
    if size == 0 {
        return Err(failed("the block size of a parallel loop must be positive").found(block));
    }
    let blocks = total.div_ceil(size) as usize;
    let range = Range {
        start: start.into(),
        end: end.into(),
        size: block.into(),
        body,
        extras: extras.iter().cloned().collect(),
        request: request.clone(),
        left: AtomicUsize::new(blocks),
        end_of_all: Mutex::new((Some(promise), Value::Chain)),
    };
    Arc::new(range).run(0, blocks);
    Ok(done)
}

/// The range, shared by the tasks of its blocks.
struct Range {
    start: i64,
    end: i64,
    /// The block size.
    size: i64,
    body: FunctionHandle,
    extras: Vec<Value>,
    request: Request,
    /// The number of blocks that are not done.
    left: AtomicUsize,
    /// The promise of the loop, and its value: the chain, or an error of a block.
    end_of_all: Mutex<(Option<Promise>, Value)>,
}

impl Range {
    /// Runs the blocks `first..end` by recursive splitting: the upper half becomes a task until one
    /// block is left.
    fn run(self: Arc<Self>, first: usize, mut end: usize) {
        if let Some(cancelled) = self.request.cancelled() {
            return self.finish(Some(cancelled), end - first);
        }
        while end - first > 1 {
            let middle = first + (end - first) / 2;
            let (range, upper) = (self.clone(), end);
            self.request.host().spawn(move || range.run(middle, upper));
            end = middle;
        }
        let results = self.call(first as i64);
        let chain = results.first().cloned();
        when_all_available(&results, move || self.finish(chain, 1));
    }

    fn call(&self, block: i64) -> Vec<Value> {
        let start = self.start + block * self.size;
        let end = self.end.min(start + self.size);
        // Both are between the operands, which are i32.
        let bounds = [start, end].map(|bound| Value::I32(bound as i32));
        let arguments = bounds.into_iter().chain(self.extras.iter().cloned());
        self.body.execute(&self.request, arguments.collect())
    }

    /// Counts `blocks` as done, or as never started.
    fn finish(&self, chain: Option<Value>, blocks: usize) {
        let lock = || {
            self.end_of_all
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(error @ Value::Error(_)) = chain.map(Value::resolved) {
            lock().1 = error;
        }
        if self.left.fetch_sub(blocks, Ordering::AcqRel) > blocks {
            return;
        }
        let (promise, value) = {
            let mut end = lock();
            (end.0.take(), end.1.clone())
        };
        if let Some(promise) = promise {
            promise.set(value);
        }
    }
}
