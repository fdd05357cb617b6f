//! What it keeps for a model, and what it hears of models.

use crate::{Counts, Example, release};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend_abi::{
    Backend, Context, MemoryManager, Outcome, PropertyValue, failed, failure, guarded, status,
};

// SAFETY of the functions below: Tenon passes what the header says, and the first argument is one
// that this library made.

/// A buffer that a model's workloads could share: there between acquire and give_back.
#[repr(C)]
struct ExampleMemory {
    table: MemoryManager,
    buffer: Mutex<Vec<u8>>,
}

pub(crate) unsafe extern "C" fn memory_manager(
    _: *const Backend,
    made: *mut *const MemoryManager,
) -> Outcome {
    guarded(|| {
        let memory = ExampleMemory {
            table: MemoryManager {
                size: size_of::<MemoryManager>(),
                acquire: Some(acquire),
                give_back: Some(give_back),
                release: Some(release::<MemoryManager, ExampleMemory>),
            },
            buffer: Mutex::default(),
        };
        // SAFETY: see above.
        unsafe { *made = Box::into_raw(Box::new(memory)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn acquire(this: *const MemoryManager) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let own = unsafe { &*this.cast::<ExampleMemory>() };
        let mut buffer = own.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buffer.try_reserve(4096);
        taken.map_err(|_| failure(status::OUT_OF_MEMORY, "no memory for a model"))
    })
}

unsafe extern "C" fn give_back(this: *const MemoryManager) {
    // SAFETY: see above.
    let own = unsafe { &*this.cast::<ExampleMemory>() };
    *own.buffer.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
}

/// How far a model has come in a runtime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Loading,
    Loaded,
    Leaving,
}

/// Hears of the models of one runtime, and refuses what comes out of order.
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
    made: *mut *const Context,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
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
            *made = Box::into_raw(Box::new(context)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn before_load(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    unsafe { step(this, network, None, Some(Stage::Loading)) }
}

unsafe extern "C" fn after_load(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    unsafe { step(this, network, Some(Stage::Loading), Some(Stage::Loaded)) }
}

unsafe extern "C" fn after_enqueue(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    unsafe { step(this, network, Some(Stage::Loaded), Some(Stage::Loaded)) }
}

unsafe extern "C" fn before_unload(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    unsafe { step(this, network, Some(Stage::Loaded), Some(Stage::Leaving)) }
}

unsafe extern "C" fn after_unload(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    unsafe { step(this, network, Some(Stage::Leaving), None) }
}

/// A model goes from one stage to the next.
///
/// # Safety
/// `this` is a context that this library made.
unsafe fn step(
    this: *const Context,
    network: u64,
    before: Option<Stage>,
    after: Option<Stage>,
) -> Outcome {
    // SAFETY: the caller vouches.
    let own = unsafe { &*this.cast::<ExampleContext>() };
    guarded(|| {
        let mut models = own.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.get(&network).copied() != before {
            return Err(failed(format!("network {network} is told of out of order")));
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
