//! What a backend behind the C interface makes besides workloads.

use super::core::Core;
use crate::border::{invalid, records, text};
use crate::{
    Allocator, BackendContext, CounterDef, MemoryManager, MemorySource, NetworkId,
    ProfilingContext, TensorHandle,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::ALIGNMENT;

/// A struct that the backend made, released when this is dropped.
struct Made<T: abi::Prefixed> {
    this: *const T,
    table: T,
    release: abi::Release<T>,
    core: Arc<Core>,
}

// SAFETY: every function may be called from any thread (header, "Threads").
unsafe impl<T: abi::Prefixed> Send for Made<T> {}
// SAFETY: as above, several at a time.
unsafe impl<T: abi::Prefixed> Sync for Made<T> {}

impl<T: abi::Prefixed> Made<T> {
    /// # Safety
    /// `this` is what a function of the table made.
    unsafe fn new(
        core: &Arc<Core>,
        this: *const T,
        what: &str,
        release: impl FnOnce(&T) -> abi::Release<T>,
    ) -> Result<Self> {
        // SAFETY: the caller vouches.
        let table = unsafe { core.made(this, what)? };
        Ok(Self {
            this,
            release: release(&table),
            table,
            core: core.clone(),
        })
    }
}

impl<T: abi::Prefixed> Drop for Made<T> {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the last call.
            unsafe { release(self.this) }
        }
    }
}

pub(super) struct LoadedMemory(Made<abi::MemoryManager>);

impl LoadedMemory {
    /// # Safety
    /// `this` is null or what a function of the table made.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::MemoryManager) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller vouches.
        let made = unsafe { Made::new(core, this, "a memory manager", |table| table.release)? };
        Ok(Some(Self(made)))
    }

    pub fn this(&self) -> *const abi::MemoryManager {
        self.0.this
    }
}

impl MemoryManager for LoadedMemory {
    fn acquire(&self) -> Result<()> {
        match self.0.table.acquire {
            // SAFETY: a function of the struct with itself.
            Some(acquire) => self.0.core.done(unsafe { acquire(self.0.this) }),
            None => Ok(()),
        }
    }

    fn release(&self) {
        if let Some(give_back) = self.0.table.give_back {
            // SAFETY: a function of the struct with itself.
            unsafe { give_back(self.0.this) }
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub(super) struct LoadedContext(Made<abi::Context>);

impl LoadedContext {
    /// # Safety
    /// `this` is null or what a function of the table made.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Context) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller vouches.
        let made = unsafe { Made::new(core, this, "a context", |table| table.release)? };
        Ok(Some(Self(made)))
    }

    fn tell(&self, notice: abi::NetworkCallback, network: NetworkId) -> Result<()> {
        match notice {
            // SAFETY: a function of the struct with itself.
            Some(function) => self
                .0
                .core
                .done(unsafe { function(self.0.this, network.0) }),
            None => Ok(()),
        }
    }
}

impl BackendContext for LoadedContext {
    fn before_load(&self, network: NetworkId) -> Result<()> {
        self.tell(self.0.table.before_load, network)
    }

    fn after_load(&self, network: NetworkId) -> Result<()> {
        self.tell(self.0.table.after_load, network)
    }

    fn before_unload(&self, network: NetworkId) -> Result<()> {
        self.tell(self.0.table.before_unload, network)
    }

    fn after_unload(&self, network: NetworkId) -> Result<()> {
        self.tell(self.0.table.after_unload, network)
    }

    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        self.tell(self.0.table.after_enqueue, network)
    }
}

pub(super) struct LoadedProfiling {
    made: Made<abi::Profiling>,
    counters: Vec<CounterDef>,
}

impl LoadedProfiling {
    /// # Safety
    /// `this` is null or what a function of the table made.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Profiling) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller vouches.
        unsafe {
            let made = Made::new(core, this, "a profiling context", |table| table.release)?;
            let table = &made.table;
            let told = records(table.counters, table.counter_count, "the counters");
            let counters = told.and_then(|all| all.iter().map(|told| counter(told)).collect());
            let counters = counters.map_err(|error| core.about(&error))?;
            Ok(Some(Self { made, counters }))
        }
    }
}

/// # Safety
/// Its texts are as long as they say.
unsafe fn counter(told: &abi::Counter) -> Result<CounterDef> {
    // SAFETY: the caller vouches.
    unsafe {
        Ok(CounterDef {
            name: text(told.name, "the name of a counter")?,
            doc: text(told.doc, "the text of a counter")?,
            unit: text(told.unit, "the unit of a counter")?,
        })
    }
}

impl ProfilingContext for LoadedProfiling {
    fn counters(&self) -> &[CounterDef] {
        &self.counters
    }

    fn enable(&self, on: bool) -> Result<()> {
        match self.made.table.enable {
            // SAFETY: a function of the struct with itself.
            Some(enable) => self
                .made
                .core
                .done(unsafe { enable(self.made.this, on.into()) }),
            None => Ok(()),
        }
    }

    fn sample(&self, values: &mut [u64]) -> Result<()> {
        if values.len() != self.counters.len() {
            return Err(invalid("there is not a place for each counter")
                .expected(self.counters.len())
                .found(values.len()));
        }
        let sample = self.made.table.sample;
        let sample = sample.ok_or_else(|| self.made.core.lacks("sample"))?;
        // SAFETY: a function of the struct with itself, and room for all its counters.
        let outcome = unsafe { sample(self.made.this, values.as_mut_ptr()) };
        self.made.core.done(outcome)
    }
}

pub(super) struct LoadedHandle {
    made: Made<abi::TensorHandle>,
    start: *mut u8,
    bytes: usize,
}

impl LoadedHandle {
    /// # Safety
    /// `this` is what the table's function made, for a tensor of `bytes` bytes.
    pub unsafe fn new(
        core: &Arc<Core>,
        this: *const abi::TensorHandle,
        bytes: usize,
    ) -> Result<Self> {
        // SAFETY: the caller vouches.
        let made = unsafe { Made::new(core, this, "a tensor", |table| table.release)? };
        let start = made.table.start.ok_or_else(|| core.lacks("start"))?;
        // SAFETY: a function of the struct with itself.
        let start = unsafe { start(this) }.cast::<u8>();
        if bytes > 0 && (start.is_null() || !(start as usize).is_multiple_of(ALIGNMENT)) {
            let error = invalid("a tensor starts nowhere, or is not aligned");
            let error = error
                .expected(format_args!("a multiple of {ALIGNMENT}"))
                .found(format_args!("address {:#x}", start as usize));
            return Err(core.about(&error));
        }
        Ok(Self { made, start, bytes })
    }

    fn check(&self, found: usize) -> Result<()> {
        if found == self.bytes {
            Ok(())
        } else {
            Err(invalid("the bytes do not fit the tensor")
                .expected(self.bytes)
                .found(found))
        }
    }
}

// SAFETY: where a tensor starts is the library's word (header); it was not null and aligned.
unsafe impl TensorHandle for LoadedHandle {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.made.table.copy_in;
        let function = function.ok_or_else(|| self.made.core.lacks("copy_in"))?;
        // SAFETY: a function of the struct with itself, and as many bytes as it is told.
        let outcome = unsafe { function(self.made.this, bytes.as_ptr().cast(), bytes.len()) };
        self.made.core.done(outcome)
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.made.table.copy_out;
        let function = function.ok_or_else(|| self.made.core.lacks("copy_out"))?;
        // SAFETY: a function of the struct with itself, and room for as many bytes as it is told.
        let outcome = unsafe { function(self.made.this, bytes.as_mut_ptr().cast(), bytes.len()) };
        self.made.core.done(outcome)
    }

    fn start(&self) -> *mut u8 {
        self.start
    }
}

// SAFETY: every function may be called from any thread (header, "Threads"); the address is not
// looked into here.
unsafe impl Send for LoadedHandle {}

pub(super) struct LoadedAllocator {
    made: Made<abi::Allocator>,
    source: MemorySource,
}

impl LoadedAllocator {
    /// # Safety
    /// `this` is what a function of the table made.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Allocator) -> Result<Self> {
        // SAFETY: the caller vouches.
        let made = unsafe { Made::new(core, this, "an allocator", |table| table.release)? };
        let source = MemorySource::of_bit(made.table.source);
        let source = source.ok_or_else(|| {
            core.about(&invalid("an allocator of an unknown source").found(made.table.source))
        })?;
        Ok(Self { made, source })
    }
}

impl Allocator for LoadedAllocator {
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let function = self.made.table.allocate;
        let function = function.ok_or_else(|| self.made.core.lacks("allocate"))?;
        // SAFETY: a function of the struct with itself.
        let start = unsafe { function(self.made.this, bytes, alignment) };
        NonNull::new(start.cast()).ok_or_else(|| {
            let text = format!("{} cannot allocate {bytes} bytes", self.made.core.who());
            Error::new(ErrorKind::OutOfMemory, text)
        })
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        if let Some(free) = self.made.table.free {
            // SAFETY: a function of the struct with itself; the caller vouches for the memory.
            unsafe { free(self.made.this, start.as_ptr().cast()) }
        }
    }

    fn source(&self) -> MemorySource {
        self.source
    }
}

/// An allocator of this side as the other side sees it.
#[repr(C)]
pub(super) struct LentAllocator {
    pub table: abi::Allocator,
    allocator: Arc<dyn Allocator>,
}

pub(super) fn lent_allocator(allocator: Arc<dyn Allocator>) -> Arc<LentAllocator> {
    Arc::new(LentAllocator {
        table: abi::Allocator {
            size: size_of::<abi::Allocator>(),
            source: allocator.source().bit() as i32,
            allocate: Some(allocate),
            free: Some(free),
            release: None,
        },
        allocator,
    })
}

/// # Safety
/// `this` is the table of a [`LentAllocator`] that is alive.
unsafe extern "C" fn allocate(
    this: *const abi::Allocator,
    bytes: usize,
    alignment: usize,
) -> *mut c_void {
    // SAFETY: the table is the first member; the caller vouches.
    let lent = unsafe { &*this.cast::<LentAllocator>() };
    let mut made = std::ptr::null_mut();
    abi::guarded(|| {
        if bytes > 0
            && alignment.is_power_of_two()
            && let Ok(start) = lent.allocator.allocate(bytes, alignment)
        {
            made = start.as_ptr().cast();
        }
        Ok(())
    });
    made
}

/// # Safety
/// As for `allocate`; `start` is null or from there, given back once.
unsafe extern "C" fn free(this: *const abi::Allocator, start: *mut c_void) {
    let Some(start) = NonNull::new(start.cast()) else {
        return;
    };
    // SAFETY: the table is the first member; the caller vouches for it and for the memory.
    unsafe {
        let lent = &*this.cast::<LentAllocator>();
        abi::guarded(|| {
            lent.allocator.free(start);
            Ok(())
        });
    }
}
