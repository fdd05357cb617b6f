//! Model checking of setting, waiting and forwarding, every interleaving (`cargo xtask loom`).

use super::*;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// Each waiter runs once and sees the value, whether it registers before, after or while it is set.
#[test]
fn every_waiter_runs_once() {
    loom::model(|| {
        let (value, promise) = pending();
        let runs = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (value, runs) = (value.clone(), runs.clone());
                thread::spawn(move || {
                    value.when_available(move |value| {
                        assert_eq!(*value, Value::I32(3));
                        runs.fetch_add(1, Ordering::Relaxed);
                    });
                })
            })
            .collect();
        promise.set(Value::I32(3));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    });
}

/// A thread that finds the value available reads all of it.
#[test]
fn an_available_value_is_completely_written() {
    loom::model(|| {
        let (value, promise) = pending();
        let other = value.clone();
        let thread = thread::spawn(move || {
            if let Some(value) = other.get() {
                assert_eq!(*value, Value::I64(5));
            }
        });
        promise.set(Value::I64(5));
        thread.join().unwrap();
    });
}

/// A promise forwarded to a value that is being set is kept.
#[test]
fn a_forwarded_promise_is_kept() {
    loom::model(|| {
        let (inner, inner_promise) = pending();
        let (outer, outer_promise) = pending();
        let thread = thread::spawn(move || outer_promise.forward(inner));
        inner_promise.set(Value::Chain);
        thread.join().unwrap();
        assert_eq!(outer.get(), Some(&Value::Chain));
    });
}
