//! Counters shared by kernels.

use std::sync::atomic::{AtomicI32, Ordering};
use tenon_executor::{Chain, KernelDef, Opaque, kernel};

/// A counter.
struct Counter(AtomicI32);

impl Opaque for Counter {
    const TYPE: &'static str = "!test.atomic.i32";
}

pub(crate) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_test.atomic.create.i32", || Counter(AtomicI32::new(0))).doc("A counter at 0."),
        kernel("tfrt_test.atomic.inc.i32", |counter: &Counter, _: Chain| {
            counter.0.fetch_add(1, Ordering::Relaxed);
            Chain
        })
        .doc("Adds 1 to a counter."),
        kernel(
            "tfrt_test.atomic.add.i32",
            |counter: &Counter, x: i32, _: Chain| {
                counter.0.fetch_add(x, Ordering::Relaxed);
                Chain
            },
        )
        .doc("Adds to a counter, wrapping."),
        kernel("tfrt_test.atomic.get.i32", |counter: &Counter, _: Chain| {
            (counter.0.load(Ordering::Relaxed), Chain)
        })
        .doc("The value of a counter."),
    ]
}
