//! The handover of a returned value from the kernel that computes it to the caller, which may have
//! returned before.

use crate::sync::{AtomicU8, Mutex, Ordering};
use crate::{AsyncValue, Promise, pending};

/// Shared by a kernel and the caller: the second of the two to arrive completes the handover.
pub(crate) struct ResultCell {
    state: AtomicU8,
    /// Set by the caller before the state becomes [`PROMISED`].
    promise: Mutex<Option<Promise>>,
}

/// The value is not set, and the caller has not detached.
const OPEN: u8 = 0;
/// The register holds the value.
const SET: u8 = 1;
/// The caller detached with a pending value.
const PROMISED: u8 = 2;

impl ResultCell {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(OPEN),
            promise: Mutex::new(None),
        }
    }

    /// Resets the cell before it is shared.
    pub(crate) fn reset(&mut self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// The register holds the value; returns the promise to set if the caller has detached.
    pub(crate) fn set(&self) -> Option<Promise> {
        match self.state.swap(SET, Ordering::AcqRel) {
            PROMISED => self.take(),
            _ => None,
        }
    }

    /// Detaches the caller. `None` means that the register's value is set and may be read;
    /// otherwise the caller returns the pending value.
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
        // The kernel set the value first and did not see the promise.
        self.take();
        None
    }

    fn put(&self, promise: Promise) {
        let mut slot = self.promise.lock().expect("no holder panics");
        *slot = Some(promise);
    }

    fn take(&self) -> Option<Promise> {
        self.promise.lock().expect("no holder panics").take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn the_second_to_arrive_completes_the_handover() {
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
#[allow(unsafe_code, reason = "accesses that loom checks")]
mod model {
    use super::*;
    use crate::Value;
    use crate::sync::{Arc, UnsafeCell};

    /// The caller receives the value, available or pending, in every interleaving with the kernel.
    #[test]
    fn the_value_reaches_the_caller() {
        loom::model(|| {
            let shared = Arc::new((ResultCell::new(), UnsafeCell::new(0)));
            let kernel = shared.clone();
            let thread = loom::thread::spawn(move || {
                // SAFETY: the caller reads the register only after `set`, and no other thread
                // writes it.
                kernel.1.with_mut(|register| unsafe { *register = 7 });
                if let Some(promise) = kernel.0.set() {
                    promise.set(Value::I32(7));
                }
            });
            match shared.0.detach() {
                // SAFETY: `detach` returned `None`, so the write happened before; loom fails the
                // test otherwise.
                None => assert_eq!(shared.1.with(|register| unsafe { *register }), 7),
                Some(value) => {
                    thread.join().unwrap();
                    assert_eq!(value.get(), Some(&Value::I32(7)));
                }
            }
        });
    }
}
