//! Pending results of loops.

use tenon_executor::{Promise, Value, pending};

/// The promises of a kernel's pending results.
pub(super) struct Promises(Vec<Promise>);

impl Promises {
    /// `count` pending results and their promises.
    pub(super) fn new(count: usize) -> (Vec<Value>, Self) {
        let (values, promises) = (0..count)
            .map(|_| pending())
            .map(|(value, promise)| (Value::Pending(value), promise))
            .unzip();
        (values, Self(promises))
    }

    /// Sets each result.
    pub(super) fn set(self, values: Vec<Value>) {
        for (promise, value) in self.0.into_iter().zip(values) {
            promise.set(value);
        }
    }

    /// Sets all results to the same value.
    pub(super) fn set_all(self, value: &Value) {
        for promise in self.0 {
            promise.set(value.clone());
        }
    }
}
