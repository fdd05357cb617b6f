//! What a process that runs models tells those who watch: a file of its own in a shared folder
//! (docs/monitoring.md).

use crate::ExecutionReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tenon_base::{Error, ErrorKind, Result};

/// The newest `format` that this build reads, and the one it writes.
pub const REPORT_FORMAT: u32 = 1;

/// How often a process writes its report.
const PERIOD: Duration = Duration::from_millis(500);

/// A report is larger than this only when somebody else wrote it.
const LARGEST: u64 = 4 << 20;

/// What a process tells. Numbers count from its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// The process.
    pub pid: u32,
    /// When it started, in ticks since the machine did, as `/proc/PID/stat` tells: another process
    /// of the same number has another.
    pub started: u64,
    /// The version of Tenon in it.
    pub tenon_version: String,
    /// What it calls itself, by `TENON_MONITOR_TAG`; empty when it does not.
    pub tag: String,
    /// Its cores.
    pub cores: Vec<CoreReport>,
    /// Its models.
    pub models: Vec<ModelReport>,
    /// Its executions.
    pub executions: ExecutionReport,
    /// Bytes of the host that tensors without a core have.
    pub host_bytes: u64,
}

/// One core of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreReport {
    /// Its number on the machine.
    pub core: u32,
    /// Executions on it.
    pub executions: u64,
    /// Nanoseconds that it executed.
    pub busy_nanos: u64,
    /// Arithmetic operations of those executions.
    pub flops: u64,
    /// Whether it executes now.
    pub busy: bool,
    /// Bytes by use: `constants`, `code`, `scratch`, `tensors`.
    pub memory: BTreeMap<String, u64>,
    /// Bytes that may be in use.
    pub memory_limit: u64,
}

/// One loaded model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its name.
    pub name: String,
    /// The package's uuid.
    pub uuid: String,
    /// Its number in the process.
    pub id: u32,
    /// Numbers on the machine of the cores that it is on.
    pub cores: Vec<u32>,
    /// Bytes that it takes.
    pub bytes: u64,
}

impl ProcessReport {
    /// A report of this process with nothing in it yet.
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        Self {
            format: REPORT_FORMAT,
            pid,
            started: process_start(pid).unwrap_or(0),
            tenon_version: env!("CARGO_PKG_VERSION").to_owned(),
            tag: std::env::var("TENON_MONITOR_TAG").unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The reports of processes that are alive, by process. Files that are no reports, of this
    /// format, are left out: anybody may write into the folder.
    pub fn read_all(folder: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let report = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.ok()?.path();
            let pid: u32 = path
                .file_name()?
                .to_str()?
                .strip_prefix(PREFIX)?
                .parse()
                .ok()?;
            let metadata = std::fs::symlink_metadata(&path).ok()?;
            if !metadata.is_file() || metadata.len() > LARGEST {
                return None;
            }
            let report: Self = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
            let alive = report.pid == pid && process_start(pid) == Some(report.started);
            (alive && report.format <= REPORT_FORMAT).then_some(report)
        };
        let mut reports: Vec<Self> = entries.filter_map(report).collect();
        reports.sort_by_key(|report| report.pid);
        reports
    }

    fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot write a report as JSON").source(error)
        })?;
        let aside = path.with_extension("part");
        let written = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, path));
        written.map_err(|error| Error::io(path, "write", error))
    }
}

/// What files of reports begin with; the process's number follows.
const PREFIX: &str = "process-";

/// When a process started (field 22 of `/proc/PID/stat`, proc(5)); `None` when there is none.
fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also parentheses: 3 is the first field behind it.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// Writes the report of this process again and again, until it is dropped; then the file goes.
#[derive(Debug)]
pub struct Publisher {
    path: PathBuf,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Writes what `collect` says into `folder`, now and then twice a second.
    pub fn start(
        folder: &Path,
        collect: impl Fn() -> ProcessReport + Send + 'static,
    ) -> Result<Self> {
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "make", error))?;
        collect().write(&path)?;
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (file, stopped) = (path.clone(), stop.clone());
        let publish = move || {
            let (flag, told) = &*stopped;
            let mut stop = flag.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stop {
                let waited = told.wait_timeout(stop, PERIOD);
                stop = waited.unwrap_or_else(PoisonError::into_inner).0;
                // A folder that is full now may have room later.
                let _ = collect().write(&file);
            }
        };
        let thread = std::thread::Builder::new()
            .name("tenon report".into())
            .spawn(publish)
            .map_err(|error| Error::io(&path, "start a thread for", error))?;
        Ok(Self {
            path,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let (flag, told) = &*self.stop;
        *flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn who_watches_reads_what_a_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let count = Arc::new(AtomicU64::new(7));
        let counted = count.clone();
        let publisher = Publisher::start(folder.path(), move || {
            let mut report = ProcessReport::of_this_process();
            report.executions.completed = counted.load(Ordering::Relaxed);
            report
        })
        .unwrap();
        let read = || ProcessReport::read_all(folder.path());
        assert_eq!(read()[0].executions.completed, 7);
        assert_eq!(read()[0].pid, std::process::id());
        count.store(8, Ordering::Relaxed);
        while read()[0].executions.completed == 7 {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(publisher);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_others_and_of_the_dead_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let own = ProcessReport::of_this_process();
        let name = format!("process-{}", own.pid);
        let read = || ProcessReport::read_all(folder.path());
        let write = |report: &ProcessReport| {
            std::fs::write(path(&name), serde_json::to_vec(report).unwrap()).unwrap();
        };
        write(&own);
        std::fs::write(path("process-1x"), "{}").unwrap();
        std::fs::write(path("process-2"), "no JSON").unwrap();
        std::fs::write(path("core-0"), "1").unwrap();
        assert_eq!(read(), std::slice::from_ref(&own));
        // The same number, but another process.
        write(&ProcessReport {
            started: own.started + 1,
            ..own.clone()
        });
        assert!(read().is_empty());
        write(&ProcessReport {
            format: REPORT_FORMAT + 1,
            ..own.clone()
        });
        assert!(read().is_empty());
        std::fs::remove_file(path(&name)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path(&name)).unwrap();
        assert!(read().is_empty());
    }
}
