//! Where a package is written: a file beside its final name, or memory.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tenon_base::{Error, Result};

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
pub struct FileTarget {
    file: NamedTempFile,
    path: PathBuf,
}

impl FileTarget {
    /// A file that is to be `path`, which is replaced when it is done.
    pub(crate) fn beside(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tenon-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Narrowed by the user's mask, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| Error::io(path, "write", error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }
}

impl Write for FileTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for FileTarget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Target for FileTarget {
    type Done = ();

    fn done(self) -> io::Result<()> {
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
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
