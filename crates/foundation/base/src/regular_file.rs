//! Files that the caller names and that are opened as a whole, such as libraries.

use std::io;
use std::path::Path;

/// Fails where `path` leads to something else than a plain file. Opening a pipe waits until somebody
/// writes to it, and a device may never end. Whether there is a file is left to what opens it.
pub fn expect_regular_file(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a plain file",
        )),
        _ => Ok(()),
    }
}
