//! How much memory decoding may fill.

use tenon_base::{Error, ErrorKind, Result};

/// Memory that one decoding may still fill. A file can refer to one long string or attribute from
/// many places; as each place owns what it refers to, the sum is bounded by the file's size.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    total: usize,
}

/// Decoded bytes for a byte of the file. Files of compilers stay below 16.
const EXPANSION: usize = 64;

/// What every file may use, however small.
const FLOOR: usize = 1 << 20;

impl Budget {
    pub(crate) fn for_file(length: usize) -> Self {
        let total = length.saturating_mul(EXPANSION).saturating_add(FLOOR);
        Self { left: total, total }
    }

    /// The same budget, of which all but `left` has been spent.
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

    /// Room for `count` values of `T`, and for `heap` bytes behind each.
    pub(crate) fn spend_on<T>(&mut self, count: usize, heap: usize) -> Result<()> {
        self.spend((size_of::<T>().saturating_add(heap)).saturating_mul(count))
    }
}
