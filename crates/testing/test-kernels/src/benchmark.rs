//! `tfrt_test.benchmark`: runs a region repeatedly and prints its times (bef 5.4).

use crate::failed;
use crate::statistics::{Limits, Statistics};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use tenon_base::Result;
use tenon_bef::Name;
use tenon_executor::{
    Attr, Chain, FunctionHandle, KernelDef, PendingResult, Promise, Request, RestOperands, Value,
    kernel, pending_result,
};

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![kernel("tfrt_test.benchmark", benchmark).doc(
        "Runs the region with the operands `num_warmup_runs` times, then until `max_count` runs \
         or `duration_secs` are reached, one task per run; prints the times; then the chain is available.",
    )]
}

fn benchmark(
    arguments: RestOperands<'_>,
    duration_secs: Attr<i32>,
    max_count: Attr<i32>,
    name: Attr<Name>,
    num_warmup_runs: Attr<i32>,
    body: FunctionHandle,
    request: &Request,
) -> Result<PendingResult<Chain>> {
    if body.result_types().len() != 1 {
        return Err(failed(
            "incorrect number of return values. One return value is expected",
        ));
    }
    // Negative counts are 0.
    let count = |number: i32| u64::try_from(number).unwrap_or(0);
    let limits = Limits {
        warm_up: count(num_warmup_runs.0),
        runs: count(max_count.0),
        time: Duration::from_secs(count(duration_secs.0)),
    };
    let (done, promise) = pending_result();
    let runs = Runs {
        statistics: Statistics::new(&*name.0, limits),
        arguments: arguments.iter().cloned().collect(),
        body,
        request: request.clone(),
        done: promise,
    };
    runs.next();
    Ok(done)
}

/// A running benchmark. Each run is a task, so that runs are not nested.
struct Runs {
    statistics: Statistics,
    arguments: Vec<Value>,
    body: FunctionHandle,
    request: Request,
    done: Promise,
}

impl Runs {
    fn next(self) {
        let start = Start::now();
        let request = self.request.clone();
        request.host().spawn(move || {
            let results = self.body.execute(&self.request, self.arguments.clone());
            match results.into_iter().next() {
                Some(Value::Pending(result)) => {
                    result.when_available(move |_| self.end(start));
                }
                _ => self.end(start),
            }
        });
    }

    fn end(mut self, start: Start) {
        let (wall, processor) = start.elapsed();
        self.statistics.record(wall, processor);
        if let Some(cancelled) = self.request.cancelled() {
            return self.done.set(cancelled);
        }
        if self.statistics.more() {
            return self.next();
        }
        let host = self.request.host();
        host.print(format_args!("{}", self.statistics));
        self.done.set(Value::Chain);
    }
}

/// The start of a run in wall-clock time and in CPU time of the process.
struct Start {
    wall: Instant,
    processor: Duration,
}

impl Start {
    fn now() -> Self {
        Self {
            processor: processor_time(),
            wall: Instant::now(),
        }
    }

    fn elapsed(&self) -> (Duration, Duration) {
        let wall = self.wall.elapsed();
        (wall, processor_time().saturating_sub(self.processor))
    }
}

/// The CPU time of all threads of the process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The clock starts at zero, and nanoseconds are below a second.
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
