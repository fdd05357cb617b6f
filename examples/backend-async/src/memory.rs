//! The memory of the device: one file mapped twice, for the host without access.

#![allow(unsafe_code, reason = "mapped memory with two addresses")]

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

/// The size of the device's memory by default: addresses, of which the system backs what is used.
const BYTES: usize = 64 << 30;

/// The granularity of allocations, which the file can free.
const PAGE: usize = 4096;

/// The number of devices that were made in this process.
static DEVICES: AtomicI32 = AtomicI32::new(0);

/// All memory of a device.
pub struct Memory {
    file: OwnedFd,
    /// The addresses in operands, without access, and those of the device.
    host: *mut u8,
    device: *mut u8,
    bytes: usize,
    /// The position of the device among those of this process.
    index: i32,
    /// The allocated ranges: end by start.
    live: Mutex<BTreeMap<usize, usize>>,
}

// SAFETY: the pointers are to mappings that the value owns; bytes are accessed only by the functions here, whose
// callers are responsible for their order.
unsafe impl Send for Memory {}
// SAFETY: as above; the table of ranges is behind a lock.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `bytes`, by default much.
    pub fn new(bytes: usize) -> Result<Arc<Self>> {
        let bytes = if bytes == 0 {
            BYTES
        } else {
            bytes.next_multiple_of(PAGE)
        };
        let map = || -> rustix::io::Result<Self> {
            let file = memfd_create("tenon-sim-device", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, bytes as u64)?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            // SAFETY: a new mapping at an address that the system chooses.
            let device = unsafe { mmap(ptr::null_mut(), bytes, access, flags, &file, 0)? };
            // SAFETY: as above.
            let host =
                unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::empty(), flags, &file, 0)? };
            Ok(Self {
                file,
                host: host.cast(),
                device: device.cast(),
                bytes,
                index: DEVICES.fetch_add(1, Ordering::Relaxed),
                live: Mutex::default(),
            })
        };
        let mapped = map().map_err(|error| {
            let text = format!("the memory of the simulated device cannot be mapped: {error}");
            Error::new(ErrorKind::OutOfMemory, text)
        })?;
        Ok(Arc::new(mapped))
    }

    /// The position of the device among those of this process.
    pub fn index(&self) -> i32 {
        self.index
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.live().iter().map(|(start, end)| end - start).sum()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's address of `bytes` at an address of operands; an error if they are not allocated.
    pub fn resolve(&self, start: *mut u8, bytes: usize) -> Result<*mut u8> {
        let offset = (start as usize).wrapping_sub(self.host as usize);
        let live = self.live();
        let holder = live.range(..=offset).next_back();
        let fits = |end: usize| offset.checked_add(bytes).is_some_and(|last| last <= end);
        match holder {
            Some((_, &end)) if fits(end) => Ok(self.device.wrapping_add(offset)),
            _ => {
                let text = format!("{bytes} bytes at {start:p} are not memory of the device");
                Err(Error::new(ErrorKind::InvalidArgument, text))
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for start in [self.host, self.device] {
            // SAFETY: the mapping is that of `new`, unmapped once; allocations share ownership of this value.
            let _ = unsafe { munmap(start.cast(), self.bytes) };
        }
    }
}

/// An allocation, freed on drop, or memory of one that belongs to another handle.
pub struct DeviceMemory {
    memory: Arc<Memory>,
    range: Range<usize>,
    bytes: usize,
    is_owner: bool,
}

impl DeviceMemory {
    /// Allocates at the first free range that is large enough.
    pub fn allocate(memory: &Arc<Memory>, bytes: usize) -> Result<Self> {
        let size = Self::size(bytes);
        let mut live = memory.live();
        let mut start = 0;
        for (&next, &end) in &*live {
            if next - start >= size {
                break;
            }
            start = end;
        }
        if start + size > memory.bytes {
            let text = format!("{bytes} bytes do not fit the device's memory");
            return Err(Error::new(ErrorKind::OutOfMemory, text).expected(memory.bytes));
        }
        live.insert(start, start + size);
        Ok(Self {
            memory: memory.clone(),
            range: start..start + size,
            bytes,
            is_owner: true,
        })
    }

    /// Memory at an address in operands; an error if it is not allocated.
    pub fn at(memory: &Arc<Memory>, start: *mut u8, bytes: usize) -> Result<Self> {
        let device_start = memory.resolve(start, bytes)?;
        let start = device_start as usize - memory.device as usize;
        Ok(Self {
            memory: memory.clone(),
            range: start..start + bytes,
            bytes,
            is_owner: false,
        })
    }

    /// The memory that an allocation of `bytes` takes.
    pub fn size(bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(PAGE)
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its address in operands.
    pub fn host_start(&self) -> *mut u8 {
        self.memory.host.wrapping_add(self.range.start)
    }

    /// Its address for the device.
    pub fn device_start(&self) -> *mut u8 {
        self.memory.device.wrapping_add(self.range.start)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if !self.is_owner {
            return;
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, bytes) = (self.range.start as u64, self.range.len() as u64);
        // The next allocation begins with zeros; if the file keeps the bytes, that is no error.
        let _ = fallocate(&self.memory.file, mode, start, bytes);
        self.memory.live().remove(&self.range.start);
    }
}
