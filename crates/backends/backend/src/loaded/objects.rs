//! Objects that a loaded backend creates: memory managers, contexts, profiling contexts, tensor
//! handles and allocators.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::core::Core;
use super::stream::LoadedStream;
use crate::marshal::{invalid, records, text};
use crate::{
    Allocator, BackendContext, CounterDef, MemoryManager, MemorySource, NetworkId,
    ProfilingContext, Stream, TensorHandle,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::ALIGNMENT;

/// An object that the backend created, released on drop.
pub(super) struct ForeignObject<T: abi::Prefixed> {
    pub(super) this: *const T,
    pub(super) table: T,
    release: abi::Release<T>,
    pub(super) core: Arc<Core>,
}

// SAFETY: the functions of an object may be called from any thread (header, "Threads").
unsafe impl<T: abi::Prefixed> Send for ForeignObject<T> {}
// SAFETY: the functions of an object may be called concurrently (header, "Threads").
unsafe impl<T: abi::Prefixed> Sync for ForeignObject<T> {}

impl<T: abi::Prefixed> ForeignObject<T> {
    /// # Safety
    /// `this` is null or an object that a function of the table created, not released.
    pub(super) unsafe fn new(
        core: &Arc<Core>,
        this: *const T,
        what: &str,
        release: impl FnOnce(&T) -> abi::Release<T>,
    ) -> Result<Self> {
        // SAFETY: `this` is null or a valid, unreleased object (requirement).
        let table = unsafe { core.read_object(this, what)? };
        Ok(Self {
            this,
            release: release(&table),
            table,
            core: core.clone(),
        })
    }
}

impl<T: abi::Prefixed> Drop for ForeignObject<T> {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` of the object is called with the object itself, once, after all
            // other calls.
            unsafe { release(self.this) }
        }
    }
}

pub(super) struct LoadedMemory(ForeignObject<abi::MemoryManager>);

impl LoadedMemory {
    /// # Safety
    /// `this` is null or an object that a function of the table created, not released.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::MemoryManager) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: `this` is null or a valid, unreleased object (requirement).
        let object =
            unsafe { ForeignObject::new(core, this, "a memory manager", |table| table.release)? };
        Ok(Some(Self(object)))
    }

    pub fn this(&self) -> *const abi::MemoryManager {
        self.0.this
    }
}

impl MemoryManager for LoadedMemory {
    fn acquire(&self) -> Result<()> {
        match self.0.table.acquire {
            // SAFETY: the function of the object is called with the object itself, not released.
            Some(acquire) => self.0.core.check(unsafe { acquire(self.0.this) }),
            None => Ok(()),
        }
    }

    fn release(&self) {
        let function = self.0.table.give_back; // words: allow
        if let Some(function) = function {
            // SAFETY: the function of the object is called with the object itself, not released.
            unsafe { function(self.0.this) }
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub(super) struct LoadedContext(ForeignObject<abi::Context>);

impl LoadedContext {
    /// # Safety
    /// `this` is null or an object that a function of the table created, not released.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Context) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: `this` is null or a valid, unreleased object (requirement).
        let object = unsafe { ForeignObject::new(core, this, "a context", |table| table.release)? };
        Ok(Some(Self(object)))
    }

    fn call(&self, callback: abi::NetworkCallback, network: NetworkId) -> Result<()> {
        match callback {
            // SAFETY: the function of the object is called with the object itself, not released.
            Some(function) => self
                .0
                .core
                .check(unsafe { function(self.0.this, network.0) }),
            None => Ok(()),
        }
    }
}

impl BackendContext for LoadedContext {
    fn before_load(&self, network: NetworkId) -> Result<()> {
        self.call(self.0.table.before_load, network)
    }

    fn after_load(&self, network: NetworkId) -> Result<()> {
        self.call(self.0.table.after_load, network)
    }

    fn before_unload(&self, network: NetworkId) -> Result<()> {
        self.call(self.0.table.before_unload, network)
    }

    fn after_unload(&self, network: NetworkId) -> Result<()> {
        self.call(self.0.table.after_unload, network)
    }

    fn after_enqueue(&self, network: NetworkId) -> Result<()> {
        self.call(self.0.table.after_enqueue, network)
    }
}

pub(super) struct LoadedProfiling {
    object: ForeignObject<abi::Profiling>,
    counters: Vec<CounterDef>,
}

impl LoadedProfiling {
    /// # Safety
    /// `this` is null or an object that a function of the table created, not released.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Profiling) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: `this` is a valid, unreleased object (requirement), so its list is null or of the
        // stated length, with valid structs.
        unsafe {
            let object =
                ForeignObject::new(core, this, "a profiling context", |table| table.release)?;
            let table = &object.table;
            let raw = records(table.counters, table.counter_count, "the counters");
            let counters = raw.and_then(|all| all.iter().map(|raw| counter(raw)).collect());
            let counters = counters.map_err(|error| core.with_label(&error))?;
            Ok(Some(Self { object, counters }))
        }
    }
}

/// # Safety
/// `raw` is valid (see [`marshal::from_c`](crate::marshal)).
unsafe fn counter(raw: &abi::Counter) -> Result<CounterDef> {
    // SAFETY: `raw` is valid (requirement): its texts are null or of the stated lengths.
    unsafe {
        Ok(CounterDef {
            name: text(raw.name, "the name of a counter")?,
            doc: text(raw.doc, "the text of a counter")?,
            unit: text(raw.unit, "the unit of a counter")?,
        })
    }
}

impl ProfilingContext for LoadedProfiling {
    fn counters(&self) -> &[CounterDef] {
        &self.counters
    }

    fn enable(&self, on: bool) -> Result<()> {
        match self.object.table.enable {
            // SAFETY: the function of the object is called with the object itself, not released.
            Some(enable) => self
                .object
                .core
                .check(unsafe { enable(self.object.this, on.into()) }),
            None => Ok(()),
        }
    }

    fn sample(&self, values: &mut [u64]) -> Result<()> {
        if values.len() != self.counters.len() {
            return Err(
                invalid("the number of values differs from the number of counters")
                    .expected(self.counters.len())
                    .found(values.len()),
            );
        }
        let sample = self.object.table.sample;
        let sample = sample.ok_or_else(|| self.object.core.missing_function("sample"))?;
        // SAFETY: `sample` of the object is called with the object itself, not released; `values`
        // has one element per counter (checked above).
        let outcome = unsafe { sample(self.object.this, values.as_mut_ptr()) };
        self.object.core.check(outcome)
    }
}

pub(super) struct LoadedHandle {
    object: ForeignObject<abi::TensorHandle>,
    start: *mut u8,
    bytes: usize,
}

impl LoadedHandle {
    /// # Safety
    /// `this` is null or a handle that a function of the table created for a tensor of `bytes`
    /// bytes, not released.
    pub unsafe fn new(
        core: &Arc<Core>,
        this: *const abi::TensorHandle,
        bytes: usize,
    ) -> Result<Self> {
        // SAFETY: `this` is null or a valid, unreleased object (requirement).
        let object = unsafe { ForeignObject::new(core, this, "a tensor", |table| table.release)? };
        let start = object
            .table
            .start
            .ok_or_else(|| core.missing_function("start"))?;
        // SAFETY: the function of the object is called with the object itself, not released.
        let start = unsafe { start(this) }.cast::<u8>();
        if bytes > 0 && (start.is_null() || !(start as usize).is_multiple_of(ALIGNMENT)) {
            let error = invalid("the start of a tensor is null or not aligned");
            let error = error
                .expected(format_args!("a multiple of {ALIGNMENT}"))
                .found(format_args!("address {:#x}", start as usize));
            return Err(core.with_label(&error));
        }
        Ok(Self {
            object,
            start,
            bytes,
        })
    }

    fn check(&self, found: usize) -> Result<()> {
        if found == self.bytes {
            Ok(())
        } else {
            Err(
                invalid("the number of bytes differs from the tensor's size")
                    .expected(self.bytes)
                    .found(found),
            )
        }
    }
}

// SAFETY: the header requires of `start` that the address is valid for the tensor's bytes until the
// release; `new` checked that it is not null and aligned.
unsafe impl TensorHandle for LoadedHandle {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.object.table.copy_in;
        let function = function.ok_or_else(|| self.object.core.missing_function("copy_in"))?;
        // SAFETY: `copy_in` of the handle is called with the handle itself, not released, and with
        // a slice of the stated length.
        let outcome = unsafe { function(self.object.this, bytes.as_ptr().cast(), bytes.len()) };
        self.object.core.check(outcome)
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.object.table.copy_out;
        let function = function.ok_or_else(|| self.object.core.missing_function("copy_out"))?;
        // SAFETY: `copy_out` of the handle is called with the handle itself, not released, and with
        // a mutable slice of the stated length.
        let outcome = unsafe { function(self.object.this, bytes.as_mut_ptr().cast(), bytes.len()) };
        self.object.core.check(outcome)
    }

    fn start(&self) -> *mut u8 {
        self.start
    }

    unsafe fn enqueue_in(&mut self, stream: &mut dyn Stream, bytes: *const [u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.object.table.enqueue_in;
        let function = function.ok_or_else(|| self.object.core.missing_function("enqueue_in"))?;
        let stream = LoadedStream::this_of(Some(stream))?;
        // SAFETY: `enqueue_in` of the handle is called with the handle itself and a stream of its backend, neither
        // released, and with bytes that are valid until the stream is finished (requirement of this function).
        let outcome = unsafe { function(self.object.this, stream, bytes.cast(), bytes.len()) };
        self.object.core.check(outcome)
    }

    unsafe fn enqueue_out(&self, stream: &mut dyn Stream, bytes: *mut [u8]) -> Result<()> {
        self.check(bytes.len())?;
        let function = self.object.table.enqueue_out;
        let function = function.ok_or_else(|| self.object.core.missing_function("enqueue_out"))?;
        let stream = LoadedStream::this_of(Some(stream))?;
        // SAFETY: `enqueue_out` of the handle is called with the handle itself and a stream of its backend, neither
        // released, and with bytes that are valid until the stream is finished (requirement of this function).
        let outcome = unsafe { function(self.object.this, stream, bytes.cast(), bytes.len()) };
        self.object.core.check(outcome)
    }
}

// SAFETY: the functions of a handle may be called from any thread (header, "Threads"); `start` is
// not dereferenced here.
unsafe impl Send for LoadedHandle {}

pub(super) struct LoadedAllocator {
    object: ForeignObject<abi::Allocator>,
    source: MemorySource,
}

impl LoadedAllocator {
    /// # Safety
    /// `this` is null or an object that a function of the table created, not released.
    pub unsafe fn new(core: &Arc<Core>, this: *const abi::Allocator) -> Result<Self> {
        // SAFETY: `this` is null or a valid, unreleased object (requirement).
        let object =
            unsafe { ForeignObject::new(core, this, "an allocator", |table| table.release)? };
        let source = MemorySource::of_bit(object.table.source);
        let source = source.ok_or_else(|| {
            core.with_label(
                &invalid("an allocator of an unknown source").found(object.table.source),
            )
        })?;
        Ok(Self { object, source })
    }
}

impl Allocator for LoadedAllocator {
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let function = self.object.table.allocate;
        let function = function.ok_or_else(|| self.object.core.missing_function("allocate"))?;
        // SAFETY: the function of the object is called with the object itself, not released.
        let start = unsafe { function(self.object.this, bytes, alignment) };
        NonNull::new(start.cast()).ok_or_else(|| {
            let text = format!("{} cannot allocate {bytes} bytes", self.object.core.label());
            Error::new(ErrorKind::OutOfMemory, text)
        })
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        if let Some(free) = self.object.table.free {
            // SAFETY: `free` of the allocator is called with the allocator itself, not released,
            // and with memory of it that is freed once (requirement of this function).
            unsafe { free(self.object.this, start.as_ptr().cast()) }
        }
    }

    fn source(&self) -> MemorySource {
        self.source
    }
}

/// An allocator of the host as a struct of the header.
#[repr(C)]
pub(super) struct ExportedAllocator {
    /// The first member: a pointer to it is a pointer to this struct.
    pub table: abi::Allocator,
    allocator: Arc<dyn Allocator>,
}

pub(super) fn exported_allocator(allocator: Arc<dyn Allocator>) -> Arc<ExportedAllocator> {
    Arc::new(ExportedAllocator {
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
/// `this` is the table of an [`ExportedAllocator`] that is alive.
unsafe extern "C" fn allocate(
    this: *const abi::Allocator,
    bytes: usize,
    alignment: usize,
) -> *mut c_void {
    // SAFETY: `this` points to the first member of a live `ExportedAllocator` (requirement;
    // `#[repr(C)]`).
    let exported = unsafe { &*this.cast::<ExportedAllocator>() };
    let mut memory = std::ptr::null_mut();
    abi::guarded(|| {
        if bytes > 0
            && alignment.is_power_of_two()
            && let Ok(start) = exported.allocator.allocate(bytes, alignment)
        {
            memory = start.as_ptr().cast();
        }
        Ok(())
    });
    memory
}

/// # Safety
/// `this` is the table of an [`ExportedAllocator`] that is alive; `start` is null or memory
/// allocated by it that is not freed yet.
unsafe extern "C" fn free(this: *const abi::Allocator, start: *mut c_void) {
    let Some(start) = NonNull::new(start.cast()) else {
        return;
    };
    // SAFETY: `this` points to the first member of a live `ExportedAllocator` (requirement;
    // `#[repr(C)]`), and `start` is memory of it that is freed once (requirement).
    unsafe {
        let exported = &*this.cast::<ExportedAllocator>();
        abi::guarded(|| {
            exported.allocator.free(start);
            Ok(())
        });
    }
}
