//! The models of a process and their executions, for monitoring (docs/monitoring.md).

use crate::counters::Counters;
use crate::{Component, Log, ModelReport, Outcome, ProcessReport, Publisher, SharedFolder};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::Result;

/// The models of this process and their executions. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counters: Counters,
    models: Mutex<Vec<ModelEntry>>,
    publisher: Mutex<Option<Publisher>>,
}

#[derive(Debug)]
struct ModelEntry {
    report: ModelReport,
    running: Arc<AtomicU32>,
}

impl Activity {
    /// An activity that `tenon top`, `tenon devices` and `tenon monitor` show as long as this
    /// value, or a model loaded with it, is alive. A process should have one. Errors are logged
    /// ([`Log::from_environment`]).
    pub fn published() -> Self {
        let log = Log::from_environment();
        let activity = Self::default();
        let watched = Arc::downgrade(&activity.0);
        let collect = move || {
            let activity = watched.upgrade().map(Self);
            activity.map_or_else(ProcessReport::default, |activity| activity.report())
        };
        let find = {
            let log = log.clone();
            move || {
                let (folder, error) = SharedFolder::find();
                if let Some(error) = error {
                    log.warning(Component::Nmgr, "report", format_args!("{error}"));
                }
                folder
            }
        };
        match Publisher::start(find, collect, log.clone()) {
            Ok(publisher) => *lock(&activity.0.publisher) = Some(publisher),
            Err(error) => log.warning(Component::Nmgr, "report", format_args!("{error}")),
        }
        activity
    }

    /// Adds a loaded model, or a program about to run; it is listed until the value is dropped. The
    /// id of the report is assigned here.
    pub fn model(&self, report: ModelReport) -> ActiveModel {
        static IDS: AtomicU32 = AtomicU32::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let running = Arc::new(AtomicU32::new(0));
        let entry = ModelEntry {
            report: ModelReport { id, ..report },
            running: running.clone(),
        };
        lock(&self.0.models).push(entry);
        ActiveModel {
            id,
            running,
            activity: self.clone(),
        }
    }

    /// Counts a finished execution.
    pub(crate) fn ended(&self, outcome: Outcome, time: Duration) {
        self.0.counters.ended(outcome, time);
    }

    /// The current report, without cores.
    pub fn report(&self) -> ProcessReport {
        let model = |entry: &ModelEntry| ModelReport {
            running: entry.running.load(Ordering::Relaxed) > 0,
            ..entry.report.clone()
        };
        ProcessReport {
            models: lock(&self.0.models).iter().map(model).collect(),
            executions: self.0.counters.report(),
            ..ProcessReport::of_this_process()
        }
    }
}

/// A model, or a program, that is listed in an [`Activity`].
#[derive(Debug)]
pub struct ActiveModel {
    id: u32,
    running: Arc<AtomicU32>,
    activity: Activity,
}

impl ActiveModel {
    /// The id, unique in the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Runs an execution and counts its outcome. Does not allocate.
    pub fn execute<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _running = Running::begin(&self.running);
        let started = Instant::now();
        let done = work();
        self.activity.ended(Outcome::from(&done), started.elapsed());
        done
    }
}

/// Counts an execution in flight, also if it panics.
struct Running<'a>(&'a AtomicU32);

impl<'a> Running<'a> {
    fn begin(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ActiveModel {
    fn drop(&mut self) {
        lock(&self.activity.0.models).retain(|entry| entry.report.id != self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A holder that panicked leaves the list consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_base::{Error, ErrorKind};

    #[test]
    fn models_are_listed_and_executions_counted() {
        let activity = Activity::default();
        let model = activity.model(ModelReport {
            name: "digits".into(),
            ..ModelReport::default()
        });
        let entry = || activity.report().models;
        assert_eq!(
            (entry()[0].name.as_str(), entry()[0].id),
            ("digits", model.id())
        );
        model
            .execute(|| {
                assert!(entry()[0].running);
                Ok(())
            })
            .unwrap();
        let late = Error::new(ErrorKind::DeadlineExceeded, "late");
        model.execute(|| Err::<(), _>(late)).unwrap_err();
        assert!(!entry()[0].running);
        let executions = activity.report().executions;
        assert_eq!((executions.completed, executions.timed_out), (1, 1));
        assert_eq!(executions.total.count(), 1);
        let other = activity.model(ModelReport::default());
        assert_ne!(other.id(), model.id());
        drop(model);
        assert_eq!(entry().len(), 1);
    }
}
