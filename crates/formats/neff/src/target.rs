//! Targets of the package writer: a file beside its final name, or memory.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use tenon_base::{Error, Result};
use tenon_tensor::atomic_file::AtomicFile;

/// A target of the package writer: a file beside its final name, or memory.
pub trait Target: Write + Seek + Send {
    /// The result of [`Target::finish`].
    type Output;

    /// Completes the target: a file gets its final name.
    fn finish(self) -> io::Result<Self::Output>;

    /// The file's name, for errors.
    fn path(&self) -> Option<&Path>;
}

/// A file that gets its final name when it is complete.
pub struct FileTarget(AtomicFile);

impl FileTarget {
    /// A file that replaces `path` when it is complete.
    pub(crate) fn beside(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = AtomicFile::create(path);
        file.map(Self)
            .map_err(|error| Error::io(path, "write", error))
    }
}

impl Write for FileTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.file().flush()
    }
}

impl Seek for FileTarget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.file().seek(to)
    }
}

impl Target for FileTarget {
    type Output = ();

    fn finish(self) -> io::Result<()> {
        self.0.commit()
    }

    fn path(&self) -> Option<&Path> {
        Some(self.0.path())
    }
}

impl Target for Cursor<Vec<u8>> {
    type Output = Vec<u8>;

    fn finish(self) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }

    fn path(&self) -> Option<&Path> {
        None
    }
}
