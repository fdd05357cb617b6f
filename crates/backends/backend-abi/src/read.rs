//! Reading a struct whose size its maker gives.

use crate::*;
use std::fmt;

/// A struct that begins with its size.
///
/// # Safety
/// `#[repr(C)]`, its first member is `size: usize`, and all bytes zero are a value of it.
pub unsafe trait Prefixed: Copy {
    /// Its size in the version that introduced it: no maker has less.
    const FIRST: usize;
}

macro_rules! prefixed {
    ($($name:ident)*) => {$(
        // SAFETY: numbers, pointers and optional functions behind a size; zeros are none of them.
        unsafe impl Prefixed for $name {
            const FIRST: usize = size_of::<$name>();
        }
    )*};
}

prefixed! {
    Failure Tensor Attribute Node Graph NamedValue BackendOption Prepared Plan Control Workload
    MemoryManager Substitution FailedPart Views Allocator HandleFactory TensorHandle Context
    Counter Profiling Host Backend
}

// SAFETY: as above.
unsafe impl Prefixed for Operands {
    /// `control` is there since 1.1.
    const FIRST: usize = std::mem::offset_of!(Operands, control);
}

/// No struct is larger: a greater size is a lie.
const LARGEST: usize = 1 << 16;

/// Why a struct cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// The pointer is null.
    Null,
    /// The pointer is not aligned.
    Unaligned,
    /// The size is below that of version 1.0, or beyond reason.
    Size {
        /// The size of version 1.0.
        expected: usize,
        /// The size it gives.
        found: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Null => f.write_str("is null"),
            LayoutError::Unaligned => f.write_str("is not aligned"),
            LayoutError::Size { expected, found } => {
                write!(
                    f,
                    "says a size of {found} bytes, where {expected} are the least"
                )
            }
        }
    }
}

/// The struct at `start`, as much of it as its size covers; what lies behind is zero.
///
/// # Safety
/// `start` is null or points to a `size`, and to that many bytes where the size is within reason.
pub unsafe fn read<T: Prefixed>(start: *const T) -> Result<T, LayoutError> {
    if start.is_null() {
        return Err(LayoutError::Null);
    }
    if !start.is_aligned() {
        return Err(LayoutError::Unaligned);
    }
    // SAFETY: not null, aligned, and the caller vouches for a size there.
    let found = unsafe { start.cast::<usize>().read() };
    let expected = T::FIRST;
    if found < expected || found > LARGEST {
        return Err(LayoutError::Size { expected, found });
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let known = found.min(size_of::<T>());
    // SAFETY: `known` bytes are there on both sides; zeros and what a maker writes are a `T`.
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
    fn unknown_tails_are_ignored_and_sizes_that_lie_refused() {
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
        // SAFETY: a whole struct with a tail.
        let read_back = unsafe { read(&raw const longer.counter) }.unwrap();
        assert_eq!((read_back.name.length, longer.tail[3]), (4, 7));
        for found in [0, 8, size_of::<Counter>() - 1, usize::MAX] {
            // SAFETY: a struct whose size is beyond reason is not read.
            let misfit = unsafe { read(&counter(found)) }.err();
            let expected = size_of::<Counter>();
            assert_eq!(misfit, Some(LayoutError::Size { expected, found }));
        }
        // SAFETY: null and unaligned pointers are not followed.
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
