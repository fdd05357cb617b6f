//! Where a host program comes from: a file, or standard input.

use crate::files::{is_standard_stream, read_standard_input};
use crate::model_file::is_package;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::Buffer;

/// The magic number of BEF (bef 1.1).
const MAGIC: [u8; 3] = [0x0B, 0xEF, 0x00];

/// The bytes of a host program, and its name in messages and locations.
pub struct ProgramInput {
    name: String,
    bytes: Bytes,
}

/// Bytes that are shared: read, or mapped.
#[derive(Clone)]
pub(super) struct Bytes(Arc<dyn Deref<Target = [u8]> + Send + Sync>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl ProgramInput {
    /// Reads `path`; `-` is standard input, called `<stdin>`. BEF is mapped and read on demand.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if is_standard_stream(path) {
            let (bytes, name) = read_standard_input()?;
            return Ok(Self::new(name, bytes));
        }
        let failed = |error| Error::io(path, "read", error);
        let name = path.to_string_lossy();
        let file = std::fs::File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            let mapped = Buffer::map(&file).map_err(failed)?;
            if mapped.starts_with(&MAGIC) {
                return Ok(Self::of(name, mapped));
            }
        }
        Ok(Self::new(name, std::fs::read(path).map_err(failed)?))
    }

    /// A program that is in memory.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::of(name, bytes)
    }

    fn of(
        name: impl Into<String>,
        bytes: impl Deref<Target = [u8]> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            bytes: Bytes(Arc::new(bytes)),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, shared.
    pub(super) fn shared(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Whether it starts with the magic number of BEF; anything else is treated as text.
    pub fn is_bef(&self) -> bool {
        self.bytes.starts_with(&MAGIC)
    }

    /// Its text.
    pub(super) fn text(&self) -> Result<&str> {
        if self.is_bef() {
            return Err(
                Error::new(ErrorKind::InvalidProgram, "BEF bytes instead of text")
                    .help("translate it first: tenon translate -bef-to-mlir")
                    .at(Location::file(&self.name)),
            );
        }
        if is_package(&self.bytes) {
            return Err(
                Error::new(ErrorKind::InvalidProgram, "a package, not a host program")
                    .help("tenon run executes it, tenon disasm prints the program inside")
                    .at(Location::file(&self.name)),
            );
        }
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let problem = Error::new(ErrorKind::InvalidProgram, "neither BEF nor text");
            let found = format!("an invalid UTF-8 byte at offset {}", error.valid_up_to());
            problem
                .expected("MLIR text, or bytes that begin with 0B EF 00")
                .found(found)
                .at(Location::file(&self.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_is_reported() {
        let input = ProgramInput::new("x.bef", vec![b'a', 0xFF]);
        assert!(!input.is_bef());
        assert_eq!(
            input.text().unwrap_err().to_string(),
            "x.bef: neither BEF nor text: expected MLIR text, or bytes that begin with 0B EF 00, \
             found an invalid UTF-8 byte at offset 1"
        );
        assert!(ProgramInput::new("x", vec![0x0B, 0xEF, 0, 9]).is_bef());
    }
}
