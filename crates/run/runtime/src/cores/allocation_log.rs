//! A log of the last allocations and deallocations of a process, written when memory is exhausted.

use crate::SharedFolder;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::{Error, Result};
use tenon_tensor::atomic_file::AtomicFile;

/// The file to which the log is written when memory is exhausted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryLogFile {
    /// A file named by the user; a device or pipe is written to.
    Named(PathBuf),
    /// `tenon-memlog-PID.csv` in the folder for temporary files. Because its name is predictable,
    /// it is never written through a link, and only its user can read it.
    Temporary,
}

impl MemoryLogFile {
    /// The file of `TENON_MEMLOG_FILE`, else the temporary one.
    pub fn from_environment() -> Self {
        std::env::var_os("TENON_MEMLOG_FILE")
            .map_or(Self::Temporary, |file| Self::Named(file.into()))
    }

    /// Writes the file; returns its path.
    fn write(&self, text: &str) -> Result<PathBuf> {
        let write = |path: &Path| {
            let mut file = AtomicFile::create(path)?;
            file.file().write_all(text.as_bytes())?;
            file.commit()
        };
        match self {
            Self::Named(path) => {
                write(path).map_err(|error| Error::io(path, "write", error))?;
                Ok(path.clone())
            }
            Self::Temporary => {
                let name = format!("tenon-memlog-{}.csv", std::process::id());
                let temporary = SharedFolder::open(&std::env::temp_dir());
                let folder = temporary.or_else(|_| SharedFolder::own())?;
                let path = folder.path().join(&name);
                let written = folder.write(&name, text.as_bytes());
                written.map_err(|error| Error::io(&path, "write", error))?;
                Ok(path)
            }
        }
    }
}

/// A ring of the last allocations and deallocations.
#[derive(Debug)]
pub struct AllocationLog {
    started: Instant,
    capacity: usize,
    file: Option<MemoryLogFile>,
    entries: Mutex<VecDeque<Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Duration,
    core: u32,
    allocated: bool,
    bytes: u64,
    /// Bytes used on the core afterwards.
    used: u64,
}

impl AllocationLog {
    /// A log of at most `capacity` entries, written to `file` when memory is exhausted.
    pub fn new(capacity: usize, file: Option<MemoryLogFile>) -> Self {
        Self {
            started: Instant::now(),
            capacity,
            file,
            entries: Mutex::default(),
        }
    }

    pub(super) fn add(&self, core: u32, allocated: bool, bytes: u64, used: u64) {
        let at = self.started.elapsed();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.capacity && entries.pop_front().is_none() {
            return;
        }
        entries.push_back(Entry {
            at,
            core,
            allocated,
            bytes,
            used,
        });
    }

    /// As CSV: seconds since the creation of the log, core, event, bytes, bytes used on the core
    /// afterwards.
    pub fn csv(&self) -> String {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from("seconds,core,event,bytes,used\n");
        for entry in entries.iter() {
            let event = if entry.allocated { "allocate" } else { "free" };
            let seconds = entry.at.as_secs_f64();
            let Entry {
                core, bytes, used, ..
            } = entry;
            let _ = writeln!(text, "{seconds:.6},{core},{event},{bytes},{used}");
        }
        text
    }

    /// Writes the log to its file, if it has one; returns the path.
    pub fn dump(&self) -> Result<Option<PathBuf>> {
        let file = self.file.as_ref();
        file.map(|file| file.write(&self.csv())).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_at_the_path_of_the_log_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("target");
        std::fs::write(&target, "untouched").unwrap();
        let name = format!("tenon-memlog-{}.csv", std::process::id());
        let link = std::env::temp_dir().join(name);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let log = AllocationLog::new(2, Some(MemoryLogFile::Temporary));
        let written = log.dump().unwrap().unwrap();
        assert!(!written.is_symlink());
        assert_eq!(std::fs::read_to_string(&written).unwrap(), log.csv());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
        let _ = std::fs::remove_file(&written);
        let _ = std::fs::remove_file(&link);
    }

    #[test]
    fn the_last_entries_are_kept() {
        let log = AllocationLog::new(2, None);
        log.add(0, true, 10, 10);
        log.add(1, true, 20, 20);
        log.add(0, false, 10, 0);
        let text = log.csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "seconds,core,event,bytes,used");
        assert!(lines[1].ends_with(",1,allocate,20,20"), "{text}");
        assert!(lines[2].ends_with(",0,free,10,0"), "{text}");
        assert_eq!(lines.len(), 3);
        let none = AllocationLog::new(0, None);
        none.add(0, true, 1, 1);
        assert_eq!(none.csv().lines().count(), 1);
    }
}
