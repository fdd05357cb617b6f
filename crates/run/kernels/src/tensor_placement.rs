//! The placement of tensors in memory of backends.

use crate::variables::Span;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_backend::{
    Backend, BackendId, EdgeStrategy, HandleFactory, MemorySource, common_source, edge_strategy,
    preferred_factory,
};
use tenon_base::{Count, Error, ErrorKind, Result, format_bytes};
use tenon_tensor::TensorType;

/// The tensors of a program that are in memory of backends: a service of its kernels, which request
/// placements when they are bound. Each execution allocates the tensors separately.
#[derive(Default)]
pub struct TensorPlacements {
    table: Mutex<PlacementTable>,
    limits: Vec<(BackendId, u64)>,
}

#[derive(Default)]
struct PlacementTable {
    placements: Vec<Arc<TensorPlacement>>,
    by_span: HashMap<Span, Vec<usize>>,
    /// The bytes of each workload, which several kernels may share, by its address.
    workloads: HashMap<usize, (BackendId, u64)>,
    /// The bytes of the workloads that are made or about to be made.
    reserved: BTreeMap<BackendId, u64>,
}

/// The memory of a backend that a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The backend.
    pub backend: BackendId,
    /// Bytes of the values of one execution.
    pub value_bytes: u64,
    /// Bytes that the workloads have for themselves, by their plans.
    pub workload_bytes: u64,
}

impl DeviceMemory {
    /// The sum for each backend, by backend.
    pub fn sums(all: impl IntoIterator<Item = DeviceMemory>) -> Vec<DeviceMemory> {
        let mut sums: BTreeMap<BackendId, DeviceMemory> = BTreeMap::new();
        for memory in all {
            match sums.get_mut(&memory.backend) {
                Some(sum) => {
                    sum.value_bytes = sum.value_bytes.saturating_add(memory.value_bytes);
                    sum.workload_bytes = sum.workload_bytes.saturating_add(memory.workload_bytes);
                }
                None => drop(sums.insert(memory.backend.clone(), memory)),
            }
        }
        sums.into_values().collect()
    }

    /// The bytes for concurrent executions.
    pub fn bytes(&self, executions: usize) -> u64 {
        let values = self.value_bytes.saturating_mul(executions as u64);
        values.saturating_add(self.workload_bytes)
    }

    /// The error of a model whose workloads and concurrent executions need more than `limit` bytes.
    pub fn exceeds(&self, executions: usize, limit: u64) -> Error {
        let (all, workloads) = (self.bytes(executions), format_bytes(self.workload_bytes));
        let found = match executions {
            0 => format!("{all} bytes ({workloads}) for workloads alone"),
            _ => format!(
                "{all} bytes ({}): workloads {workloads}, values of {} {}",
                format_bytes(all),
                Count(executions, "execution"),
                format_bytes(all - self.workload_bytes),
            ),
        };
        let text = format!(
            "the model needs more memory of backend {} than its limit allows",
            self.backend
        );
        Error::new(ErrorKind::OutOfMemory, text)
            .expected(format_args!(
                "at most {limit} bytes ({})",
                format_bytes(limit)
            ))
            .found(found)
            .help("raise the limit of the backend's memory, or place fewer nodes on the backend")
    }
}

/// A tensor in memory of a backend, in placement of a span of plain memory.
pub(crate) struct TensorPlacement {
    pub span: Span,
    pub ty: TensorType,
    pub backend: Arc<dyn Backend>,
    pub factory: HandleFactory,
    pub origin: Origin,
}

/// The memory of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Memory allocated by the backend: elements are copied.
    Allocated,
    /// Imported plain memory of its span.
    Plain,
    /// Imported memory of the tensor at a position, which exports it as this source.
    Tensor(usize, MemorySource),
}

impl TensorPlacements {
    /// Placements for a model with limits on the memory of backends in bytes.
    pub fn with_limits(limits: Vec<(BackendId, u64)>) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Counts the bytes of a workload before it is made.
    ///
    /// # Errors
    /// The workloads of the backend exceed its limit.
    pub(crate) fn reserve(&self, backend: &BackendId, bytes: u64) -> Result<()> {
        let mut table = self.lock();
        let reserved = table.reserved.entry(backend.clone()).or_default();
        *reserved = reserved.saturating_add(bytes);
        self.excess(&table).map_or(Ok(()), Err)
    }

    /// The error of the workloads that exceed limits together, if they do.
    pub fn limit_error(&self) -> Option<Error> {
        self.excess(&self.lock())
    }

    fn excess(&self, table: &PlacementTable) -> Option<Error> {
        let exceeded = self.limits.iter().filter_map(|(backend, limit)| {
            let memory = DeviceMemory {
                backend: backend.clone(),
                value_bytes: 0,
                workload_bytes: *table.reserved.get(backend)?,
            };
            (memory.workload_bytes > *limit).then(|| memory.exceeds(0, *limit))
        });
        Error::from_all(exceeded.collect::<Vec<_>>())
    }

    /// The placement of a tensor of a workload of `backend`, whose preferences are `factories`: a
    /// tensor that another backend has in compatible memory, one imported from memory that another
    /// backend exports, one imported from plain memory, or one allocated by the backend
    /// (backends 7.7).
    pub(crate) fn of(
        &self,
        backend: &Arc<dyn Backend>,
        factories: &[HandleFactory],
        span: Span,
        ty: &TensorType,
    ) -> Result<usize> {
        let Some(factory) = preferred_factory(factories) else {
            let text = format!(
                "tensors cannot pass between plain memory and backend {}",
                backend.id()
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let mut all = self.lock();
        let PlacementTable {
            placements,
            by_span,
            ..
        } = &mut *all;
        let known = by_span.entry(span).or_default();
        let alike = |placement: &TensorPlacement| {
            placement.ty == *ty
                || (!placement.factory.padding && placement.ty.dtype() == ty.dtype())
        };
        let mut origin = match edge_strategy(&[], factories) {
            Some(EdgeStrategy::Export) => Origin::Plain,
            _ => Origin::Allocated,
        };
        for &position in &*known {
            let placement = &placements[position];
            if !alike(placement) {
                continue;
            }
            match edge_strategy(std::slice::from_ref(&placement.factory), factories) {
                Some(EdgeStrategy::Direct) => return Ok(position),
                Some(EdgeStrategy::Export) if !matches!(origin, Origin::Tensor(..)) => {
                    let source = common_source(&placement.factory, factory);
                    origin = source.map_or(origin, |source| Origin::Tensor(position, source));
                }
                _ => {}
            }
        }
        known.push(placements.len());
        placements.push(Arc::new(TensorPlacement {
            span,
            ty: ty.clone(),
            backend: backend.clone(),
            factory: factory.clone(),
            origin,
        }));
        Ok(placements.len() - 1)
    }

    /// Adds a workload at an address, which has bytes of its backend's memory for itself.
    pub(crate) fn add_workload(&self, address: usize, backend: BackendId, bytes: u64) {
        self.lock().workloads.insert(address, (backend, bytes));
    }

    /// The memory of each backend with separate memory, by backend.
    pub fn device_memory(&self) -> Vec<DeviceMemory> {
        let all = self.lock();
        let values = all.placements.iter().map(|placement| DeviceMemory {
            backend: placement.backend.id(),
            value_bytes: match placement.origin {
                Origin::Allocated => placement.span.len as u64,
                Origin::Plain | Origin::Tensor(..) => 0,
            },
            workload_bytes: 0,
        });
        let workloads = all.workloads.values();
        let workloads = workloads.map(|(backend, bytes)| DeviceMemory {
            backend: backend.clone(),
            value_bytes: 0,
            workload_bytes: *bytes,
        });
        DeviceMemory::sums(values.chain(workloads))
    }

    /// The placements from position `first` on.
    pub(crate) fn starting_at(&self, first: usize) -> Vec<Arc<TensorPlacement>> {
        self.lock()
            .placements
            .get(first..)
            .unwrap_or_default()
            .to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, PlacementTable> {
        // A holder that panicked leaves complete entries.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
