//! A value that a function returns, on its way from the kernel that makes it to the caller, who may
//! have left before.

use crate::sync::{AtomicU8, Mutex, Ordering};
use crate::{AsyncValue, Promise, pending};

/// Where kernel and caller meet: whoever comes second serves the other.
pub(crate) struct ResultCell {
    state: AtomicU8,
    /// Set by the caller before the state becomes [`PROMISED`].
    promise: Mutex<Option<Promise>>,
}

/// Neither is the value there nor has the caller gone.
const OPEN: u8 = 0;
/// The register holds the value.
const SET: u8 = 1;
/// The caller has a pending value instead.
const PROMISED: u8 = 2;

impl ResultCell {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(OPEN),
            promise: Mutex::new(None),
        }
    }

    /// Starts over, before anybody comes.
    pub(crate) fn reset(&mut self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// The register holds the value; answers the promise to keep when the caller has gone.
    pub(crate) fn set(&self) -> Option<Promise> {
        match self.state.swap(SET, Ordering::AcqRel) {
            PROMISED => self.take(),
            _ => None,
        }
    }

    /// The caller goes: with the register's value when this answers `None`, which it may then read,
    /// else with a pending one.
    pub(crate) fn detach(&self) -> Option<AsyncValue> {
        if self.state.load(Ordering::Acquire) == SET {
            return None;
        }
        let (value, promise) = pending();
        self.put(promise);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let left = (self.state).compare_exchange(OPEN, PROMISED, success, failure);
        if left.is_ok() {
            return Some(value);
        }
        // It was set meanwhile; nobody knows of the promise.
        self.take();
        None
    }

    fn put(&self, promise: Promise) {
        let mut held = self.promise.lock().expect("nobody panics in here");
        *held = Some(promise);
    }

    fn take(&self) -> Option<Promise> {
        self.promise.lock().expect("nobody panics in here").take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn who_comes_second_serves_the_other() {
        let mut cell = ResultCell::new();
        assert!(cell.set().is_none());
        assert!(cell.detach().is_none());
        cell.reset();
        let value = cell.detach().unwrap();
        cell.set().unwrap().set(Value::I32(1));
        assert_eq!(value.get(), Some(&Value::I32(1)));
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code, reason = "cells that loom watches")]
mod model {
    use super::*;
    use crate::Value;
    use crate::sync::{Arc, UnsafeCell};

    /// The caller gets the value, there or promised, wherever the kernel is.
    #[test]
    fn the_value_reaches_the_caller() {
        loom::model(|| {
            let shared = Arc::new((ResultCell::new(), UnsafeCell::new(0)));
            let kernel = shared.clone();
            let thread = loom::thread::spawn(move || {
                // SAFETY: the caller reads only after `set`.
                kernel.1.with_mut(|register| unsafe { *register = 7 });
                if let Some(promise) = kernel.0.set() {
                    promise.set(Value::I32(7));
                }
            });
            match shared.0.detach() {
                // SAFETY: it is set; loom fails the test if that is not known here.
                None => assert_eq!(shared.1.with(|register| unsafe { *register }), 7),
                Some(value) => {
                    thread.join().unwrap();
                    assert_eq!(value.get(), Some(&Value::I32(7)));
                }
            }
        });
    }
}
