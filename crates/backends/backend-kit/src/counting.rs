//! An allocator that counts allocations and frees: the only module of this crate with unsafe code
//! besides leaks and tensors.

#![allow(
    unsafe_code,
    reason = "an allocator, the heap in use and borrowed memory"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use tenon_backend::{Allocator, MemorySource};
use tenon_base::{Error, ErrorKind, Result};

/// Plain memory with a record of all allocations.
#[derive(Default)]
pub(crate) struct CountingAllocator {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Live allocations by address.
    layouts: HashMap<usize, Layout>,
    allocations: usize,
    /// Number of frees of unknown addresses.
    unknown_frees: usize,
}

impl CountingAllocator {
    /// Number of allocations so far.
    pub fn allocations(&self) -> usize {
        self.state().allocations
    }

    /// Number of live allocations, plus frees of unknown addresses.
    pub fn outstanding(&self) -> usize {
        let state = self.state();
        state.layouts.len() + state.unknown_frees
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allocator for CountingAllocator {
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let refused = || {
            let text = format!("cannot allocate {bytes} bytes aligned to {alignment}");
            Error::new(ErrorKind::OutOfMemory, text)
        };
        let layout = Layout::from_size_align(bytes.max(1), alignment).map_err(|_| refused())?;
        // SAFETY: the size of the layout is at least 1.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(refused)?;
        let mut state = self.state();
        state.layouts.insert(start.as_ptr() as usize, layout);
        state.allocations += 1;
        Ok(start)
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        let mut state = self.state();
        match state.layouts.remove(&(start.as_ptr() as usize)) {
            // SAFETY: `allocate` returned `start` for this layout, and it was live until now.
            Some(layout) => unsafe { dealloc(start.as_ptr(), layout) },
            None => state.unknown_frees += 1,
        }
    }

    fn source(&self) -> MemorySource {
        MemorySource::Malloc
    }
}

impl Drop for CountingAllocator {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (start, layout) in state.layouts.drain() {
            // SAFETY: `allocate` returned `start` for this layout, and it was never freed.
            unsafe { dealloc(start as *mut u8, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tenon_backend::Allocation;

    #[test]
    fn live_allocations_are_counted() {
        let counting = Arc::new(CountingAllocator::default());
        let one = Allocation::new(counting.clone(), 10, 64).unwrap();
        drop(Allocation::new(counting.clone(), 20, 8).unwrap());
        assert_eq!((counting.allocations(), counting.outstanding()), (2, 1));
        drop(one);
        assert_eq!(counting.outstanding(), 0);
        assert!(counting.allocate(usize::MAX, 8).is_err());
    }
}
