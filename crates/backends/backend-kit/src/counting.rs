//! An allocator that counts what it gives and gets back: the one module of this crate with unsafe
//! code.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use tenon_backend::{Allocator, MemorySource};
use tenon_base::{Error, ErrorKind, Result};

/// Plain memory, every piece of it known.
#[derive(Default)]
pub(crate) struct CountingAllocator {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By address, what is out.
    layouts: HashMap<usize, Layout>,
    taken: usize,
    /// Memory that came back and is not from here.
    strangers: usize,
}

impl CountingAllocator {
    /// How many pieces were ever taken.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    /// How many pieces are not back, or came back and were none.
    pub fn outstanding(&self) -> usize {
        let state = self.state();
        state.layouts.len() + state.strangers
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
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(refused)?;
        let mut state = self.state();
        state.layouts.insert(start.as_ptr() as usize, layout);
        state.taken += 1;
        Ok(start)
    }

    unsafe fn free(&self, start: NonNull<u8>) {
        let mut state = self.state();
        match state.layouts.remove(&(start.as_ptr() as usize)) {
            // SAFETY: from `allocate` with this layout, and out until now.
            Some(layout) => unsafe { dealloc(start.as_ptr(), layout) },
            None => state.strangers += 1,
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
            // SAFETY: from `allocate` with this layout, and never given back.
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
    fn what_is_kept_is_counted() {
        let counting = Arc::new(CountingAllocator::default());
        let one = Allocation::new(counting.clone(), 10, 64).unwrap();
        drop(Allocation::new(counting.clone(), 20, 8).unwrap());
        assert_eq!((counting.taken(), counting.outstanding()), (2, 1));
        drop(one);
        assert_eq!(counting.outstanding(), 0);
        assert!(counting.allocate(usize::MAX, 8).is_err());
    }
}
