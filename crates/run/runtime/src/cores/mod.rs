//! Virtual cores, onto which models are loaded and on which executions are serialised.
//!
//! A core is a mutual exclusion of executions and a memory account. Its executions run on the
//! thread pool of the process: a single execution uses all CPUs, several share them.

mod allocation_log;
mod claim;
mod memory;
mod report;
mod selection;
mod wait_queue;

pub use allocation_log::{AllocationLog, MemoryLogFile};
pub use claim::{CoreClaim, core_owner};
pub use memory::{CoreMemory, MemoryUse, Reservation};
pub use selection::CoreSelection;
pub use wait_queue::{CoreGroup, CoreGuard};

use crate::counters::Histogram;
use crate::{Activity, SharedFolder};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenon_base::{Error, ErrorKind, Result};
use wait_queue::WaitQueue;

/// The maximum number of cores of a machine, limited by the bits in sequence numbers of requests.
pub const MAX_CORES: u32 = 2048;

/// The default number of logged allocations.
const LOGGED_ALLOCATIONS: usize = 1 << 20;

/// Options of a process's cores.
#[derive(Debug, Clone, Default)]
pub struct CoreOptions {
    /// The number of cores of the machine; the number of CPUs when `None`.
    pub total: Option<u32>,
    /// The number of physical cores (locks) per logical core; 1 when `None`.
    pub logical_size: Option<u32>,
    /// The cores of this process.
    pub selection: CoreSelection,
    /// The memory limit per core in bytes; an equal share of the machine's memory when `None`.
    pub memory: Option<u64>,
    /// The folder of the locks by which processes own cores; cores are not locked when `None`.
    pub locks: Option<SharedFolder>,
    /// The number of allocations and deallocations that the log keeps; 1 048 576 when `None`.
    pub logged_allocations: Option<usize>,
    /// The file to which the log is written when memory is exhausted.
    pub memory_log: Option<MemoryLogFile>,
}

impl CoreOptions {
    /// The options from the environment: `TENON_CORES`, `NEURON_LOGICAL_NC_CONFIG`,
    /// `TENON_CORE_MEMORY`, `NEURON_RT_DEBUG_MEMLOG_MAX_SIZE`, `TENON_MEMLOG_FILE` and the
    /// variables of [`CoreSelection::from_environment`]. `locks` is left `None`:
    /// [`SharedFolder::find`] returns the folder, and the error when the configured one is
    /// unusable.
    pub fn from_environment() -> Result<Self> {
        let logged = number("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", u64::from(u32::MAX))?;
        Ok(Self {
            total: Some(total_cores()?),
            logical_size: Some(logical_core_size()?),
            selection: CoreSelection::from_environment()?,
            memory: number("TENON_CORE_MEMORY", u64::MAX)?,
            locks: None,
            logged_allocations: logged.map(|count| count as usize),
            memory_log: Some(MemoryLogFile::from_environment()),
        })
    }
}

/// The number of logical cores of the machine: `TENON_CORES` or the number of CPUs, divided by
/// [`logical_core_size`].
pub fn total_cores() -> Result<u32> {
    let cpus = || std::thread::available_parallelism().map_or(1, |count| count.get());
    let set = number("TENON_CORES", u64::from(MAX_CORES))?;
    let physical = set.unwrap_or(cpus() as u64).min(u64::from(MAX_CORES)) as u32;
    match (physical, logical_core_size()?) {
        (physical, size) if size <= physical => Ok(physical / size),
        (physical, size) => Err(Error::new(
            ErrorKind::NotEnoughCores,
            format!("{LOGICAL_SIZE} exceeds the number of cores of the machine"),
        )
        .expected(format_args!(
            "at most {physical} (TENON_CORES sets how many there are)"
        ))
        .found(size)),
    }
}

/// The variable with the number of physical cores per logical core.
const LOGICAL_SIZE: &str = "NEURON_LOGICAL_NC_CONFIG";

/// The number of physical cores per logical core: `NEURON_LOGICAL_NC_CONFIG`, or 1.
pub fn logical_core_size() -> Result<u32> {
    let set = number(LOGICAL_SIZE, u64::from(MAX_CORES))?;
    Ok(set.unwrap_or(1) as u32)
}

/// The cores of a process, numbered from 0. Clones share them.
#[derive(Debug, Clone)]
pub struct Cores(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cores: Vec<Arc<Core>>,
    queue: Arc<WaitQueue>,
    claim: Option<CoreClaim>,
    /// The machine's number of core 0.
    first: u32,
    activity: Activity,
}

/// One core.
#[derive(Debug)]
pub struct Core {
    index: u32,
    memory: Arc<CoreMemory>,
    busy: AtomicBool,
    /// The time when a waiting thread was last woken for this core.
    last_wake: Mutex<Option<Instant>>,
    /// The last thread that executed on it; 0 before the first.
    holder: AtomicU64,
    executions: AtomicU64,
    busy_nanos: AtomicU64,
    flops: AtomicU64,
    latencies: Histogram,
    models: AtomicU64,
}

impl Cores {
    /// Creates the cores, and claims them if there is a folder of locks.
    pub fn new(options: &CoreOptions) -> Result<Self> {
        let total = options.total.map_or_else(total_cores, Ok)?;
        let claim = match &options.locks {
            Some(folder) => {
                let size = options.logical_size.unwrap_or(1);
                Some(CoreClaim::take(folder, &options.selection, total, size)?)
            }
            None => None,
        };
        let range = match (&claim, &options.selection) {
            (Some(claim), _) => claim.cores(),
            (None, CoreSelection::Range(range)) => range.clone(),
            (None, selection) => 0..selection.count(total),
        };
        let limit = options
            .memory
            .unwrap_or_else(|| machine_memory() / u64::from(total.max(1)));
        let logged = options.logged_allocations.unwrap_or(LOGGED_ALLOCATIONS);
        let log = Arc::new(AllocationLog::new(logged, options.memory_log.clone()));
        let core = |index| {
            Arc::new(Core {
                index,
                memory: Arc::new(CoreMemory::new(index, limit, log.clone())),
                busy: AtomicBool::new(false),
                last_wake: Mutex::default(),
                holder: AtomicU64::new(0),
                executions: AtomicU64::new(0),
                busy_nanos: AtomicU64::new(0),
                flops: AtomicU64::new(0),
                latencies: Histogram::default(),
                models: AtomicU64::new(0),
            })
        };
        Ok(Self(Arc::new(Inner {
            cores: (0..range.len() as u32).map(core).collect(),
            queue: Arc::default(),
            claim,
            first: range.start,
            activity: Activity::default(),
        })))
    }

    /// The number of cores.
    pub fn len(&self) -> usize {
        self.0.cores.len()
    }

    /// Whether there are none; always false.
    pub fn is_empty(&self) -> bool {
        self.0.cores.is_empty()
    }

    /// The machine's number of core 0.
    pub fn first(&self) -> u32 {
        self.0.first
    }

    /// The cores in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.0.cores.iter()
    }

    /// The locks of the cores.
    pub fn claim(&self) -> Option<&CoreClaim> {
        self.0.claim.as_ref()
    }

    /// One core; an error for an index out of range.
    pub fn core(&self, index: u32) -> Result<&Arc<Core>> {
        let core = self.0.cores.get(index as usize);
        core.ok_or_else(|| self.outside(format_args!("core {index}")))
    }

    /// Several cores for one model.
    pub fn group(&self, range: Range<u32>) -> Result<CoreGroup> {
        let cores = self.0.cores.get(range.start as usize..range.end as usize);
        let cores = cores.filter(|cores| !cores.is_empty()).ok_or_else(|| {
            let (start, count) = (range.start, range.end.saturating_sub(range.start));
            self.outside(format_args!("{count} from core {start} on"))
        })?;
        Ok(CoreGroup::new(cores.iter().cloned(), self.0.queue.clone()))
    }

    /// The start of the `count` consecutive cores with the fewest models.
    pub fn least_used(&self, count: u32) -> Result<u32> {
        let models: Vec<u64> = self.iter().map(|core| core.models()).collect();
        let sums = models.windows((count as usize).max(1)).map(|all| {
            // Ordered by the maximum, then by the sum.
            (all.iter().copied().max(), all.iter().sum::<u64>())
        });
        let best = sums.enumerate().min_by_key(|(_, load)| *load);
        best.map(|(start, _)| start as u32)
            .ok_or_else(|| self.outside(format_args!("{count} cores")))
    }

    fn outside(&self, found: std::fmt::Arguments<'_>) -> Error {
        let have = match self.len() {
            1 => "1 core".to_owned(),
            count => format!("cores 0 to {}", count - 1),
        };
        Error::new(
            ErrorKind::NotEnoughCores,
            "the process does not have these cores",
        )
        .expected(have)
        .found(found)
    }
}

impl Core {
    /// The index among the cores of the process.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The memory account.
    pub fn memory(&self) -> &Arc<CoreMemory> {
        &self.memory
    }

    /// The number of executions.
    pub fn executions(&self) -> u64 {
        self.executions.load(Ordering::Relaxed)
    }

    /// The total time of completed executions.
    pub fn busy_time(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.load(Ordering::Relaxed))
    }

    /// Whether an execution is running.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The number of loaded models.
    pub fn models(&self) -> u64 {
        self.models.load(Ordering::Relaxed)
    }

    pub(crate) fn add_model(&self) {
        self.models.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_model(&self) {
        self.models.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts the arithmetic operations of the current execution.
    pub(crate) fn computes(&self, flops: u64) {
        self.flops.fetch_add(flops, Ordering::Relaxed);
    }

    fn count(&self, time: Duration) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.latencies.add(time);
        self.busy_nanos
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The machine's memory in bytes; unlimited if the system does not report it.
fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let bytes = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    if bytes == 0 { u64::MAX } else { bytes }
}

/// Reads an environment variable with an integer from 1 to `most`.
fn number(name: &str, most: u64) -> Result<Option<u64>> {
    let Ok(text) = std::env::var(name) else {
        return Ok(None);
    };
    let number = text.trim().parse().ok();
    match number.filter(|number| (1..=most).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{name} is not a valid number"),
        )
        .expected(format_args!("a number from 1 to {most}"))
        .found(format_args!("'{text}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_numbered_from_the_first_owned_core() {
        let folder = tempfile::tempdir().unwrap();
        let cores = Cores::new(&CoreOptions {
            total: Some(8),
            selection: CoreSelection::Range(3..5),
            memory: Some(1000),
            locks: Some(SharedFolder::open(folder.path()).unwrap()),
            ..CoreOptions::default()
        })
        .unwrap();
        assert_eq!((cores.len(), cores.first()), (2, 3));
        assert_eq!(cores.core(1).unwrap().memory().limit(), 1000);
        assert_eq!(core_owner(folder.path(), 4), Some(std::process::id()));
        let error = cores.core(2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the process does not have these cores: expected cores 0 to 1, found core 2"
        );
        assert!(cores.group(1..3).is_err() && cores.group(1..1).is_err());
    }

    #[test]
    fn the_least_used_cores_are_found() {
        let cores = Cores::new(&CoreOptions {
            total: Some(4),
            ..CoreOptions::default()
        })
        .unwrap();
        assert_eq!(cores.least_used(2).unwrap(), 0);
        cores.core(1).unwrap().add_model();
        assert_eq!(cores.least_used(1).unwrap(), 0);
        assert_eq!(cores.least_used(2).unwrap(), 2);
        cores.core(0).unwrap().add_model();
        assert_eq!(cores.least_used(1).unwrap(), 2);
        assert_eq!(cores.least_used(4).unwrap(), 0);
        assert!(cores.least_used(5).is_err());
        cores.core(1).unwrap().remove_model();
        assert_eq!(cores.core(1).unwrap().models(), 0);
    }
}
