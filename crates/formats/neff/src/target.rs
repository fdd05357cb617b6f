//! Where a package is written: a file beside its final name, or memory.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use tenon_base::{Error, Result};
use tenon_tensor::atomic_file::AtomicFile;

/// Where a package is written: a file beside its final name, or memory.
pub trait Target: Write + Seek + Send {
    /// What finishing gives.
    type Done;

    /// Puts the written bytes where they belong.
    fn done(self) -> io::Result<Self::Done>;

    /// The file's name, for errors.
    fn path(&self) -> Option<&Path>;
}

/// A file beside its final name.
pub struct FileTarget(AtomicFile);

impl FileTarget {
    /// A file that is to be `path`, which is replaced when it is done.
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
    type Done = ();

    fn done(self) -> io::Result<()> {
        self.0.commit()
    }

    fn path(&self) -> Option<&Path> {
        Some(self.0.path())
    }
}

impl Target for Cursor<Vec<u8>> {
    type Done = Vec<u8>;

    fn done(self) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }

    fn path(&self) -> Option<&Path> {
        None
    }
}
