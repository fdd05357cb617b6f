//! The objects that an exported backend creates, as structs of the header. Each struct is the first
//! member of a boxed Rust value, so that a pointer to the struct is a pointer to the value; its
//! `release` drops the box.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::backend::run;
use super::stream::with_stream;
use crate::marshal::{bytes, invalid, structure};
use crate::{
    Allocator, BackendContext, MemoryManager, MemorySource, NetworkId, ProfilingContext,
    TensorHandle, WorkloadPlan,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::{Error, ErrorKind, Result};

/// A struct of the header, and the Rust value behind it.
#[repr(C)]
pub(super) struct ExportedObject<T, B> {
    table: T,
    state: B,
}

impl<T, B> ExportedObject<T, B> {
    pub fn table(table: T, state: B) -> *const T {
        Box::into_raw(Box::new(Self { table, state })).cast()
    }

    /// # Safety
    /// [`ExportedObject::table`] of the same types returned `table`, and it is not released during
    /// `'a`.
    pub unsafe fn state<'a>(table: *const T) -> &'a B {
        // SAFETY: `table` came from `Box::into_raw` of a `Self` (requirement), whose first member
        // it is (`#[repr(C)]`); it is not released during `'a` (requirement).
        unsafe { &(*table.cast::<Self>()).state }
    }
}

/// # Safety
/// [`ExportedObject::table`] of the same types returned `table`, and it is not released yet.
pub(super) unsafe extern "C" fn release<T, B>(table: *const T) {
    // SAFETY: `table` came from `Box::into_raw` of this type and is not released yet (requirement).
    drop(unsafe { Box::from_raw(table.cast_mut().cast::<ExportedObject<T, B>>()) });
}

/// A plan, and the structs that its table points to.
pub(super) struct ExportedPlan {
    plan: WorkloadPlan,
    in_place: Vec<abi::InPlace>,
    prepared: Vec<abi::Prepared>,
    list: Vec<*const abi::Prepared>,
}

impl ExportedPlan {
    pub fn table(plan: WorkloadPlan) -> *const abi::Plan {
        let prepared: Vec<abi::Prepared> = plan
            .prepared
            .iter()
            .map(|one| abi::Prepared {
                size: size_of::<abi::Prepared>(),
                input: one.input as u32,
                layout: abi::Text::of(&one.layout),
                data: abi::Bytes {
                    start: one.data.as_ptr().cast(),
                    length: one.data.len(),
                    owner: std::ptr::null(),
                },
            })
            .collect();
        let in_place = |pair: &crate::InPlace| abi::InPlace {
            input: pair.input as u32,
            output: pair.output as u32,
        };
        let state = Self {
            in_place: plan.in_place.iter().map(in_place).collect(),
            list: prepared.iter().map(|one| &raw const *one).collect(),
            prepared,
            plan,
        };
        let table = abi::Plan {
            size: size_of::<abi::Plan>(),
            scratch_bytes: state.plan.scratch_bytes,
            in_place_count: state.in_place.len(),
            in_place: state.in_place.as_ptr(),
            prepared_count: state.prepared.len(),
            prepared: state.list.as_ptr(),
            release: Some(release::<abi::Plan, ExportedPlan>),
            device_bytes: state.plan.device_bytes,
        };
        ExportedObject::table(table, state)
    }
}

/// Frees a failure of this side that cannot be reported.
pub(super) fn drop_outcome(outcome: Outcome) {
    if !outcome.is_null() {
        // SAFETY: `guarded` returned `outcome`, a failure of this side that is valid until its
        // release, here.
        unsafe {
            if let Some(release) = (*outcome).release {
                release(outcome);
            }
        }
    }
}

/// A memory manager, which `workload` receives again.
pub(super) struct ExportedMemoryManager(Arc<dyn MemoryManager>);

impl ExportedMemoryManager {
    pub fn table(memory: Arc<dyn MemoryManager>) -> *const abi::MemoryManager {
        let table = abi::MemoryManager {
            size: size_of::<abi::MemoryManager>(),
            acquire: Some(acquire),
            give_back: Some(release_memory), // words: allow
            release: Some(release::<abi::MemoryManager, ExportedMemoryManager>),
        };
        ExportedObject::table(table, ExportedMemoryManager(memory))
    }
}

/// # Safety
/// [`ExportedMemoryManager::table`] returned `table`, and it is not released during `'a`.
pub(super) unsafe fn memory_of<'a>(table: *const abi::MemoryManager) -> &'a Arc<dyn MemoryManager> {
    // SAFETY: `table` is of these types and not released during `'a` (requirement).
    unsafe { &ExportedObject::<_, ExportedMemoryManager>::state(table).0 }
}

unsafe extern "C" fn acquire(this: *const abi::MemoryManager) -> Outcome {
    // SAFETY: `ExportedMemoryManager::table` created `this`, and the host has not released it.
    run(|| unsafe { memory_of(this) }.acquire())
}

unsafe extern "C" fn release_memory(this: *const abi::MemoryManager) {
    drop_outcome(abi::guarded(|| {
        // SAFETY: `ExportedMemoryManager::table` created `this`, and the host has not released it.
        unsafe { memory_of(this) }.release();
        Ok(())
    }));
}

type Context = Box<dyn BackendContext>;

pub(super) fn exported_context(context: Context) -> *const abi::Context {
    macro_rules! callback {
        ($name:ident) => {{
            unsafe extern "C" fn $name(this: *const abi::Context, network: u64) -> Outcome {
                run(|| {
                    // SAFETY: `exported_context` created `this`, and the host has not released it.
                    unsafe { ExportedObject::<_, Context>::state(this) }.$name(NetworkId(network))
                })
            }
            Some($name)
        }};
    }
    let table = abi::Context {
        size: size_of::<abi::Context>(),
        before_load: callback!(before_load),
        after_load: callback!(after_load),
        before_unload: callback!(before_unload),
        after_unload: callback!(after_unload),
        after_enqueue: callback!(after_enqueue),
        release: Some(release::<abi::Context, Context>),
    };
    ExportedObject::table(table, context)
}

/// A profiling context, and the structs of its counters.
pub(super) struct ExportedProfiling {
    profiling: Box<dyn ProfilingContext>,
    _counters: Box<[abi::Counter]>,
    list: Box<[*const abi::Counter]>,
}

impl ExportedProfiling {
    pub fn table(profiling: Box<dyn ProfilingContext>) -> *const abi::Profiling {
        let counters: Box<[_]> = profiling
            .counters()
            .iter()
            .map(|counter| abi::Counter {
                size: size_of::<abi::Counter>(),
                name: abi::Text::of(&counter.name),
                doc: abi::Text::of(&counter.doc),
                unit: abi::Text::of(&counter.unit),
            })
            .collect();
        let state = Self {
            list: counters.iter().map(|one| &raw const *one).collect(),
            _counters: counters,
            profiling,
        };
        let table = abi::Profiling {
            size: size_of::<abi::Profiling>(),
            counter_count: state.list.len(),
            counters: state.list.as_ptr(),
            enable: Some(enable),
            sample: Some(sample),
            release: Some(release::<abi::Profiling, ExportedProfiling>),
        };
        ExportedObject::table(table, state)
    }
}

unsafe extern "C" fn enable(this: *const abi::Profiling, on: i32) -> Outcome {
    run(|| {
        // SAFETY: `ExportedProfiling::table` created `this`, and the host has not released it.
        let state = unsafe { ExportedObject::<_, ExportedProfiling>::state(this) };
        state.profiling.enable(on != 0)
    })
}

unsafe extern "C" fn sample(this: *const abi::Profiling, values: *mut u64) -> Outcome {
    run(|| {
        if values.is_null() {
            return Err(invalid("the array of values is null"));
        }
        // SAFETY: `ExportedProfiling::table` created `this`, and the host has not released it;
        // `values` is not null (checked above) and valid for one value per counter (header).
        unsafe {
            let state = ExportedObject::<_, ExportedProfiling>::state(this);
            let values = std::slice::from_raw_parts_mut(values, state.list.len());
            state.profiling.sample(values)
        }
    })
}

type Handle = Mutex<Box<dyn TensorHandle>>;

pub(super) fn exported_handle(handle: Box<dyn TensorHandle>) -> *const abi::TensorHandle {
    let table = abi::TensorHandle {
        size: size_of::<abi::TensorHandle>(),
        copy_in: Some(copy_in),
        copy_out: Some(copy_out),
        start: Some(start),
        release: Some(release::<abi::TensorHandle, Handle>),
        enqueue_in: Some(enqueue_in),
        enqueue_out: Some(enqueue_out),
    };
    ExportedObject::table(table, Mutex::new(handle))
}

unsafe extern "C" fn copy_in(
    this: *const abi::TensorHandle,
    start: *const c_void,
    length: usize,
) -> Outcome {
    run(|| {
        let owner = std::ptr::null();
        let raw = abi::Bytes {
            start,
            length,
            owner,
        };
        // SAFETY: `exported_handle` created `this`, and the host has not released it; `start` is
        // null or valid for reads of `length` bytes (header).
        unsafe {
            let handle = ExportedObject::<_, Handle>::state(this);
            let mut handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            handle.copy_in(bytes(raw, "the elements")?)
        }
    })
}

unsafe extern "C" fn copy_out(
    this: *const abi::TensorHandle,
    start: *mut c_void,
    length: usize,
) -> Outcome {
    run(|| {
        if start.is_null() && length > 0 {
            return Err(invalid("the buffer for the elements is null"));
        }
        // SAFETY: `exported_handle` created `this`, and the host has not released it; `start` is
        // not null unless `length` is 0 (checked above) and valid for writes of `length` bytes
        // (header).
        unsafe {
            let handle = ExportedObject::<_, Handle>::state(this);
            let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            match length {
                0 => handle.copy_out(&mut []),
                _ => handle.copy_out(std::slice::from_raw_parts_mut(start.cast(), length)),
            }
        }
    })
}

unsafe extern "C" fn start(this: *const abi::TensorHandle) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    drop_outcome(run(|| {
        // SAFETY: `exported_handle` created `this`, and the host has not released it.
        let handle = unsafe { ExportedObject::<_, Handle>::state(this) };
        let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
        start = handle.start().cast();
        Ok(())
    }));
    start
}

unsafe extern "C" fn enqueue_in(
    this: *const abi::TensorHandle,
    stream: *const abi::Stream,
    start: *const c_void,
    length: usize,
) -> Outcome {
    run(|| {
        let bytes = std::ptr::slice_from_raw_parts(from_c(start.cast_mut(), length)?, length);
        // SAFETY: `exported_handle` and `exported_stream` created the objects, and the host has not released them; it
        // keeps the bytes until the stream is finished (header).
        unsafe {
            let handle = ExportedObject::<_, Handle>::state(this);
            let mut handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            with_stream(stream, |stream| handle.enqueue_in(stream, bytes))
        }
    })
}

unsafe extern "C" fn enqueue_out(
    this: *const abi::TensorHandle,
    stream: *const abi::Stream,
    start: *mut c_void,
    length: usize,
) -> Outcome {
    run(|| {
        let bytes = std::ptr::slice_from_raw_parts_mut(from_c(start, length)?, length);
        // SAFETY: `exported_handle` and `exported_stream` created the objects, and the host has not released them; it
        // keeps the bytes until the stream is finished (header).
        unsafe {
            let handle = ExportedObject::<_, Handle>::state(this);
            let handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
            with_stream(stream, |stream| handle.enqueue_out(stream, bytes))
        }
    })
}

/// The address of bytes of the host, which is null only for no bytes.
fn from_c(start: *mut c_void, length: usize) -> Result<*mut u8> {
    match start.is_null() {
        true if length > 0 => Err(invalid("the buffer for the elements is null")),
        true => Ok(NonNull::dangling().as_ptr()),
        false => Ok(start.cast()),
    }
}

type SharedAllocator = Arc<dyn Allocator>;

pub(super) fn exported_allocator(allocator: SharedAllocator) -> *const abi::Allocator {
    let table = abi::Allocator {
        size: size_of::<abi::Allocator>(),
        source: allocator.source().bit() as i32,
        allocate: Some(allocate),
        free: Some(free),
        release: Some(release::<abi::Allocator, SharedAllocator>),
    };
    ExportedObject::table(table, allocator)
}

unsafe extern "C" fn allocate(
    this: *const abi::Allocator,
    length: usize,
    alignment: usize,
) -> *mut c_void {
    let mut memory = std::ptr::null_mut();
    drop_outcome(run(|| {
        if length == 0 || !alignment.is_power_of_two() {
            return Err(invalid("the size is 0 or the alignment not a power of two"));
        }
        // SAFETY: `exported_allocator` created `this`, and the host has not released it.
        let start = unsafe { ExportedObject::<_, SharedAllocator>::state(this) }
            .allocate(length, alignment)?;
        memory = start.as_ptr().cast();
        Ok(())
    }));
    memory
}

unsafe extern "C" fn free(this: *const abi::Allocator, start: *mut c_void) {
    if let Some(start) = NonNull::new(start.cast()) {
        drop_outcome(run(|| {
            // SAFETY: `exported_allocator` created `this`, and the host has not released it;
            // `start` was allocated by it and is freed once (header).
            unsafe { ExportedObject::<_, SharedAllocator>::state(this).free(start) };
            Ok(())
        }));
    }
}

/// An allocator of the host, which outlives the backend created with it (header).
pub(super) struct HostAllocator {
    this: *const abi::Allocator,
    table: abi::Allocator,
}

// SAFETY: the functions of an allocator may be called from any thread (header, "Threads").
unsafe impl Send for HostAllocator {}
// SAFETY: the functions of an allocator may be called concurrently (header, "Threads").
unsafe impl Sync for HostAllocator {}

impl HostAllocator {
    /// # Safety
    /// `this` is null or a valid allocator that outlives the value (header, `with_allocator`).
    pub unsafe fn new(this: *const abi::Allocator) -> Result<Self> {
        // SAFETY: `this` is null or a valid struct (requirement).
        let table = unsafe { structure(this, "an allocator")? };
        Ok(Self { this, table })
    }
}

impl Allocator for HostAllocator {
    fn allocate(&self, length: usize, alignment: usize) -> Result<NonNull<u8>> {
        let allocate = self.table.allocate;
        let allocate = allocate.ok_or_else(|| invalid("the allocator has no function"))?;
        // SAFETY: `allocate` of the allocator is called with the allocator itself, which is alive
        // (`new`).
        let start = unsafe { allocate(self.this, length, alignment) };
        NonNull::new(start.cast()).ok_or_else(|| {
            let text = format!("the allocator cannot allocate {length} bytes");
            Error::new(ErrorKind::OutOfMemory, text)
        })
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        if let Some(free) = self.table.free {
            // SAFETY: `free` of the allocator is called with the allocator itself, which is alive
            // (`new`), and with memory of it that is freed once (requirement of this function).
            unsafe { free(self.this, start.as_ptr().cast()) }
        }
    }

    fn source(&self) -> MemorySource {
        MemorySource::of_bit(self.table.source).unwrap_or(MemorySource::Malloc)
    }
}
