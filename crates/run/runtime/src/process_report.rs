//! Reports of processes that run models, for monitoring: one file per process in a shared folder
//! (docs/monitoring.md).

mod publisher;

pub use publisher::Publisher;

use crate::ExecutionReport;
use crate::shared_folder::open_plain;
use rustix::fs::{CWD, OFlags};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The `format` that this build writes, and the newest that it reads.
pub const REPORT_FORMAT: u32 = 1;

/// The maximum size of a report; larger files are not reports.
const LARGEST: u64 = 4 << 20;

/// The report of a process. Counts are since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// The process.
    pub pid: u32,
    /// The start time in clock ticks since boot, from `/proc/PID/stat`; distinguishes processes
    /// with the same id.
    pub started: u64,
    /// The version of Tenon.
    pub tenon_version: String,
    /// The value of `TENON_MONITOR_TAG`; empty if unset.
    pub tag: String,
    /// Its cores.
    pub cores: Vec<CoreReport>,
    /// Its models.
    pub models: Vec<ModelReport>,
    /// Its executions.
    pub executions: ExecutionReport,
    /// Host bytes of tensors without a core.
    pub host_bytes: u64,
}

/// One core of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreReport {
    /// The core's number on the machine.
    pub core: u32,
    /// Executions on it.
    pub executions: u64,
    /// Nanoseconds of execution.
    pub busy_nanos: u64,
    /// Arithmetic operations of these executions.
    pub flops: u64,
    /// Whether an execution is running.
    pub busy: bool,
    /// Bytes by use: `constants`, `code`, `scratch`, `tensors`.
    pub memory: BTreeMap<String, u64>,
    /// The memory limit in bytes.
    pub memory_limit: u64,
}

/// One loaded model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its name.
    pub name: String,
    /// The package's uuid.
    pub uuid: String,
    /// The id in the process.
    pub id: u32,
    /// Its cores, numbered on the machine.
    pub cores: Vec<u32>,
    /// The memory in bytes.
    pub bytes: u64,
    /// Whether an execution is running; only for models without cores, whose reports show it
    /// otherwise.
    #[serde(default)]
    pub running: bool,
}

impl ProcessReport {
    /// A report of this process without cores, models and executions.
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

    /// The reports of live processes, sorted by process id. Files of other formats, and files of
    /// another user than the process's, are ignored: any user can write into a shared folder. Only
    /// root reads reports of other users.
    pub fn read_all(folders: &[PathBuf]) -> Vec<Self> {
        let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
        let paths = entries
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()));
        let mut reports: Vec<Self> = paths.filter_map(|path| Self::read(&path)).collect();
        reports.sort_by_key(|report| report.pid);
        reports.dedup_by_key(|report| report.pid);
        reports
    }

    fn read(path: &Path) -> Option<Self> {
        let pid = reported_process(path.file_name()?.to_str()?)?;
        let process = ProcessIdentity::of(pid)?;
        let file = open_plain(CWD, path, OFlags::RDONLY, 0).ok()?;
        let found = file.metadata().ok()?;
        let is_its_own = found.uid() == process.user || found.uid() == 0;
        let is_shown = geteuid().is_root() || process.user == geteuid().as_raw();
        if !(is_its_own && is_shown) || found.len() > LARGEST {
            return None;
        }
        let mut text = Vec::new();
        file.take(LARGEST).read_to_end(&mut text).ok()?;
        let report: Self = serde_json::from_slice(&text).ok()?;
        let is_alive = report.pid == pid && process.started == report.started;
        (is_alive && report.format <= REPORT_FORMAT).then_some(report)
    }
}

/// The prefix of report files, followed by the process id.
const PREFIX: &str = "process-";

/// The process id in the name of a report file.
fn reported_process(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Start time and user of a process, which identify it.
struct ProcessIdentity {
    /// Start time in clock ticks since boot.
    started: u64,
    /// The file system user id.
    user: u32,
}

impl ProcessIdentity {
    /// The identity of a process; `None` if it does not exist.
    fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        // Real, effective, saved, of the file system (proc(5)).
        let user = users.split_whitespace().nth(3)?.parse().ok()?;
        Some(Self {
            started: process_start(pid)?,
            user,
        })
    }
}

/// The start time of a process (field 22 of `/proc/PID/stat`, proc(5)); `None` if it does not
/// exist.
fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain parentheses: field 3 is the first after the last one.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests;
