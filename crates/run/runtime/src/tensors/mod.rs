//! Tensors of the caller: named memory on a core or on the host, shared by slices.

mod completion;
mod set;
mod storage;

pub use set::TensorSet;

use crate::cores::{Core, MemoryUse};
use completion::Completion;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;
use tenon_base::{Error, ErrorKind, Result};

pub(crate) use storage::{AccessMode, Borrow, Storage};

/// The maximum size of a tensor in host memory for transfers: one page (nrt 1.7).
pub const MAX_HOST_BYTES: usize = 4 << 20;

/// The placement of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the memory of a core.
    Device,
    /// In host memory for transfers, at most [`MAX_HOST_BYTES`].
    Host,
    /// In plain host memory, of the process or attached by the caller.
    Virtual,
}

/// Named memory. Clones are the same tensor; [`CoreTensor::slice`] makes a tensor of a part of the
/// memory, which lives as long as any of them.
///
/// ```
/// use tenon_runtime::{CoreOptions, CoreTensor, Cores, Placement};
/// let cores = Cores::new(&CoreOptions::default())?;
/// let tensor = CoreTensor::allocate(cores.core(0)?, Placement::Device, 8, "x")?;
/// let half = tensor.slice(4, 4, "x.half")?;
/// half.write(0, &[1, 2, 3, 4])?;
/// let mut bytes = [0; 8];
/// tensor.read(0, &mut bytes)?;
/// assert_eq!(bytes, [0, 0, 0, 0, 1, 2, 3, 4]);
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Clone)]
pub struct CoreTensor(Arc<Inner>);

/// A weak reference to a tensor.
#[derive(Clone)]
pub(crate) struct WeakTensor(Weak<Inner>);

struct Inner {
    name: Box<str>,
    core: Option<Arc<Core>>,
    memory: RwLock<TensorMemory>,
    completion: Completion,
}

/// A part of a storage, and its placement.
#[derive(Clone)]
struct TensorMemory {
    placement: Placement,
    /// `None` for an empty tensor.
    memory: Option<(Arc<Storage>, Range<usize>)>,
}

impl CoreTensor {
    /// A tensor of `size` zero bytes.
    ///
    /// # Errors
    /// `OutOfMemory` when the memory of the core or the machine does not suffice; `InvalidArgument`
    /// when the tensor is too large for its placement.
    pub fn allocate(
        core: &Arc<Core>,
        placement: Placement,
        size: usize,
        name: &str,
    ) -> Result<Self> {
        let reservation = match placement {
            Placement::Device => Some(core.memory().reserve(MemoryUse::Tensors, size as u64)?),
            Placement::Host if size > MAX_HOST_BYTES => {
                return Err(invalid(name, "it is too large for host memory")
                    .expected(format_args!("at most {MAX_HOST_BYTES} bytes"))
                    .found(size)
                    .help("place it on the device"));
            }
            Placement::Host | Placement::Virtual => None,
        };
        let storage = Storage::zeroed(size, reservation)?;
        let place = TensorMemory {
            placement,
            memory: Some((storage, 0..size)),
        };
        Ok(Self::new(name, Some(core.clone()), place))
    }

    /// A tensor without memory; memory must be attached before use.
    pub fn empty(name: &str) -> Self {
        let place = TensorMemory {
            placement: Placement::Virtual,
            memory: None,
        };
        Self::new(name, None, place)
    }

    /// A tensor of a part of this one's memory.
    pub fn slice(&self, offset: usize, size: usize, name: &str) -> Result<Self> {
        let place = self.tensor_memory();
        let (storage, range) = place.memory(self)?;
        let place = TensorMemory {
            placement: place.placement,
            memory: Some((storage.clone(), self.part(range, offset, size)?)),
        };
        Ok(Self::new(name, self.0.core.clone(), place))
    }

    fn new(name: &str, core: Option<Arc<Core>>, place: TensorMemory) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            core,
            memory: RwLock::new(place),
            completion: Completion::default(),
        }))
    }

    /// Replaces its memory by memory of the caller.
    ///
    /// # Safety
    /// The `size` bytes at `start` must be initialised and stay valid as long as this tensor, or a
    /// slice made of it from now on, is used. While a call or an execution accesses them, the
    /// caller must not write them, and must not read them if the access is a write.
    #[allow(unsafe_code, reason = "memory that the caller attaches")]
    pub unsafe fn attach(&self, start: NonNull<u8>, size: usize) {
        // SAFETY: the caller guarantees the condition of `Storage::attached`, which is that of this
        // function.
        let storage = unsafe { Storage::attached(start, size) };
        let place = TensorMemory {
            placement: Placement::Virtual,
            memory: Some((storage, 0..size)),
        };
        *self
            .0
            .memory
            .write()
            .unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The name, for messages only.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The size in bytes; 0 for an empty tensor.
    pub fn size(&self) -> usize {
        let place = self.0.memory.read().unwrap_or_else(PoisonError::into_inner);
        place.memory.as_ref().map_or(0, |(_, range)| range.len())
    }

    /// The placement.
    pub fn placement(&self) -> Placement {
        self.tensor_memory().placement
    }

    /// The core; `None` for an empty tensor.
    pub fn core(&self) -> Option<&Arc<Core>> {
        self.0.core.as_ref()
    }

    /// The address of its first byte; valid while the tensor has this memory. Accesses through it
    /// are not synchronised with calls and executions on the same bytes.
    pub fn address(&self) -> Option<*mut u8> {
        let place = self.tensor_memory();
        let (storage, range) = place.memory.as_ref()?;
        Some(storage.address(range.start))
    }

    /// Copies bytes from `offset` to `to`.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let borrow = self.borrow(offset, to.len(), AccessMode::Read)?;
        to.copy_from_slice(borrow.bytes());
        Ok(())
    }

    /// Copies `from` to the bytes from `offset`.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let mut borrow = self.borrow(offset, from.len(), AccessMode::Write)?;
        borrow.bytes_mut().copy_from_slice(from);
        Ok(())
    }

    /// Sets `size` bytes from `offset` to `value`.
    pub fn fill(&self, offset: usize, size: usize, value: u8) -> Result<()> {
        let mut borrow = self.borrow(offset, size, AccessMode::Write)?;
        borrow.bytes_mut().fill(value);
        Ok(())
    }

    /// Copies `size` bytes from `offset` to `target`, which may overlap this tensor.
    ///
    /// # Errors
    /// `InvalidArgument` for a range outside of a tensor, and for copies between two cores.
    pub fn copy_to(
        &self,
        offset: usize,
        target: &Self,
        target_offset: usize,
        size: usize,
    ) -> Result<()> {
        let (place, target_place) = (self.tensor_memory(), target.tensor_memory());
        let both_on_cores =
            place.placement == Placement::Device && target_place.placement == Placement::Device;
        let index = |tensor: &Self| tensor.core().map(|core| core.index());
        if both_on_cores && index(self) != index(target) {
            let of = |tensor: &Self| index(tensor).unwrap_or_default();
            return Err(
                invalid(&self.0.name, "it is on another core than its target")
                    .expected(format_args!("core {}", of(target)))
                    .found(format_args!("core {}", of(self)))
                    .help("copy through a host tensor"),
            );
        }
        let (storage, range) = place.memory(self)?;
        let from = self.part(range, offset, size)?;
        let (target_storage, range) = target_place.memory(target)?;
        let to = target.part(range, target_offset, size)?;
        if Arc::ptr_eq(storage, target_storage) {
            let whole = from.start.min(to.start)..from.end.max(to.end);
            let mut borrow = storage
                .clone()
                .borrow(whole.clone(), AccessMode::Write, None)?;
            let (start, end) = (from.start - whole.start, from.end - whole.start);
            borrow.copy_within(start..end, to.start - whole.start);
            return Ok(());
        }
        let mut borrows = [
            (storage, from, AccessMode::Read, None),
            (target_storage, to, AccessMode::Write, None),
        ];
        let swapped = Arc::as_ptr(storage) > Arc::as_ptr(target_storage);
        if swapped {
            borrows.swap(0, 1);
        }
        for (storage, range, what, borrow) in &mut borrows {
            *borrow = Some(storage.clone().borrow(range.clone(), *what, None)?);
        }
        let [mut first, mut second] = borrows.map(|(.., borrow)| borrow);
        if swapped {
            std::mem::swap(&mut first, &mut second);
        }
        if let (Some(from), Some(mut to)) = (first, second) {
            to.copy_from(&from);
        }
        Ok(())
    }

    /// The number of executions that have completed it since the last reset.
    pub fn completions(&self) -> u64 {
        self.0.completion.count()
    }

    /// Resets the count.
    pub fn reset_completions(&self) {
        self.0.completion.reset();
    }

    /// Waits until it was completed `count` times, at most `timeout`; returns whether it was.
    pub fn wait_for_completions(&self, count: u64, timeout: Duration) -> bool {
        self.0.completion.wait(count, timeout)
    }

    pub(crate) fn complete(&self) {
        self.0.completion.add();
    }

    pub(crate) fn downgrade(&self) -> WeakTensor {
        WeakTensor(Arc::downgrade(&self.0))
    }

    /// The current storage and the range in it, for executions.
    pub(crate) fn memory(&self) -> Result<(Arc<Storage>, Range<usize>)> {
        let place = self.0.memory.read().unwrap_or_else(PoisonError::into_inner);
        place.memory(self).cloned()
    }

    fn borrow(&self, offset: usize, size: usize, what: AccessMode) -> Result<Borrow> {
        let (storage, range) = self.memory()?;
        storage.borrow(self.part(&range, offset, size)?, what, None)
    }

    fn tensor_memory(&self) -> TensorMemory {
        let place = self.0.memory.read();
        place.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn part(&self, range: &Range<usize>, offset: usize, size: usize) -> Result<Range<usize>> {
        let end = offset.checked_add(size).filter(|&end| end <= range.len());
        match end {
            Some(end) => Ok(range.start + offset..range.start + end),
            None => Err(invalid(&self.0.name, "the range exceeds the tensor")
                .expected(format_args!("at most its {} bytes", range.len()))
                .found(format_args!("{size} bytes from offset {offset}"))),
        }
    }
}

impl TensorMemory {
    fn memory(&self, tensor: &CoreTensor) -> Result<&(Arc<Storage>, Range<usize>)> {
        self.memory
            .as_ref()
            .ok_or_else(|| invalid(&tensor.0.name, "it has no memory").help("attach memory first"))
    }
}

impl WeakTensor {
    pub fn upgrade(&self) -> Option<CoreTensor> {
        self.0.upgrade().map(CoreTensor)
    }
}

impl std::fmt::Debug for CoreTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreTensor")
            .field("name", &self.0.name)
            .field("size", &self.size())
            .field("placement", &self.placement())
            .finish_non_exhaustive()
    }
}

fn invalid(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("tensor '{name}': {what}"),
    )
}

#[cfg(test)]
mod tests;
