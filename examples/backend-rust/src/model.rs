//! Memory of a model, and callbacks about models.

#![allow(unsafe_code, reason = "pointers of the C interface")]

use crate::{Counts, Example, release};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend_abi::{
    Backend, Context, MemoryManager, Outcome, PropertyValue, failed, failure, guarded, status,
};

// The functions below are called by Tenon as the header requires: the first argument is an object
// that this library created and that is not released; structs are valid, and out-parameters are
// valid for a write. The SAFETY comments call this the calling convention.

/// A buffer for the workloads of a model, allocated while the manager is acquired.
#[repr(C)]
struct ExampleMemory {
    table: MemoryManager,
    buffer: Mutex<Vec<u8>>,
}

pub(crate) unsafe extern "C" fn memory_manager(
    _: *const Backend,
    out: *mut *const MemoryManager,
) -> Outcome {
    guarded(|| {
        let memory = ExampleMemory {
            table: MemoryManager {
                size: size_of::<MemoryManager>(),
                acquire: Some(acquire),
                give_back: Some(release_buffer), // words: allow
                release: Some(release::<MemoryManager, ExampleMemory>),
            },
            buffer: Mutex::default(),
        };
        // SAFETY: by the calling convention `out` is valid for a write.
        unsafe { *out = Box::into_raw(Box::new(memory)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn acquire(this: *const MemoryManager) -> Outcome {
    guarded(|| {
        // SAFETY: by the calling convention `this` is the first member of a live `ExampleMemory`.
        let own = unsafe { &*this.cast::<ExampleMemory>() };
        let mut buffer = own.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved = buffer.try_reserve(4096);
        reserved.map_err(|_| failure(status::OUT_OF_MEMORY, "no memory for a model"))
    })
}

unsafe extern "C" fn release_buffer(this: *const MemoryManager) {
    // SAFETY: by the calling convention `this` is the first member of a live `ExampleMemory`.
    let own = unsafe { &*this.cast::<ExampleMemory>() };
    *own.buffer.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
}

/// The state of a model in a runtime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Loading,
    Loaded,
    Unloading,
}

/// A context, which refuses callbacks in a wrong order.
#[repr(C)]
struct ExampleContext {
    table: Context,
    counts: Arc<Counts>,
    models: Mutex<BTreeMap<u64, Stage>>,
}

pub(crate) unsafe extern "C" fn context(
    this: *const Backend,
    _: usize,
    _: *const *const PropertyValue,
    _: i32,
    out: *mut *const Context,
) -> Outcome {
    guarded(|| {
        // SAFETY: by the calling convention `this` is the first member of a live `Example`, and
        // `out` is valid for a write.
        unsafe {
            let context = ExampleContext {
                table: Context {
                    size: size_of::<Context>(),
                    before_load: Some(before_load),
                    after_load: Some(after_load),
                    before_unload: Some(before_unload),
                    after_unload: Some(after_unload),
                    after_enqueue: Some(after_enqueue),
                    release: Some(release::<Context, ExampleContext>),
                },
                counts: (*this.cast::<Example>()).counts.clone(),
                models: Mutex::default(),
            };
            *out = Box::into_raw(Box::new(context)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn before_load(this: *const Context, network: u64) -> Outcome {
    // SAFETY: by the calling convention `this` is a live context of this library.
    unsafe { step(this, network, None, Some(Stage::Loading)) }
}

unsafe extern "C" fn after_load(this: *const Context, network: u64) -> Outcome {
    // SAFETY: by the calling convention `this` is a live context of this library.
    unsafe { step(this, network, Some(Stage::Loading), Some(Stage::Loaded)) }
}

unsafe extern "C" fn after_enqueue(this: *const Context, network: u64) -> Outcome {
    // SAFETY: by the calling convention `this` is a live context of this library.
    unsafe { step(this, network, Some(Stage::Loaded), Some(Stage::Loaded)) }
}

unsafe extern "C" fn before_unload(this: *const Context, network: u64) -> Outcome {
    // SAFETY: by the calling convention `this` is a live context of this library.
    unsafe { step(this, network, Some(Stage::Loaded), Some(Stage::Unloading)) }
}

unsafe extern "C" fn after_unload(this: *const Context, network: u64) -> Outcome {
    // SAFETY: by the calling convention `this` is a live context of this library.
    unsafe { step(this, network, Some(Stage::Unloading), None) }
}

/// Moves a model from one stage to the next.
///
/// # Safety
/// `this` must be a live context of this library.
unsafe fn step(
    this: *const Context,
    network: u64,
    before: Option<Stage>,
    after: Option<Stage>,
) -> Outcome {
    // SAFETY: `this` is the first member of a live `ExampleContext` (requirement).
    let own = unsafe { &*this.cast::<ExampleContext>() };
    guarded(|| {
        let mut models = own.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.get(&network).copied() != before {
            return Err(failed(format!("network {network}: callback out of order")));
        }
        match after {
            Some(stage) => models.insert(network, stage),
            None => models.remove(&network),
        };
        let loaded = models.values().filter(|&&stage| stage == Stage::Loaded);
        own.counts
            .models
            .store(loaded.count() as u64, Ordering::Relaxed);
        if before == after {
            own.counts.enqueued.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
}
