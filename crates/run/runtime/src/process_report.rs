//! What a process that runs models tells those who watch: a file of its own in a shared folder
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

/// The newest `format` that this build reads, and the one it writes.
pub const REPORT_FORMAT: u32 = 1;

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
    /// Whether it executes now, where it has no cores, which tell that otherwise.
    #[serde(default)]
    pub running: bool,
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

    /// The reports of processes that are alive, by process. Files that are no reports of this
    /// format, and those of another user than the process's, are left out: anybody may write into
    /// a shared folder. Only root reads reports of others.
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

/// What files of reports begin with; the process's number follows.
const PREFIX: &str = "process-";

/// The process that a file of this name reports.
fn reported_process(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// What tells a process from others.
struct ProcessIdentity {
    /// In ticks since the machine started.
    started: u64,
    /// The user as whom it creates files.
    user: u32,
}

impl ProcessIdentity {
    /// That of a process; `None` when there is none.
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

/// When a process started (field 22 of `/proc/PID/stat`, proc(5)); `None` when there is none.
fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also parentheses: 3 is the first field behind it.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests;
