//! Counters, sampled by profiles.

#![allow(unsafe_code, reason = "pointers of the C interface")]

use crate::{Example, release};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_backend_abi::{Backend, Counter, Outcome, Profiling, Text, guarded};

/// Number of counters.
const COUNTERS: usize = 5;

/// The values of the counters.
#[derive(Default)]
pub(crate) struct Counts {
    pub executions: AtomicU64,
    /// Tensors copied to or from the backend's memory.
    pub copies: AtomicU64,
    /// Tensors imported from the caller's memory.
    pub imports: AtomicU64,
    /// Models that are loaded in the runtime with the last callback.
    pub models: AtomicU64,
    /// Executions reported to contexts.
    pub enqueued: AtomicU64,
}

// The functions below are called by Tenon as the header requires: the first argument is an object
// that this library created and that is not released; structs are valid, and out-parameters are
// valid for a write. The SAFETY comments call this the calling convention.

#[repr(C)]
struct ExampleProfiling {
    table: Profiling,
    counts: Arc<Counts>,
    _counters: Box<[Counter; COUNTERS]>,
    list: [*const Counter; COUNTERS],
}

pub(crate) unsafe extern "C" fn profiling(
    this: *const Backend,
    out: *mut *const Profiling,
) -> Outcome {
    guarded(|| {
        let counter = |name, doc| Counter {
            size: size_of::<Counter>(),
            name: Text::of(name),
            doc: Text::of(doc),
            unit: Text::EMPTY,
        };
        let counters = Box::new([
            counter("executions", "workloads executed"),
            counter("copies", "tensors copied to or from its memory"),
            counter("imports", "tensors imported from the caller's memory"),
            counter("models", "models that are loaded"),
            counter("enqueued", "executions of models that were enqueued"),
        ]);
        // SAFETY: by the calling convention `this` is the first member of a live `Example`.
        let counts = unsafe { (*this.cast::<Example>()).counts.clone() };
        let mut profiling = Box::new(ExampleProfiling {
            table: Profiling {
                size: size_of::<Profiling>(),
                counter_count: counters.len(),
                counters: std::ptr::null(),
                enable: None,
                sample: Some(sample),
                release: Some(release::<Profiling, ExampleProfiling>),
            },
            counts,
            list: std::array::from_fn(|index| &raw const counters[index]),
            _counters: counters,
        });
        profiling.table.counters = profiling.list.as_ptr();
        // SAFETY: by the calling convention `out` is valid for a write.
        unsafe { *out = Box::into_raw(profiling).cast() };
        Ok(())
    })
}

unsafe extern "C" fn sample(this: *const Profiling, values: *mut u64) -> Outcome {
    // SAFETY: by the calling convention `this` is the first member of a live `ExampleProfiling`,
    // and `values` is valid for `COUNTERS` writes.
    unsafe {
        let counts = &(*this.cast::<ExampleProfiling>()).counts;
        values.write(counts.executions.load(Ordering::Relaxed));
        values.add(1).write(counts.copies.load(Ordering::Relaxed));
        values.add(2).write(counts.imports.load(Ordering::Relaxed));
        values.add(3).write(counts.models.load(Ordering::Relaxed));
        values.add(4).write(counts.enqueued.load(Ordering::Relaxed));
    }
    std::ptr::null()
}
