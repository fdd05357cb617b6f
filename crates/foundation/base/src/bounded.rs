//! Vectors whose length is untrusted input: from a file, an option or a plug-in.
//!
//! The length is checked against a limit and the memory is reserved by a fallible call, so that no
//! input aborts the process. Tensor memory is limited by the system alone: `BufferMut::zeroed` is
//! fallible, too.

use crate::{Error, ErrorKind, Result};
use std::fmt;

/// Maximum size of one vector in bytes.
pub const MAX_BYTES: usize = 1 << 30;

/// Reserves capacity for `more` elements in `list`; `what` names the vector in the error.
///
/// # Errors
/// `OutOfMemory` above [`MAX_BYTES`], or when the system has no memory.
pub fn reserve<T>(what: &str, list: &mut Vec<T>, more: usize) -> Result<()> {
    reserve_within(what, list, more, MAX_BYTES)
}

/// As [`reserve`], with a limit of `max_bytes` for the vector.
///
/// # Errors
/// `OutOfMemory` above `max_bytes`, or when the system has no memory.
pub fn reserve_within<T>(
    what: impl fmt::Display,
    list: &mut Vec<T>,
    more: usize,
    max_bytes: usize,
) -> Result<()> {
    let size = size_of::<T>().max(1);
    let limit = max_bytes / size;
    let count = list.len().saturating_add(more);
    if count > limit {
        let text = format!("{what}: too many elements to keep in memory");
        return Err(Error::new(ErrorKind::OutOfMemory, text)
            .expected(format_args!("at most {limit}"))
            .found(count));
    }
    list.try_reserve(more).map_err(|_| {
        let bytes = count.saturating_mul(size);
        let text = format!("{what}: cannot allocate {bytes} bytes");
        Error::new(ErrorKind::OutOfMemory, text)
    })
}

/// An empty vector with capacity for `count` elements.
///
/// # Errors
/// As [`reserve`].
///
/// ```
/// assert!(tenon_base::bounded::with_capacity::<u64>("positions", 1 << 40).is_err());
/// ```
pub fn with_capacity<T>(what: &str, count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(what, &mut list, count)?;
    Ok(list)
}

/// As [`with_capacity`], with a limit of `max_bytes`.
///
/// # Errors
/// As [`reserve_within`].
pub fn with_capacity_within<T>(
    what: impl fmt::Display,
    count: usize,
    max_bytes: usize,
) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve_within(what, &mut list, count, max_bytes)?;
    Ok(list)
}

/// The elements of an iterator of known length.
///
/// # Errors
/// As [`reserve`].
pub fn collect<T>(what: &str, elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = with_capacity(what, elements.len())?;
    all.extend(elements);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_limit_are_errors() {
        for count in [1usize << 31, 1 << 40, 1 << 61, usize::MAX] {
            for error in [
                with_capacity::<u8>("bytes", count).map(drop).err(),
                collect("values", (0..count).map(|at| at as f32))
                    .map(drop)
                    .err(),
                reserve("words", &mut vec![7u64], count).err(),
            ] {
                let error = error.unwrap();
                assert_eq!(error.kind(), ErrorKind::OutOfMemory);
                assert!(error.to_string().contains("expected at most"), "{error}");
            }
        }
        let error = with_capacity_within::<f32>("tensor 'x'", 9, 32).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor 'x': too many elements to keep in memory: expected at most 8, found 9"
        );
        let error = with_capacity_within::<f32>("tensor 'x'", 1 << 61, usize::MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor 'x': cannot allocate 9223372036854775808 bytes"
        );
        assert_eq!(collect("values", 0..3).unwrap(), [0, 1, 2]);
        assert!(with_capacity::<()>("nothing", 5).is_ok());
    }
}
