//! The host allocator: accounts for the memory that kernels use for their data.
//!
//! It grants and counts bytes; the memory itself comes from Rust's allocator. A grant that is still
//! alive when the host ends is a leak (bef 5.1, 5.3).

use crate::log::{Log, Severity};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind};

/// Capacity of [`AllocatorKind::TestFixedSize1k`] in bytes.
const CAPACITY: usize = 1024;
/// Grants of at most this many bytes do not use [`CAPACITY`].
const EXEMPT: usize = 32;

/// The kind of a host's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocatorKind {
    /// Grants everything.
    #[default]
    Malloc,
    /// Has a capacity of 1024 bytes, and logs each allocation.
    TestFixedSize1k,
    /// Grants everything, and prints statistics at the end.
    Profiled,
    /// Grants everything, and reports at the end the grants that were not freed.
    LeakCheck,
}

impl AllocatorKind {
    /// Every kind.
    pub const ALL: [AllocatorKind; 4] = [
        AllocatorKind::Malloc,
        AllocatorKind::TestFixedSize1k,
        AllocatorKind::Profiled,
        AllocatorKind::LeakCheck,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AllocatorKind::Malloc => "malloc",
            AllocatorKind::TestFixedSize1k => "test_fixed_size_1k",
            AllocatorKind::Profiled => "profiled_allocator",
            AllocatorKind::LeakCheck => "leak_check_allocator",
        }
    }

    /// The line printed when the allocator is chosen.
    pub fn announcement(self) -> &'static str {
        match self {
            AllocatorKind::Malloc => "Choosing malloc.",
            AllocatorKind::TestFixedSize1k => "Choosing fixed size malloc.",
            AllocatorKind::Profiled => "Choosing profiled allocator based on malloc.",
            AllocatorKind::LeakCheck => "Choosing memory leak check allocator.",
        }
    }
}

impl FromStr for AllocatorKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "unknown allocator")
                .expected(Self::ALL.map(AllocatorKind::name).join(", "))
                .found(text)
        })
    }
}

/// Grants bytes and counts the live ones. Clones share the counts.
#[derive(Clone)]
pub struct HostAllocator(Arc<State>);

struct State {
    kind: AllocatorKind,
    log: Log,
    /// Bytes used of [`CAPACITY`]; a lock, so that log lines are in the order of grants.
    taken: Mutex<usize>,
    grants: Counter,
    bytes: Counter,
    total: AtomicU64,
}

/// The live amount and its peak.
#[derive(Default)]
struct Counter {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn add(&self, amount: u64) {
        let now = self.now.fetch_add(amount, Ordering::Relaxed) + amount;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn subtract(&self, amount: u64) {
        self.now.fetch_sub(amount, Ordering::Relaxed);
    }
}

/// Bytes granted; freed when dropped.
pub struct Grant {
    allocator: HostAllocator,
    bytes: usize,
}

/// The counts of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Live grants.
    pub grants: u64,
    /// The peak of live grants.
    pub peak_grants: u64,
    /// All grants, freed ones included.
    pub total_grants: u64,
    /// Live bytes.
    pub bytes: u64,
    /// The peak of live bytes.
    pub peak_bytes: u64,
}

impl HostAllocator {
    /// An allocator; the fixed-size one writes to `log`.
    pub fn new(kind: AllocatorKind, log: Log) -> Self {
        Self(Arc::new(State {
            kind,
            log,
            taken: Mutex::new(0),
            grants: Counter::default(),
            bytes: Counter::default(),
            total: AtomicU64::new(0),
        }))
    }

    /// The kind.
    pub fn kind(&self) -> AllocatorKind {
        self.0.kind
    }

    /// Grants `bytes`; `None` when the capacity does not suffice.
    pub fn grant(&self, bytes: usize) -> Option<Grant> {
        if !self.0.take(bytes) {
            return None;
        }
        self.0.grants.add(1);
        self.0.bytes.add(bytes as u64);
        self.0.total.fetch_add(1, Ordering::Relaxed);
        Some(Grant {
            allocator: self.clone(),
            bytes,
        })
    }

    /// The counts so far.
    pub fn statistics(&self) -> Statistics {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Statistics {
            grants: read(&self.0.grants.now),
            peak_grants: read(&self.0.grants.peak),
            total_grants: read(&self.0.total),
            bytes: read(&self.0.bytes.now),
            peak_bytes: read(&self.0.bytes.peak),
        }
    }

    /// The text to print when the host ends, and whether memory leaked: the profile of the profiled
    /// allocator; the profile and the leak of the leak check when bytes are still live.
    pub fn exit_report(&self) -> ExitReport {
        let statistics = self.statistics();
        match self.0.kind {
            AllocatorKind::Profiled => ExitReport {
                text: statistics.to_string(),
                leaked: false,
            },
            AllocatorKind::LeakCheck if statistics.bytes > 0 => ExitReport {
                text: format!(
                    "{statistics}Memory leak detected: {} alive allocations, {} alive bytes\n",
                    statistics.grants, statistics.bytes
                ),
                leaked: true,
            },
            _ => ExitReport::default(),
        }
    }
}

/// The report of an allocator when its host ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExitReport {
    /// Lines for standard output, each with its newline.
    pub text: String,
    /// Whether memory leaked; the exit status must then be an error.
    pub leaked: bool,
}

impl State {
    fn take(&self, bytes: usize) -> bool {
        if self.kind != AllocatorKind::TestFixedSize1k || bytes <= EXEMPT {
            return true;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let left = CAPACITY - *taken;
        if bytes > left {
            self.log.write(
                Severity::Error,
                format_args!(
                    "Attempted to allocate {bytes} bytes. However current capacity is only {left}."
                ),
            );
            return false;
        }
        *taken += bytes;
        self.log.write(
            Severity::Info,
            format_args!("Allocating {bytes} bytes. {} remaining.", left - bytes),
        );
        true
    }

    fn free(&self, bytes: usize) {
        self.grants.subtract(1);
        self.bytes.subtract(bytes as u64);
        if self.kind != AllocatorKind::TestFixedSize1k || bytes <= EXEMPT {
            return;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken -= bytes;
        self.log.write(
            Severity::Info,
            format_args!("Freeing {bytes} bytes. {} available.", CAPACITY - *taken),
        );
    }
}

impl Grant {
    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Never frees the bytes, for tests of the leak check.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.allocator.0.free(self.bytes);
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({} bytes)", self.bytes)
    }
}

impl fmt::Debug for HostAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HostAllocator({}, {:?})",
            self.0.kind.name(),
            self.statistics()
        )
    }
}

impl fmt::Display for Statistics {
    /// The profile as the original prints it, one line per count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HostAllocator profile:")?;
        let lines = [
            ("Current number of allocations", self.grants),
            ("Max number of allocations", self.peak_grants),
            ("Total number of allocations", self.total_grants),
            ("Current number of bytes allocated", self.bytes),
            ("Max number of bytes allocated", self.peak_bytes),
        ];
        lines
            .iter()
            .try_for_each(|(what, number)| writeln!(f, "{what} = {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(kind: AllocatorKind) -> (HostAllocator, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let log = Log::new(move |severity, text| {
            let line = format!("{} {text}", severity.letter());
            sink.lock().unwrap().push(line);
        });
        (HostAllocator::new(kind, log), lines)
    }

    #[test]
    fn the_fixed_size_allocator_refuses_more_than_its_capacity() {
        // The sizes of bef 4.3: a header of 64 bytes and 32 or 1024 elements of 4 bytes.
        let (allocator, lines) = logged(AllocatorKind::TestFixedSize1k);
        let first = allocator.grant(192).unwrap();
        assert!(allocator.grant(4160).is_none());
        let exempt = allocator.grant(32).unwrap();
        drop((first, exempt));
        assert_eq!(
            *lines.lock().unwrap(),
            [
                "I Allocating 192 bytes. 832 remaining.",
                "E Attempted to allocate 4160 bytes. However current capacity is only 832.",
                "I Freeing 192 bytes. 1024 available.",
            ]
        );
        assert_eq!(allocator.statistics().total_grants, 2);
    }

    #[test]
    fn a_leak_is_reported_and_a_clean_exit_prints_nothing() {
        let (allocator, lines) = logged(AllocatorKind::LeakCheck);
        drop(allocator.grant(100));
        assert_eq!(allocator.exit_report(), ExitReport::default());
        allocator.grant(4).unwrap().leak();
        let report = allocator.exit_report();
        assert!(report.leaked);
        assert_eq!(
            report.text,
            "HostAllocator profile:\n\
             Current number of allocations = 1\n\
             Max number of allocations = 1\n\
             Total number of allocations = 2\n\
             Current number of bytes allocated = 4\n\
             Max number of bytes allocated = 100\n\
             Memory leak detected: 1 alive allocations, 4 alive bytes\n"
        );
        assert!(lines.lock().unwrap().is_empty());
    }

    #[test]
    fn the_profiled_allocator_always_prints() {
        let (allocator, _) = logged(AllocatorKind::Profiled);
        let report = allocator.exit_report();
        assert!(!report.leaked && report.text.lines().count() == 6);
        assert!(
            logged(AllocatorKind::Malloc)
                .0
                .exit_report()
                .text
                .is_empty()
        );
    }

    #[test]
    fn kinds_parse_from_their_names() {
        for kind in AllocatorKind::ALL {
            assert_eq!(kind.name().parse::<AllocatorKind>().unwrap(), kind);
        }
        assert_eq!(
            "x".parse::<AllocatorKind>().unwrap_err().to_string(),
            "unknown allocator: expected malloc, test_fixed_size_1k, profiled_allocator, \
             leak_check_allocator, found x"
        );
    }
}
