//! The last allocations and deallocations of a process, for the time when memory is used up.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::{Error, Result};

/// Where the log goes when memory is used up: the file of `TENON_MEMLOG_FILE`, or one in the folder
/// for temporary files.
pub(super) fn memory_log_file() -> PathBuf {
    std::env::var_os("TENON_MEMLOG_FILE").map_or_else(
        || std::env::temp_dir().join(format!("tenon-memlog-{}.csv", std::process::id())),
        PathBuf::from,
    )
}

/// The last allocations and deallocations.
#[derive(Debug)]
pub struct AllocationLog {
    started: Instant,
    most: usize,
    file: Option<PathBuf>,
    entries: Mutex<VecDeque<Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Duration,
    core: u32,
    allocated: bool,
    bytes: u64,
    /// Of its core, after.
    used: u64,
}

impl AllocationLog {
    /// A log of at most `most` entries, written to `file` when memory is used up.
    pub fn new(most: usize, file: Option<PathBuf>) -> Self {
        Self {
            started: Instant::now(),
            most,
            file,
            entries: Mutex::default(),
        }
    }

    pub(super) fn add(&self, core: u32, allocated: bool, bytes: u64, used: u64) {
        let at = self.started.elapsed();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.most && entries.pop_front().is_none() {
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

    /// As CSV: seconds since the log was made, core, what happened, bytes, bytes of the core after.
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

    /// Writes it to its file, if it has one; answers which.
    pub fn dump(&self) -> Result<Option<&Path>> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        std::fs::write(path, self.csv()).map_err(|error| Error::io(path, "write", error))?;
        Ok(Some(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
