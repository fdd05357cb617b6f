//! What it counts.

use crate::{Example, release};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_backend_abi::{Backend, Counter, Outcome, Profiling, Text, guarded};

/// How many counters there are.
const COUNTERS: usize = 5;

/// What the counters show.
#[derive(Default)]
pub(crate) struct Counts {
    pub executions: AtomicU64,
    /// Tensors copied to or from this memory.
    pub copies: AtomicU64,
    /// Tensors made of memory of others.
    pub imports: AtomicU64,
    /// Models loaded now, in the runtime that spoke last.
    pub models: AtomicU64,
    /// Executions that contexts heard of.
    pub enqueued: AtomicU64,
}

// SAFETY of the functions below: Tenon passes what the header says, and the first argument is one
// that this library made.

#[repr(C)]
struct ExampleProfiling {
    table: Profiling,
    counts: Arc<Counts>,
    _counters: Box<[Counter; COUNTERS]>,
    list: [*const Counter; COUNTERS],
}

pub(crate) unsafe extern "C" fn profiling(
    this: *const Backend,
    made: *mut *const Profiling,
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
            counter("imports", "tensors made of memory of others"),
            counter("models", "models loaded now"),
            counter("enqueued", "executions of models that were handed over"),
        ]);
        // SAFETY: see above.
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
        // SAFETY: see above.
        unsafe { *made = Box::into_raw(profiling).cast() };
        Ok(())
    })
}

unsafe extern "C" fn sample(this: *const Profiling, values: *mut u64) -> Outcome {
    // SAFETY: see above, and room for all values.
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
