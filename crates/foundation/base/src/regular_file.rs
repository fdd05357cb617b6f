//! Checks on files named by the caller that are read as a whole, such as libraries.

use std::io;
use std::path::Path;

/// Fails if `path` exists and is not a regular file: opening a FIFO blocks until it has a writer,
/// and a device may never reach its end. A missing file is no error here; opening it fails.
pub fn expect_regular_file(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
        _ => Ok(()),
    }
}
