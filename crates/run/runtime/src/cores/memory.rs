//! Memory accounting of cores: a limit, and the use by category.

use super::AllocationLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_base::{Error, ErrorKind, Result};

/// The categories of memory use that monitors report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryUse {
    /// Constants of loaded models.
    Constants,
    /// Programs of loaded models.
    Code,
    /// Memory of executions.
    Scratch,
    /// Tensors of the caller.
    Tensors,
}

impl MemoryUse {
    /// Every use.
    pub const ALL: [Self; 4] = [Self::Constants, Self::Code, Self::Scratch, Self::Tensors];
}

/// The memory account of one core. It counts bytes and allocates nothing.
#[derive(Debug)]
pub struct CoreMemory {
    core: u32,
    limit: u64,
    used: AtomicU64,
    by_use: [AtomicU64; MemoryUse::ALL.len()],
    log: Arc<AllocationLog>,
}

impl CoreMemory {
    pub(super) fn new(core: u32, limit: u64, log: Arc<AllocationLog>) -> Self {
        Self {
            core,
            limit,
            used: AtomicU64::new(0),
            by_use: Default::default(),
            log,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes in use in one category.
    pub fn used_for(&self, what: MemoryUse) -> u64 {
        self.by_use[what as usize].load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Counts `bytes` as used until the reservation is dropped.
    ///
    /// # Errors
    /// `OutOfMemory` when the limit would be exceeded; then the allocation log is written, if it
    /// has a file.
    pub fn reserve(self: &Arc<Self>, what: MemoryUse, bytes: u64) -> Result<Reservation> {
        let limit = self.limit;
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        {
            Ok(used) => {
                self.by_use[what as usize].fetch_add(bytes, Ordering::Relaxed);
                self.log.add(self.core, true, bytes, used + bytes);
                Ok(Reservation {
                    memory: self.clone(),
                    what,
                    bytes,
                })
            }
            Err(used) => Err(self.exhausted(bytes, used)),
        }
    }

    fn exhausted(&self, bytes: u64, used: u64) -> Error {
        let error = Error::new(
            ErrorKind::OutOfMemory,
            format!("core {} has insufficient memory", self.core),
        )
        .expected(format_args!(
            "at most {} bytes ({used} of {} in use)",
            self.limit - used.min(self.limit),
            self.limit
        ))
        .found(format_args!("{bytes} bytes"));
        let help = "free tensors or models, or raise TENON_CORE_MEMORY (bytes a core)";
        match self.log.dump() {
            Ok(Some(path)) => error.help(format!(
                "{help}; the last allocations are listed in {}",
                path.display()
            )),
            Ok(None) | Err(_) => error.help(help),
        }
    }
}

/// Bytes counted as used on a core, until dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: Arc<CoreMemory>,
    what: MemoryUse,
    bytes: u64,
}

impl Reservation {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let memory = &self.memory;
        memory.by_use[self.what as usize].fetch_sub(self.bytes, Ordering::Relaxed);
        let used = memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        memory
            .log
            .add(memory.core, false, self.bytes, used - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLogFile;

    #[test]
    fn memory_is_counted_up_to_its_limit_and_released() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.csv");
        let log = Arc::new(AllocationLog::new(
            8,
            Some(MemoryLogFile::Named(file.clone())),
        ));
        let memory = Arc::new(CoreMemory::new(3, 100, log.clone()));
        let first = memory.reserve(MemoryUse::Tensors, 60).unwrap();
        let error = memory.reserve(MemoryUse::Constants, 41).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(
            error.to_string().starts_with(
                "core 3 has insufficient memory: \
                 expected at most 40 bytes (60 of 100 in use), found 41 bytes"
            ),
            "{error}"
        );
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(written.ends_with(",3,allocate,60,60\n"), "{written}");
        assert!(memory.reserve(MemoryUse::Tensors, u64::MAX).is_err());
        let second = memory.reserve(MemoryUse::Constants, 40).unwrap();
        assert_eq!(memory.used(), 100);
        assert_eq!(memory.used_for(MemoryUse::Tensors), first.bytes());
        drop((first, second));
        assert_eq!(memory.used(), 0);
        assert_eq!(memory.used_for(MemoryUse::Constants), 0);
        assert_eq!(log.csv().lines().count(), 5);
    }
}
