//! Values of user-defined types: reference-counted objects behind one pointer.

#![allow(
    unsafe_code,
    reason = "registers, results and counts that threads share"
)]

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A type whose values can be held in registers.
///
/// ```
/// use tenon_executor::Opaque;
/// struct Coordinate(i32, i32);
/// impl Opaque for Coordinate {
///     const TYPE: &'static str = "!my.coordinate";
/// }
/// ```
pub trait Opaque: Send + Sync + 'static {
    /// The printed type of its registers.
    const TYPE: &'static str;
}

impl Opaque for String {
    const TYPE: &'static str = "!tfrt.string";
}

/// A shared value of any [`Opaque`] type; dropped with the last clone.
pub struct Object(NonNull<Header>);

/// The vtable of an object's type.
struct Table {
    id: TypeId,
    name: &'static str,
    /// [`free`] of the type; the safety condition is the same.
    free: unsafe fn(NonNull<Header>),
}

struct Header {
    references: AtomicUsize,
    table: &'static Table,
}

/// `header` is the first field, so that a pointer to it is a pointer to the block.
#[repr(C)]
struct Block<T> {
    header: Header,
    value: T,
}

struct TableOf<T>(PhantomData<T>);

impl<T: Opaque> TableOf<T> {
    const TABLE: Table = Table {
        id: TypeId::of::<T>(),
        name: T::TYPE,
        free: free::<T>,
    };
}

/// # Safety
/// `header` must be that of a `Block<T>` made by [`Object::new`], and no other reference to the
/// block may exist.
unsafe fn free<T>(header: NonNull<Header>) {
    // SAFETY: the caller guarantees that the pointer came from `Box::leak` of a `Block<T>` and that
    // it is the last reference.
    drop(unsafe { Box::from_raw(header.cast::<Block<T>>().as_ptr()) });
}

// SAFETY: the value is `Send + Sync` by the bound of `Opaque`, and the count is atomic.
unsafe impl Send for Object {}
// SAFETY: shared references give `&T` of a `Sync` value; the count is atomic.
unsafe impl Sync for Object {}

impl Object {
    /// A new object.
    pub fn new<T: Opaque>(value: T) -> Self {
        let block = Box::new(Block {
            header: Header {
                references: AtomicUsize::new(1),
                table: &TableOf::<T>::TABLE,
            },
            value,
        });
        Self(NonNull::from(Box::leak(block)).cast())
    }

    /// The value as a `T`; `None` if it has another type.
    #[inline]
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        if self.header().table.id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: the type id is that of the block's value, so it is a `Block<T>`; `self` holds a
        // reference, so the block outlives the borrow.
        Some(unsafe { &self.0.cast::<Block<T>>().as_ref().value })
    }

    /// The printed type of its value.
    pub fn type_name(&self) -> &'static str {
        self.header().table.name
    }

    /// Whether this is the only reference.
    pub fn is_unique(&self) -> bool {
        self.header().references.load(Ordering::Acquire) == 1
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the pointer came from `Box::leak`, and the block is freed only when the count of
        // references, one of which is `self`, reaches zero.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Object {
    #[inline]
    fn clone(&self) -> Self {
        // `self` is a reference, so the count cannot reach zero here (as in `std::sync::Arc`).
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > isize::MAX as usize {
            std::process::abort(); // clones were leaked until the count overflows
        }
        Self(self.0)
    }
}

impl Drop for Object {
    #[inline]
    fn drop(&mut self) {
        let header = self.header();
        // The last reference needs no atomic decrement.
        if header.references.load(Ordering::Acquire) != 1
            && header.references.fetch_sub(1, Ordering::Release) != 1
        {
            return;
        }
        fence(Ordering::Acquire);
        let free = header.table.free;
        // SAFETY: this was the last reference (the fence orders earlier uses before), and `free` is
        // of the type the block was made with.
        unsafe { free(self.0) }
    }
}

/// An [`Object`] known to be a `T`.
pub struct Shared<T: Opaque>(Object, PhantomData<T>);

impl<T: Opaque> Shared<T> {
    /// A new shared value.
    pub fn new(value: T) -> Self {
        Self(Object::new(value), PhantomData)
    }

    /// The object as a `T`; the object itself if it has another type.
    pub fn from_object(object: Object) -> Result<Self, Object> {
        match object.downcast::<T>() {
            Some(_) => Ok(Self(object, PhantomData)),
            None => Err(object),
        }
    }

    /// Forgets the type.
    pub fn into_object(self) -> Object {
        self.0
    }
}

impl<T: Opaque> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: both constructors guarantee that the block is a `Block<T>`; `self` holds a
        // reference, so the block outlives the borrow.
        unsafe { &self.0.0.cast::<Block<T>>().as_ref().value }
    }
}

impl<T: Opaque> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct TestObject(Arc<u32>);
    impl Opaque for TestObject {
        const TYPE: &'static str = "!own";
    }

    #[test]
    fn the_last_clone_drops_the_value() {
        let inner = Arc::new(7);
        let object = Object::new(TestObject(inner.clone()));
        let other = object.clone();
        assert!(!object.is_unique() && object.is(&other));
        drop(object);
        assert!(other.is_unique());
        assert_eq!(*other.downcast::<TestObject>().unwrap().0, 7);
        assert!(other.downcast::<String>().is_none());
        assert_eq!(other.type_name(), "!own");
        drop(other);
        assert_eq!(Arc::strong_count(&inner), 1);
    }

    #[test]
    fn an_object_converts_to_shared_only_of_its_type() {
        let object = Shared::new("text".to_owned()).into_object();
        let object = Shared::<TestObject>::from_object(object).err().unwrap();
        assert_eq!(*Shared::<String>::from_object(object).ok().unwrap(), "text");
    }
}
