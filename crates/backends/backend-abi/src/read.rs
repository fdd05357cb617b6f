//! Reading of structs that begin with their size, across versions of the interface.

#![allow(unsafe_code, reason = "structs of the C interface")]

use crate::*;
use std::fmt;

/// A struct that begins with its size.
///
/// # Safety
/// The type must be `#[repr(C)]` with the first member `size: usize`, and all bytes zero must be
/// valid.
pub unsafe trait Prefixed: Copy {
    /// Its size in the version that introduced it, the minimum.
    const MIN_SIZE: usize;
}

macro_rules! prefixed {
    ($($name:ident)*) => {$(
        // SAFETY: `structs!` declares it `#[repr(C)]` with `size` first; the other members are
        // integers, floats, raw pointers and optional functions, for which zero is valid.
        unsafe impl Prefixed for $name {
            const MIN_SIZE: usize = size_of::<$name>();
        }
    )*};
}

prefixed! {
    Failure Attribute Node Graph PropertyValue BackendOption Prepared Control Event Part
    Stream MemoryManager Substitution FailedPart Views Allocator ImportedMemory Tolerance Context
    Counter Profiling
}

/// Structs to which later versions added members: the first of these.
macro_rules! extended {
    ($($name:ident from $member:ident;)*) => {$(
        // SAFETY: `structs!` declares it `#[repr(C)]` with `size` first; the other members are
        // integers, raw pointers, optional functions and structs of such, for which zero is valid.
        unsafe impl Prefixed for $name {
            const MIN_SIZE: usize = std::mem::offset_of!($name, $member);
        }
    )*};
}

extended! {
    // 1.1
    Operands from control;
    // 1.2
    Tensor from ranges;
    // 1.3
    Plan from device_bytes;
    Workload from part_count;
    TensorHandle from enqueue_in;
    HandleFactory from device_type;
    Host from cache_get;
    Backend from stream;
}

/// Maximum size of a struct of any version; a greater one is invalid.
const MAX_SIZE: usize = 1 << 16;

/// The reason why a struct cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// The pointer is null.
    Null,
    /// The pointer is not aligned.
    Unaligned,
    /// The size is below the minimum or above any version's.
    Size {
        /// The minimum size.
        expected: usize,
        /// The size in the struct.
        found: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Null => f.write_str("is null"),
            LayoutError::Unaligned => f.write_str("is not aligned"),
            LayoutError::Size { expected, found } => {
                write!(f, "has size {found}: expected at least {expected} bytes")
            }
        }
    }
}

/// A copy of the struct that `start` points to, as far as its size covers; the rest is zero.
///
/// # Safety
/// `start` is null or valid for reads of a `usize`, the size, and, if that is at most 64 KiB, of
/// that many initialised bytes.
pub unsafe fn read<T: Prefixed>(start: *const T) -> Result<T, LayoutError> {
    if start.is_null() {
        return Err(LayoutError::Null);
    }
    if !start.is_aligned() {
        return Err(LayoutError::Unaligned);
    }
    // SAFETY: `start` is not null and aligned (checked above), and valid for a read of the size
    // (requirement).
    let found = unsafe { start.cast::<usize>().read() };
    let expected = T::MIN_SIZE;
    if found < expected || found > MAX_SIZE {
        return Err(LayoutError::Size { expected, found });
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let known = found.min(size_of::<T>());
    // SAFETY: the source is valid for `found` bytes (requirement; `found` is at most `MAX_SIZE`),
    // the target for the size of `T`, and `known` is the minimum of both. Zero bytes are valid
    // (`Prefixed`), and the other side writes valid members (header).
    unsafe {
        std::ptr::copy_nonoverlapping(start.cast::<u8>(), value.as_mut_ptr().cast(), known);
        Ok(value.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Longer {
        counter: Counter,
        tail: [u64; 4],
    }

    #[test]
    fn a_tensor_of_version_1_1_has_fixed_sizes() {
        let extents = [2u64, 3];
        let range = ExtentRange { min: 1, max: 9 };
        let tensor = |size| Tensor {
            size,
            dtype: 1,
            rank: 2,
            extents: extents.as_ptr(),
            data: Bytes::NONE,
            layout: Text::EMPTY,
            prepared: Bytes::NONE,
            ranges: &range,
            elements_vary: 1,
        };
        // Its size in 1.1 on 64-bit machines: what follows is not part of it.
        // SAFETY: the reference is valid for the size of `Tensor`, which is greater.
        let old = unsafe { read(&tensor(88)) }.unwrap();
        assert!(old.ranges.is_null() && old.elements_vary == 0 && old.rank == 2);
        // SAFETY: the reference is valid for the size of `Tensor`.
        let new = unsafe { read(&tensor(size_of::<Tensor>())) }.unwrap();
        assert_eq!((new.ranges, new.elements_vary), (&raw const range, 1));
        // SAFETY: of a struct with an invalid size, only the size is read.
        assert!(unsafe { read(&tensor(80)) }.is_err());
    }

    #[test]
    fn unknown_members_are_ignored_and_invalid_sizes_refused() {
        let counter = |size| Counter {
            size,
            name: Text::of("hits"),
            doc: Text::EMPTY,
            unit: Text::EMPTY,
        };
        let longer = Longer {
            counter: counter(size_of::<Longer>()),
            tail: [7; 4],
        };
        // SAFETY: `counter` is part of `longer`, which is as long as the size says.
        let read_back = unsafe { read(&raw const longer.counter) }.unwrap();
        assert_eq!((read_back.name.length, longer.tail[3]), (4, 7));
        for found in [0, 8, size_of::<Counter>() - 1, usize::MAX] {
            // SAFETY: the reference is valid for the size of `Counter`; of a struct with an invalid
            // size, only the size is read.
            let error = unsafe { read(&counter(found)) }.err();
            let expected = size_of::<Counter>();
            assert_eq!(error, Some(LayoutError::Size { expected, found }));
        }
        // SAFETY: null and unaligned pointers are not dereferenced.
        unsafe {
            assert_eq!(
                read::<Counter>(std::ptr::null()).err(),
                Some(LayoutError::Null)
            );
            let odd = (&raw const longer).cast::<u8>().wrapping_add(1);
            assert_eq!(
                read::<Counter>(odd.cast()).err(),
                Some(LayoutError::Unaligned)
            );
        }
    }
}
