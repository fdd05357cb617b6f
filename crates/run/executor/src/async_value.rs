//! Asynchronous values (futures) and their promises (bef 2.1).
//!
//! One atomic pointer holds both the state and the waiters: null or a Treiber stack (1986) of
//! waiters while pending, a sentinel when available. Registering pushes onto the stack, setting
//! swaps the stack for the sentinel; so each waiter runs exactly once, the latest registered first.

#![allow(
    unsafe_code,
    reason = "registers, results and counts that threads share"
)]

use crate::depth;
use crate::sync::{Arc, AtomicPtr, Ordering, UnsafeCell};
use crate::value::{IntoValue, Value};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use tenon_base::{Error, ErrorKind};

/// A value that becomes available once. Clones share it.
///
/// ```
/// use tenon_executor::{Value, pending};
/// let (value, promise) = pending();
/// assert!(!value.is_available());
/// value.when_available(|value| assert_eq!(*value, Value::I32(7)));
/// promise.set(Value::I32(7));
/// assert_eq!(value.get(), Some(&Value::I32(7)));
/// ```
#[derive(Clone)]
pub struct AsyncValue(Arc<Cell>);

/// Sets an [`AsyncValue`]. When it is dropped unset, the value becomes an error.
pub struct Promise(Option<Arc<Cell>>);

/// A pending result of known type, as the result of a kernel function.
pub struct PendingResult<T>(AsyncValue, PhantomData<fn() -> T>);

struct Cell {
    waiters: AtomicPtr<Waiter>,
    /// Written once, before `waiters` becomes [`AVAILABLE`]; read only after.
    value: UnsafeCell<Value>,
}

// SAFETY: `value` is written by the one promise before it publishes with release, and read by
// others only after they have loaded [`AVAILABLE`] with acquire.
unsafe impl Send for Cell {}
// SAFETY: `value` is not written after it is published, and `Value` is `Sync`; `waiters` is atomic,
// its nodes are `Send`, and one thread takes the whole list by one swap.
unsafe impl Sync for Cell {}

/// The count of live cells, in builds with debug assertions.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// The count of live asynchronous values in this process. A function that leaves the count higher
/// than before has leaked a value (bef 5.1). Builds without debug assertions do not count and
/// return 0.
pub fn alive_async_values() -> usize {
    ALIVE.load(std::sync::atomic::Ordering::Relaxed)
}

/// The sentinel of an available value; no waiter has this address.
const AVAILABLE: *mut Waiter = ptr::without_provenance_mut(1);

struct Waiter {
    next: Option<Box<Waiter>>,
    action: Action,
}

enum Action {
    /// A caller's function; deferred when nested too deep.
    Call(Box<dyn FnOnce(&Value) + Send>),
    /// A continuation of an execution, which limits its own depth.
    Resume(Box<dyn FnOnce(&Value) + Send>),
    /// The value becomes that of another promise.
    Forward(Promise),
}

/// A pending value and the promise to set it.
pub fn pending() -> (AsyncValue, Promise) {
    if cfg!(debug_assertions) {
        ALIVE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    let cell = Arc::new(Cell {
        waiters: AtomicPtr::new(ptr::null_mut()),
        value: UnsafeCell::new(Value::Empty),
    });
    (AsyncValue(cell.clone()), Promise(Some(cell)))
}

/// The same with the type of the value that will be set.
pub fn pending_result<T: IntoValue>() -> (PendingResult<T>, Promise) {
    let (value, promise) = pending();
    (PendingResult(value, PhantomData), promise)
}

impl AsyncValue {
    /// Whether it has been set, to a value or an error.
    #[inline]
    pub fn is_available(&self) -> bool {
        self.0.is_available()
    }

    /// The value, when it is available.
    #[inline]
    pub fn get(&self) -> Option<&Value> {
        // SAFETY: `is_available` returned true on this thread, which is the condition of
        // `published`.
        (self.is_available()).then(|| unsafe { self.0.published() })
    }

    /// Calls `then` with the value: now when it is available, else when it is set, on the thread
    /// that sets it. Callbacks run in the reverse order of their registration.
    pub fn when_available(&self, then: impl FnOnce(&Value) + Send + 'static) {
        match self.get() {
            Some(value) => then(value),
            None => self.register(Action::Call(Box::new(then))),
        }
    }

    /// The same for an execution's own continuations.
    pub(crate) fn resume(&self, then: impl FnOnce(&Value) + Send + 'static) {
        match self.get() {
            Some(value) => then(value),
            None => self.register(Action::Resume(Box::new(then))),
        }
    }

    /// Whether both are the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn register(&self, action: Action) {
        let waiter = Box::into_raw(Box::new(Waiter { next: None, action }));
        let mut head = self.0.waiters.load(Ordering::Acquire);
        loop {
            if head == AVAILABLE {
                // SAFETY: `waiter` came from `Box::into_raw` above and was never pushed, so this
                // thread owns it alone.
                let waiter = unsafe { Box::from_raw(waiter) };
                // SAFETY: `AVAILABLE` was loaded with acquire.
                run(Some(waiter), unsafe { self.0.published() });
                return;
            }
            // SAFETY: `waiter` is not pushed yet, so this thread owns it alone; `head` is null or a
            // list of boxes, owned by this thread if the exchange below succeeds.
            unsafe { (*waiter).next = (!head.is_null()).then(|| Box::from_raw(head)) };
            let pushed =
                self.0
                    .waiters
                    .compare_exchange(head, waiter, Ordering::Release, Ordering::Acquire);
            let Err(now) = pushed else { return };
            // SAFETY: the exchange failed, so `waiter` is still owned by this thread; `next` is
            // forgotten because the list belongs to `waiters`.
            std::mem::forget(unsafe { (*waiter).next.take() });
            head = now;
        }
    }
}

impl Promise {
    /// Sets the value and runs its waiters. If `value` is pending, both happen when it becomes
    /// available.
    pub fn set(mut self, value: Value) {
        match value {
            Value::Pending(other) => self.forward(other),
            value => {
                if let Some(cell) = self.0.take() {
                    let waiters = cell.publish(value);
                    // SAFETY: published just now.
                    run(waiters, unsafe { cell.published() });
                }
            }
        }
    }

    /// Sets an error without a diagnostic.
    pub fn fail(self, error: Error) {
        self.set(Value::error(error));
    }

    /// Sets the value that `other` has or will have.
    pub fn forward(self, other: AsyncValue) {
        match other.get() {
            Some(value) => self.set(value.clone()),
            None => other.register(Action::Forward(self)),
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            let error = Error::new(ErrorKind::Internal, "a promised value was never set");
            let waiters = cell.publish(Value::error(error));
            // SAFETY: published just now.
            run(waiters, unsafe { cell.published() });
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Cell {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl<T: IntoValue> PendingResult<T> {
    /// The value without its type.
    pub fn into_async(self) -> AsyncValue {
        self.0
    }
}

impl<T: IntoValue> IntoValue for PendingResult<T> {
    const TYPE: &'static str = T::TYPE;
    fn into_value(self) -> Value {
        Value::Pending(self.0)
    }
}

impl Cell {
    fn is_available(&self) -> bool {
        self.waiters.load(Ordering::Acquire) == AVAILABLE
    }

    /// # Safety
    /// [`Cell::is_available`] must have returned true on this thread, or this thread must have
    /// published the value.
    unsafe fn published(&self) -> &Value {
        // SAFETY: the caller guarantees that the value was published, after which no thread writes
        // it; the reference is bounded by `self`.
        self.value.with(|value| unsafe { &*value })
    }

    /// Stores the value, marks it available and returns the waiters. Called once, by the promise.
    fn publish(&self, value: Value) -> Option<Box<Waiter>> {
        // SAFETY: the only promise was taken for this call, so there is one writer; readers wait
        // for `AVAILABLE`, which is stored below.
        self.value.with_mut(|slot| unsafe { *slot = value });
        let waiters = self.waiters.swap(AVAILABLE, Ordering::AcqRel);
        // SAFETY: the list is made of boxes, and the swap gave this thread its sole ownership.
        (!waiters.is_null()).then(|| unsafe { Box::from_raw(waiters) })
    }
}

/// Runs waiters in list order; the waiters of a forwarded promise run at its position. Lists of any
/// length and chains of forwarded promises use one stack frame.
fn run(mut waiters: Option<Box<Waiter>>, value: &Value) {
    while let Some(mut waiter) = waiters {
        let next = waiter.next.take();
        waiters = match waiter.action {
            Action::Forward(mut promise) => {
                let cell = promise.0.take();
                followed_by(cell.and_then(|cell| cell.publish(value.clone())), next)
            }
            Action::Resume(resume) => {
                resume(value);
                next
            }
            Action::Call(call) => {
                if depth::is_at_limit() {
                    let value = value.clone();
                    depth::defer(Box::new(move || call(&value)));
                } else {
                    let _level = depth::enter();
                    call(value);
                }
                next
            }
        };
    }
}

/// The waiters of `first`, then those of `second`.
fn followed_by(mut first: Option<Box<Waiter>>, second: Option<Box<Waiter>>) -> Option<Box<Waiter>> {
    let mut last = &mut first;
    while let Some(waiter) = last {
        last = &mut waiter.next;
    }
    *last = second;
    first
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
