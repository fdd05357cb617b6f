//! Values of the host's own types: shared, one word wide.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A type whose values travel through registers.
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

/// A shared value of any [`Opaque`] type; the last clone drops it.
pub struct Object(NonNull<Header>);

/// What the type of an object gives to all of them.
struct Table {
    id: TypeId,
    name: &'static str,
    /// Drops and frees a `Block<T>`: SAFETY as [`free`] asks.
    free: unsafe fn(NonNull<Header>),
}

struct Header {
    references: AtomicUsize,
    table: &'static Table,
}

/// `header` is first, so that a pointer to it is a pointer to the block.
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
/// `header` must be that of a `Block<T>` made by [`Object::new`], used by nobody any more.
unsafe fn free<T>(header: NonNull<Header>) {
    // SAFETY: the caller's promise; the block was made by a box.
    drop(unsafe { Box::from_raw(header.cast::<Block<T>>().as_ptr()) });
}

// SAFETY: the value is `Send + Sync` by the bound of `Opaque`, and the count is atomic.
unsafe impl Send for Object {}
// SAFETY: as above.
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

    /// The value, when it is a `T`.
    #[inline]
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        if self.header().table.id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: the type is the one the block was made with; the block lives as long as `self`.
        Some(unsafe { &self.0.cast::<Block<T>>().as_ref().value })
    }

    /// The printed type of its value.
    pub fn type_name(&self) -> &'static str {
        self.header().table.name
    }

    /// Whether nobody else shares it.
    pub fn is_unique(&self) -> bool {
        self.header().references.load(Ordering::Acquire) == 1
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the block lives while a reference to it does.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Object {
    #[inline]
    fn clone(&self) -> Self {
        // Who clones has a reference, so that the count cannot reach zero meanwhile.
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
        // The last one need not tell others that it goes.
        if header.references.load(Ordering::Acquire) != 1
            && header.references.fetch_sub(1, Ordering::Release) != 1
        {
            return;
        }
        fence(Ordering::Acquire);
        let free = header.table.free;
        // SAFETY: this was the last reference, and the table is that of the block's type.
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

    /// The object as a `T`; back when it is something else.
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
        // SAFETY: the type was checked when this was made; the block lives as long as `self`.
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

    struct Own(Arc<u32>);
    impl Opaque for Own {
        const TYPE: &'static str = "!own";
    }

    #[test]
    fn the_last_clone_drops_the_value() {
        let inner = Arc::new(7);
        let object = Object::new(Own(inner.clone()));
        let other = object.clone();
        assert!(!object.is_unique() && object.is(&other));
        drop(object);
        assert!(other.is_unique());
        assert_eq!(*other.downcast::<Own>().unwrap().0, 7);
        assert!(other.downcast::<String>().is_none());
        assert_eq!(other.type_name(), "!own");
        drop(other);
        assert_eq!(Arc::strong_count(&inner), 1);
    }

    #[test]
    fn an_object_becomes_shared_only_with_its_own_type() {
        let object = Shared::new("text".to_owned()).into_object();
        let object = Shared::<Own>::from_object(object).err().unwrap();
        assert_eq!(*Shared::<String>::from_object(object).ok().unwrap(), "text");
    }
}
