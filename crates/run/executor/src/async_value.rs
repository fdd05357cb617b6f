//! A value that is not there yet, and the promise to set it (facts 2.1).
//!
//! One atomic pointer holds both state and waiters: null or a list while pending, a mark when
//! available. Registering pushes on the list, setting exchanges the list for the mark; so each
//! waiter runs exactly once, in the order latest registered first.

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

/// The right and duty to set an [`AsyncValue`]. Dropped without, the value becomes an error.
pub struct Promise(Option<Arc<Cell>>);

/// A pending result of known type, as the result of a kernel function.
pub struct PendingResult<T>(AsyncValue, PhantomData<fn() -> T>);

struct Cell {
    waiters: AtomicPtr<Waiter>,
    /// Written once, before `waiters` becomes [`AVAILABLE`]; read only after.
    value: UnsafeCell<Value>,
}

// SAFETY: `value` is written by the one promise before it publishes with release, and read by
// others only after they have seen that with acquire.
unsafe impl Send for Cell {}
// SAFETY: as above; waiters are `Send` and leave the list exactly once.
unsafe impl Sync for Cell {}

/// How many cells there are, in builds with debug assertions.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// How many values that were once pending are still held by anybody in this process: after a
/// function and all it started, as many as before, or something leaked (facts 5.1). Builds without
/// debug assertions do not count, and answer 0.
pub fn alive_async_values() -> usize {
    ALIVE.load(std::sync::atomic::Ordering::Relaxed)
}

/// The mark of an available value; no waiter lies at this address.
const AVAILABLE: *mut Waiter = ptr::without_provenance_mut(1);

struct Waiter {
    next: Option<Box<Waiter>>,
    action: Action,
}

enum Action {
    /// A caller's function; put off when nested too deep.
    Call(Box<dyn FnOnce(&Value) + Send>),
    /// A continuation of an execution, which looks after its own depth.
    Resume(Box<dyn FnOnce(&Value) + Send>),
    /// The value becomes that of another promise.
    Forward(Promise),
}

/// A value that is not there yet, and the promise to set it.
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
    /// Whether it has been set, be it to an error.
    #[inline]
    pub fn is_available(&self) -> bool {
        self.0.is_available()
    }

    /// The value, when it is there.
    #[inline]
    pub fn get(&self) -> Option<&Value> {
        // SAFETY: it was published, and nobody writes it again.
        (self.is_available()).then(|| unsafe { self.0.published() })
    }

    /// Calls `then` with the value: now when it is there, else when it is set, on the thread that
    /// sets it. Of several the one registered last is called first.
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
                // SAFETY: the waiter was not published, it is still ours.
                let waiter = unsafe { Box::from_raw(waiter) };
                // SAFETY: the mark was loaded with acquire.
                run(Some(waiter), unsafe { self.0.published() });
                return;
            }
            // SAFETY: as above; `head` is a list that was made of boxes, or null.
            unsafe { (*waiter).next = (!head.is_null()).then(|| Box::from_raw(head)) };
            let pushed =
                self.0
                    .waiters
                    .compare_exchange(head, waiter, Ordering::Release, Ordering::Acquire);
            let Err(now) = pushed else { return };
            // SAFETY: the list is not ours after all.
            std::mem::forget(unsafe { (*waiter).next.take() });
            head = now;
        }
    }
}

impl Promise {
    /// Sets the value and runs who waits for it. A pending value is waited for first.
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

    /// Sets an error that nobody has to be told of.
    pub fn fail(self, error: Error) {
        self.set(Value::error(error));
    }

    /// Sets what `other` is or will become.
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
    /// [`Cell::is_available`] must have answered true on this thread, or this thread published.
    unsafe fn published(&self) -> &Value {
        // SAFETY: nobody writes after publishing.
        self.value.with(|value| unsafe { &*value })
    }

    /// Stores the value, marks it available and answers who waited. Called once, by the promise.
    fn publish(&self, value: Value) -> Option<Box<Waiter>> {
        // SAFETY: the one promise was taken for this call, and nobody reads before the mark.
        self.value.with_mut(|slot| unsafe { *slot = value });
        let waiters = self.waiters.swap(AVAILABLE, Ordering::AcqRel);
        // SAFETY: the list was made of boxes, and the exchange made it ours.
        (!waiters.is_null()).then(|| unsafe { Box::from_raw(waiters) })
    }
}

/// Runs waiters in their order; the waiters of a forwarded promise run in its place. A list of any
/// length, and promises forwarded through each other to any depth, take one stack frame.
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
