//! Files that are written as a whole or not at all: beside their name first, then renamed.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tenon_base::{Error, Result};

/// A file that is to replace what has its name, or to become it. Dropped before it is
/// [`done`](Self::done), it leaves nothing behind.
pub struct WholeFile {
    file: NamedTempFile,
    path: PathBuf,
    /// Whether the name is that of a device or pipe: it is written to and stays.
    is_special: bool,
}

impl WholeFile {
    /// A file that is to be `path`.
    pub fn beside(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let found = path.metadata().ok();
        let is_special = found.as_ref().is_some_and(|found| !found.is_file());
        if found.is_some_and(|found| found.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let parent = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = match is_special {
            true => std::env::temp_dir(),
            false => parent.unwrap_or(Path::new(".")).to_owned(),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tenon-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Narrowed by the user's mask, as for any new file.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        // The name that nobody asked for is of no use in an error.
        let plain = |error: io::Error| match error.get_ref() {
            Some(_) => error.kind().into(),
            None => error,
        };
        Ok(Self {
            file: builder.tempfile_in(folder).map_err(plain)?,
            path: path.to_owned(),
            is_special,
        })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is written to.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Puts it in place.
    pub fn done(mut self) -> io::Result<()> {
        if self.is_special {
            let mut to = File::options().write(true).open(&self.path)?;
            self.file().seek(SeekFrom::Start(0))?;
            return io::copy(self.file(), &mut to).map(drop);
        }
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Whether a file can be written to `path`, for work that takes long before it is.
pub fn can_write(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let file = WholeFile::beside(path).map(drop);
    file.map_err(|error| Error::io(path, "write", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_replaced_when_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (text, is_done) in [("one", true), ("two", false), ("three", true)] {
            let mut file = WholeFile::beside(&path).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            match is_done {
                true => file.done().unwrap(),
                false => drop(file),
            }
            let read = fs::read_to_string(&path).unwrap();
            assert_eq!(read, if is_done { text } else { "one" });
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
    }

    #[test]
    fn what_is_no_plain_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let refused = can_write(folder.path()).unwrap_err().to_string();
        assert!(
            refused.ends_with("cannot write: is a directory"),
            "{refused}"
        );
        let missing = can_write(folder.path().join("none/x")).unwrap_err();
        assert!(!missing.to_string().contains(".part"), "{missing}");
        #[cfg(unix)]
        {
            use std::os::unix::net::UnixListener;
            // As good as a device: it cannot be opened, and must still be there after.
            let path = folder.path().join("socket");
            let _socket = UnixListener::bind(&path).unwrap();
            let mut file = WholeFile::beside(&path).unwrap();
            file.file().write_all(b"text").unwrap();
            file.done().unwrap_err();
            assert!(!path.metadata().unwrap().is_file());
        }
    }
}
