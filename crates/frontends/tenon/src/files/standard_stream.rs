//! The path `-`: standard input and output in place of a file.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_base::{Error, ErrorKind, Result};

/// The name of standard input in messages.
const NAME: &str = "<stdin>";

/// Whether a path means standard input or output.
pub fn is_standard_stream(path: impl AsRef<Path>) -> bool {
    path.as_ref() == Path::new("-")
}

/// All bytes of standard input, and its name in messages.
///
/// # Errors
/// A failed read, and [`ErrorKind::Usage`] if standard input was read before: it can be used for one file only.
pub fn read_standard_input() -> Result<(Vec<u8>, &'static str)> {
    static IS_READ: AtomicBool = AtomicBool::new(false);
    if IS_READ.swap(true, Ordering::Relaxed) {
        let text = "standard input (-) can be used for one file only";
        return Err(Error::new(ErrorKind::Usage, text).help("give the other one by its name"));
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Error::io(NAME, "read", error))?;
    Ok((bytes, NAME))
}
