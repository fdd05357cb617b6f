//! Workers that take jobs from one queue.

use super::job::Job;
use super::worker_process::{JobResult, WorkerCommand, WorkerProcess, WorkerStop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use tenon::Error;

/// The queue of the jobs.
pub struct WorkerPool<'a> {
    pub jobs: &'a [&'a Job],
    pub command: &'a WorkerCommand,
    pub stop: &'a WorkerStop,
    /// The first job that fails ends the run.
    pub stops_at_failure: bool,
    next: AtomicUsize,
}

/// What happens in a pool. Jobs are positions in the list.
pub enum PoolEvent {
    /// A worker has loaded the model, with warnings.
    Started(Vec<String>),
    /// Rows were executed.
    Rows(u64),
    Done {
        job: usize,
        rows: u64,
    },
    Failed {
        job: usize,
        problems: Vec<String>,
    },
    /// No worker can load the model.
    Broken(Error),
}

impl<'a> WorkerPool<'a> {
    pub fn new(
        jobs: &'a [&'a Job],
        command: &'a WorkerCommand,
        stop: &'a WorkerStop,
        stops_at_failure: bool,
    ) -> Self {
        Self {
            jobs,
            command,
            stop,
            stops_at_failure,
            next: AtomicUsize::new(0),
        }
    }

    /// Processes jobs in a worker until there are none left. A worker that ends is started again; its job has failed.
    pub fn serve(&self, events: &Sender<PoolEvent>) {
        let mut process = None;
        while !self.stop.is_stopped() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&job) = self.jobs.get(index) else {
                return;
            };
            let worker = match &mut process {
                Some(worker) => worker,
                none => match self.start(events) {
                    Some(worker) => none.insert(worker),
                    None => return,
                },
            };
            let report = |rows| drop(events.send(PoolEvent::Rows(rows)));
            let event = match worker.run(job, report) {
                Ok(JobResult::Done(rows)) => PoolEvent::Done { job: index, rows },
                _ if self.is_cancelled() => return,
                Ok(JobResult::Failed(problems)) => PoolEvent::Failed {
                    job: index,
                    problems,
                },
                Err(end) => {
                    process = None;
                    PoolEvent::Failed {
                        job: index,
                        problems: vec![end],
                    }
                }
            };
            if events.send(event).is_err() {
                return;
            }
        }
    }

    /// Whether a job that failed was cancelled. Only the first failure of a run that stops there is none.
    fn is_cancelled(&self) -> bool {
        match self.stops_at_failure {
            true => !self.stop.stop(),
            false => self.stop.is_stopped(),
        }
    }

    fn start(&self, events: &Sender<PoolEvent>) -> Option<WorkerProcess<'a>> {
        match WorkerProcess::start(self.command, self.stop) {
            Ok((worker, warnings)) => {
                let _ = events.send(PoolEvent::Started(warnings));
                Some(worker)
            }
            Err(error) => {
                if !self.stop.is_stopped() {
                    self.stop.stop();
                    let _ = events.send(PoolEvent::Broken(error));
                }
                None
            }
        }
    }
}
