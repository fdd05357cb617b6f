//! `tenon map`

mod arrays;
mod files;
mod job;
mod package;
mod pool;
mod record;
mod rows;
mod summary;
mod worker;
mod worker_process;

use crate::map_flags::Map;
use crate::output;
use crate::{progress, signals};
use indicatif::ProgressBar;
use job::Job;
use package::MappedPackage;
use pool::{PoolEvent, WorkerPool};
use record::{FileStamp, Record, RecordEntry};
use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use summary::{FailedFile, Summary, complain_of, print_plan};
use tenon::{Error, ErrorKind, Result};
use worker_process::{WorkerCommand, WorkerStop};

/// The time between two looks for a signal.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(flags: &Map) -> Result<ExitCode> {
    if flags.worker {
        return worker::run(flags).map(|()| ExitCode::SUCCESS);
    }
    let folder = flags.output.as_deref().unwrap_or(Path::new("."));
    output::folder(folder)?;
    let mut jobs = files::jobs(&flags.inputs, folder)?;
    if let Some(shard) = flags.shard {
        let mut positions = 0..;
        jobs.retain(|_| positions.next().is_some_and(|at| shard.contains(at)));
    }
    let package = MappedPackage::open(flags)?;
    let record = Record::read(folder, flags.shard)?;
    let mut plan = Plan::new(&jobs, &package, &record, flags.force);
    if flags.dry_run {
        let pending: Vec<&Job> = plan.pending.iter().map(|(job, _)| *job).collect();
        print_plan(&plan.complete, &pending, flags.json)?;
        complain_of(&plan.failed);
        return Ok(output::status(plan.failed.is_empty()));
    }
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
    let mut run = MapRun {
        flags,
        package: &package,
        record,
        bar: progress::of_files(plan.pending.len() as u64),
        summary: Summary {
            files: jobs.len(),
            skipped: plan.complete.len(),
            failed: std::mem::take(&mut plan.failed),
            ..Summary::default()
        },
        warnings: HashSet::new(),
        problem: None,
        signal: None,
    };
    let is_ended = flags.stop && !run.summary.failed.is_empty();
    if !is_ended && !plan.pending.is_empty() {
        run.process(&plan.pending);
    }
    let MapRun {
        summary,
        problem,
        signal,
        ..
    } = run;
    drop(package);
    // Without workers there is nothing to summarise.
    if problem.is_none() || summary.has_results() {
        summary.print(flags.json)?;
        summary.complain();
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    if let Some(signal) = signal {
        output::complain("stopped: the same command processes the files that are left");
        signals::end_by(signal);
    }
    Ok(output::status(
        summary.failed.is_empty() && signal.is_none(),
    ))
}

/// What is done with each file.
struct Plan<'a> {
    complete: Vec<&'a Job>,
    /// With the state of their files.
    pending: Vec<(&'a Job, Vec<FileStamp>)>,
    failed: Vec<FailedFile>,
}

impl<'a> Plan<'a> {
    fn new(jobs: &'a [Job], package: &MappedPackage, record: &Record, force: bool) -> Self {
        let mut plan = Self {
            complete: Vec::new(),
            pending: Vec::new(),
            failed: Vec::new(),
        };
        for job in jobs {
            match FileStamp::of_inputs(job) {
                Ok(inputs) if !force && record.is_complete(job, package.hash(), &inputs) => {
                    plan.complete.push(job);
                }
                Ok(inputs) => plan.pending.push((job, inputs)),
                Err(error) => plan.failed.push(FailedFile {
                    file: job.text(),
                    problems: job::problems(&error),
                }),
            }
        }
        plan
    }
}

/// A run of the command.
struct MapRun<'a> {
    flags: &'a Map,
    package: &'a MappedPackage,
    record: Record,
    bar: ProgressBar,
    summary: Summary,
    /// The warnings that were printed; every worker has the same.
    warnings: HashSet<String>,
    /// Why the run ended.
    problem: Option<Error>,
    /// The signal that ended the run.
    signal: Option<i32>,
}

impl MapRun<'_> {
    /// Processes the files in worker processes.
    fn process(&mut self, pending: &[(&Job, Vec<FileStamp>)]) {
        let jobs: Vec<&Job> = pending.iter().map(|(job, _)| *job).collect();
        let command = WorkerCommand::new(self.flags, self.package.path(), &jobs);
        let signal = signals::receive();
        let start = Instant::now();
        let stop = WorkerStop::default();
        let pool = WorkerPool::new(&jobs, &command, &stop, self.flags.stop);
        std::thread::scope(|scope| {
            let (sender, events) = channel();
            for _ in 0..self.flags.processes.min(jobs.len()) {
                let (sender, pool) = (sender.clone(), &pool);
                scope.spawn(move || pool.serve(&sender));
            }
            drop(sender);
            self.follow(&events, &signal, pending, start, &stop);
        });
        self.bar.finish_and_clear();
        self.summary.time = start.elapsed();
    }

    /// Receives events until all workers have ended.
    fn follow(
        &mut self,
        events: &Receiver<PoolEvent>,
        signal: &Receiver<i32>,
        pending: &[(&Job, Vec<FileStamp>)],
        start: Instant,
        stop: &WorkerStop,
    ) {
        // Rows of files that are not complete count for the rate alone.
        let mut executed = 0;
        loop {
            if let Ok(signal) = signal.try_recv() {
                self.signal = Some(signal);
                stop.stop();
            }
            match events.recv_timeout(SIGNAL_INTERVAL) {
                Ok(PoolEvent::Rows(rows)) => executed += rows,
                Ok(event) => {
                    if !self.receive(event, pending) {
                        stop.stop();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let rate = executed as f64 / start.elapsed().as_secs_f64().max(1e-9);
            let failed = match self.summary.failed.len() {
                0 => String::new(),
                count => format!("{count} failed, "),
            };
            if executed > 0 || !failed.is_empty() {
                self.bar.set_message(format!("{failed}{rate:.0} rows/s"));
            }
        }
    }

    /// Receives an event; `false` ends the run.
    fn receive(&mut self, event: PoolEvent, pending: &[(&Job, Vec<FileStamp>)]) -> bool {
        match event {
            PoolEvent::Rows(_) => true,
            PoolEvent::Started(warnings) => {
                for warning in warnings {
                    let text = format!("warning: {warning}");
                    if self.warnings.insert(warning) {
                        self.bar.suspend(|| output::complain(text));
                    }
                }
                true
            }
            PoolEvent::Done { job, rows } => {
                self.bar.inc(1);
                self.summary.done += 1;
                self.summary.rows += rows;
                let (job, inputs) = &pending[job];
                self.add_to_record(job, inputs, rows)
            }
            PoolEvent::Failed { job, problems } => {
                self.bar.inc(1);
                self.summary.failed.push(FailedFile {
                    file: pending[job].0.text(),
                    problems,
                });
                true
            }
            PoolEvent::Broken(error) => {
                self.problem.get_or_insert(error);
                false
            }
        }
    }

    fn add_to_record(&mut self, job: &Job, inputs: &[FileStamp], rows: u64) -> bool {
        let added = match FileStamp::of_output(job) {
            Some(output) => self.record.add(&RecordEntry {
                name: job.name.clone(),
                model: self.package.hash().to_owned(),
                inputs: inputs.to_vec(),
                output,
                rows,
            }),
            None => {
                let text = format!("the output {} has disappeared", job.output.display());
                Err(Error::new(ErrorKind::NotFound, text))
            }
        };
        match added {
            Ok(()) => true,
            Err(error) => {
                self.problem.get_or_insert(error);
                false
            }
        }
    }
}
