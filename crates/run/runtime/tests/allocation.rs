//! Steady-state execution does not allocate.

#![allow(unsafe_code, reason = "raw memory of the tests")]

mod common;

use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tenon_base::Control;
use tenon_runtime::{ExecuteOptions, LoadOptions};
use tenon_tensor::BufferMut;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is forwarded to the system allocator, and counting does not access the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees the condition of `GlobalAlloc::alloc`, which is the system
        // allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the condition of this method, which is the system
        // allocator's.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees the condition of this method, which is the system
        // allocator's.
        unsafe { System.realloc(start, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// A single test, because the counter counts all threads.
#[test]
fn steady_state_does_not_allocate() {
    let perceptron = model_of(perceptron(&[784, 256, 128, 10]), &LoadOptions::default());
    let movements = model_of(movements(), &LoadOptions::default());
    let options = LoadOptions {
        threads: Some(1),
        ..LoadOptions::default()
    };
    let alone = model_of(common::perceptron(&[64, 64, 10]), &options);
    for model in [&perceptron, &movements, &alone] {
        let size = |ty: &tenon_tensor::TensorType| BufferMut::zeroed(ty.bytes() + 1).unwrap();
        let inputs: Vec<_> = model.inputs().iter().map(|input| size(&input.ty)).collect();
        let mut outputs: Vec<_> = model
            .outputs()
            .iter()
            .map(|output| size(&output.ty))
            .collect();
        let control = Control::new();
        let mut profile = model.profile();
        for unaligned in [0, 1] {
            let inputs: Vec<&[u8]> = inputs
                .iter()
                .map(|input| &input[unaligned..][..input.len() - 1])
                .collect();
            let mut outputs: Vec<&mut [u8]> = outputs
                .iter_mut()
                .map(|output| {
                    let len = output.len() - 1;
                    &mut output[unaligned..][..len]
                })
                .collect();
            for _ in 0..3 {
                model.execute(&inputs, &mut outputs).unwrap();
            }
            // The pool's threads, started by the first loop, allocate until they run.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let count = allocations(|| {
                for _ in 0..100 {
                    model.execute(&inputs, &mut outputs).unwrap();
                    let profile = Some(&mut profile);
                    let options = ExecuteOptions {
                        control: Some(&control),
                        profile,
                        trace: None,
                        tap: None,
                        cores: None,
                    };
                    model.execute_with(&inputs, &mut outputs, options).unwrap();
                }
            });
            assert_eq!(count, 0, "{}, unaligned by {unaligned}", model.name());
        }
        let mut bindings = model.bind().unwrap();
        for input in model.inputs() {
            bindings
                .set_input(&input.name, &random_tensor(input.ty.shape(), 1))
                .unwrap();
        }
        bindings.execute(ExecuteOptions::default()).unwrap();
        let count = allocations(|| bindings.execute(ExecuteOptions::default()).unwrap());
        assert_eq!(count, 0, "{} with bindings", model.name());
    }
    // Check that the counter works.
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1u64)))) > 0);
}
