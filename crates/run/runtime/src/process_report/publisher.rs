//! Publication of the report of this process.

use super::{PREFIX, ProcessReport, process_start};
use crate::{Component, Log, SharedFolder};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tenon_base::{Error, Result, UnfinishedFile};

/// The interval between reports.
const PERIOD: Duration = Duration::from_millis(500);

/// Writes the report of this process periodically until it is dropped, which removes the file.
#[derive(Debug)]
pub struct Publisher {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Publisher {
    /// Writes the report of `collect` into the folder of `find` every `PERIOD`, on a separate
    /// thread. The first error is logged.
    pub fn start(
        find: impl FnOnce() -> Option<SharedFolder> + Send + 'static,
        collect: impl Fn() -> ProcessReport + Send + 'static,
        log: Log,
    ) -> Result<Self> {
        let stop: Arc<Stop> = Arc::default();
        let stopped = stop.clone();
        let publish = move || {
            if stopped.wait() {
                return;
            }
            let Some(folder) = find() else { return };
            remove_dead(&folder);
            let mut report = ReportFile::new(folder, log);
            report.write(&collect());
            while !stopped.wait() {
                report.write(&collect());
            }
        };
        let thread = std::thread::Builder::new()
            .name("tenon report".into())
            .spawn(publish)
            .map_err(|error| Error::io("", "start a thread for reports", error))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        *self
            .stop
            .flag
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The publisher may be dropped on its thread, when `collect` drops the last owner.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl Stop {
    /// Waits for a period; returns whether to stop.
    fn wait(&self) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, PERIOD, |stop| !*stop);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The file of this process, removed when this is dropped.
struct ReportFile {
    folder: SharedFolder,
    name: String,
    log: Log,
    has_failed: bool,
    /// Set after the first write: the file is then also removed by signals.
    listed: Option<UnfinishedFile>,
}

impl ReportFile {
    fn new(folder: SharedFolder, log: Log) -> Self {
        Self {
            folder,
            name: format!("{PREFIX}{}", std::process::id()),
            log,
            has_failed: false,
            listed: None,
        }
    }

    fn write(&mut self, report: &ProcessReport) {
        let mut written = self.try_write(report);
        if let (Err(error), false) = (&written, self.has_failed) {
            self.has_failed = true;
            let path = self.folder.path().join(&self.name);
            let warn = |text: std::fmt::Arguments<'_>| {
                self.log.warning(Component::Nmgr, "report", text);
            };
            // The name is used by a file of another user, or the disk is full.
            match SharedFolder::own() {
                Ok(own) => {
                    let (path, own_path) = (path.display(), own.path().display());
                    warn(format_args!(
                        "{path}: cannot write: {error}; {own_path} is used instead"
                    ));
                    self.folder = own;
                    written = self.try_write(report);
                }
                Err(_) => {
                    let path = path.display();
                    warn(format_args!(
                        "{path}: cannot write: {error}; the process is not shown by tenon monitor"
                    ));
                }
            }
        }
        // Later writes are attempted: the disk may be full only now.
        drop(written);
    }

    fn try_write(&mut self, report: &ProcessReport) -> io::Result<()> {
        let text = serde_json::to_vec(report)?;
        if self.listed.is_some() {
            return self.folder.write(&self.name, &text);
        }
        let written = UnfinishedFile::create(|| {
            self.folder.write(&self.name, &text)?;
            Ok(((), self.folder.path().join(&self.name)))
        });
        self.listed = Some(written?.1);
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.listed.is_some() {
            self.folder.remove(&self.name);
        }
    }
}

/// Removes the files of this user's killed processes: reports, and temporary files that were not
/// renamed.
fn remove_dead(folder: &SharedFolder) {
    for name in folder.own_files().unwrap_or_default() {
        let report = name.strip_prefix('.').unwrap_or(&name);
        let process = report
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let process = process.and_then(|number| number.parse().ok());
        if process.is_some_and(|process: u32| process_start(process).is_none()) {
            folder.remove(&name);
        }
    }
}
