//! Memory that arguments lead to: exactly as much as the header requires, until the end of a case.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_char;

/// What the library must not have written.
const UNWRITTEN: u8 = 0xA5;

/// The allocations of a case.
#[derive(Default)]
pub struct Memory(Vec<(*mut u8, Layout)>);

/// A place for a result: valid, null, or not aligned.
pub struct Address<T> {
    pub pointer: *mut T,
    is_valid: bool,
}

impl Memory {
    /// Bytes of one value.
    pub fn bytes(&mut self, len: usize, align: usize, value: u8) -> *mut u8 {
        let layout = Layout::from_size_align(len.max(1), align).expect("a small allocation");
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        self.0.push((start, layout));
        // SAFETY: allocated above.
        unsafe { start.write_bytes(value, len) };
        start
    }

    /// A copy of some values.
    pub fn copy<T: Copy>(&mut self, values: &[T]) -> *mut T {
        let start = self
            .bytes(size_of_val(values), align_of::<T>(), 0)
            .cast::<T>();
        // SAFETY: as many bytes were allocated, aligned for the type.
        unsafe { start.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        start
    }

    /// A text that ends with NUL.
    pub fn text(&mut self, text: &[u8]) -> *const c_char {
        let end = text
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(text.len());
        self.copy(&[&text[..end], &[0]].concat())
            .cast_const()
            .cast()
    }

    /// A valid place.
    pub fn place<T>(&mut self) -> Address<T> {
        let start = self.bytes(size_of::<T>(), align_of::<T>(), UNWRITTEN);
        Address {
            pointer: start.cast(),
            is_valid: true,
        }
    }

    /// A place that is null, or not aligned.
    pub fn invalid_place<T>(&mut self, is_null: bool) -> Address<T> {
        let start = self.bytes(size_of::<T>() + 1, align_of::<T>(), UNWRITTEN);
        let pointer = if is_null {
            std::ptr::null_mut()
        } else {
            start.wrapping_add(1).cast()
        };
        Address {
            pointer,
            is_valid: false,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (start, layout) in self.0.drain(..) {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(start, layout) };
        }
    }
}

impl<T: Copy> Address<T> {
    /// The result of a call that succeeded.
    pub fn written(&self) -> T {
        assert!(
            self.is_valid,
            "a call succeeded without a place for its result"
        );
        // SAFETY: valid, and written by a call that succeeded.
        unsafe { self.pointer.read() }
    }

    /// A call that failed has not written the result.
    pub fn check_unwritten(&self) {
        if self.is_valid {
            // SAFETY: valid memory of this size, initialised in `Memory::bytes`.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.pointer.cast::<u8>().cast_const(), size_of::<T>())
            };
            assert!(
                bytes.iter().all(|&byte| byte == UNWRITTEN),
                "a failed call wrote its result"
            );
        }
    }
}
