//! The memory budget of decoding.

use tenon_base::{Error, ErrorKind, Result};

/// Remaining memory of one decoding. Many references to one long string or attribute are each
/// decoded into an owned value; the budget bounds their sum by the size of the file.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    total: usize,
}

/// Decoded bytes per byte of the file. Files of compilers stay below 16.
const EXPANSION: usize = 64;

/// Minimum budget of a file.
const FLOOR: usize = 1 << 20;

impl Budget {
    pub(crate) fn for_file(length: usize) -> Self {
        let total = length.saturating_mul(EXPANSION).saturating_add(FLOOR);
        Self { left: total, total }
    }

    /// The same budget with `left` remaining.
    pub(crate) fn with_left(self, left: usize) -> Self {
        Self { left, ..self }
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exhausted()),
        }
    }

    #[cold]
    fn exhausted(&self) -> Error {
        let message = format!("the program expands to more than {} bytes", self.total);
        Error::new(ErrorKind::InvalidProgram, message)
            .help("it refers to the same long strings or attributes too often")
    }

    /// Reserves memory for `count` values of `T`, each with `heap` further bytes.
    pub(crate) fn spend_on<T>(&mut self, count: usize, heap: usize) -> Result<()> {
        self.spend((size_of::<T>().saturating_add(heap)).saturating_mul(count))
    }
}
