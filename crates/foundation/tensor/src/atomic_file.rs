//! Atomic replacement of files: written to an unnamed (`O_TMPFILE`) or temporary file in the same
//! folder, then linked or renamed to the final path.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tenon_base::{Error, Result, UnfinishedFile};

/// A file that appears at its path, or replaces the file there, on [`commit`](Self::commit).
/// Dropped before, it leaves no file behind; where the file system supports `O_TMPFILE`, a killed
/// process leaves none either.
pub struct AtomicFile {
    storage: Storage,
    path: PathBuf,
}

/// The file that is written to until the commit.
enum Storage {
    /// An unnamed file in the folder of the path.
    Unnamed(File),
    /// A file with a temporary name in the folder of the path.
    Named(NamedTempFile, UnfinishedFile),
    /// An unnamed file in the folder for temporary files, copied on commit: the path is that of a
    /// device or pipe, which is not replaced.
    Copied(File),
}

/// Permissions of a new file before the umask is applied.
const PERMISSIONS: u32 = 0o666;

impl AtomicFile {
    /// Creates the file that `commit` moves to `path`.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let found = path.metadata().ok();
        if found.as_ref().is_some_and(|found| found.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let storage = if found.is_some_and(|found| !found.is_file()) {
            Storage::Copied(tempfile::tempfile()?)
        } else {
            match unnamed(folder(path)) {
                Ok(file) => Storage::Unnamed(file),
                Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
                // The file system does not support O_TMPFILE; any other cause fails here, too.
                Err(_) => named(folder(path))?,
            }
        };
        Ok(Self {
            storage,
            path: path.to_owned(),
        })
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        match &mut self.storage {
            Storage::Unnamed(file) | Storage::Copied(file) => file,
            Storage::Named(file, _) => file.as_file_mut(),
        }
    }

    /// Moves the file to its path, replacing a file there.
    pub fn commit(self) -> io::Result<()> {
        match self.storage {
            Storage::Unnamed(file) => link(&file, &self.path),
            Storage::Named(file, unfinished) => {
                let renamed = unfinished.finish(|| Ok(file.persist(&self.path)?));
                renamed.map(drop)
            }
            Storage::Copied(mut file) => {
                let mut to = File::options().write(true).open(&self.path)?;
                file.seek(SeekFrom::Start(0))?;
                io::copy(&mut file, &mut to).map(drop)
            }
        }
    }
}

/// The folder that holds `path`.
fn folder(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// An unnamed file (open(2), `O_TMPFILE`), which [`link`] can name.
fn unnamed(folder: &Path) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::from_raw_mode(PERMISSIONS))?);
    // Linking it needs /proc.
    if Path::new(&descriptor_path(&file)).exists() {
        Ok(file)
    } else {
        Err(Errno::OPNOTSUPP)
    }
}

/// The path of an open file in /proc.
fn descriptor_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Links an unnamed file to `path`, replacing a file there.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let link = |path: &Path| {
        linkat(
            CWD,
            descriptor_path(file),
            CWD,
            path,
            AtFlags::SYMLINK_FOLLOW,
        )
    };
    match link(path) {
        Err(Errno::EXIST) => {}
        result => return Ok(result?),
    }
    // link(2) does not replace a file, rename(2) does.
    let (linked, unfinished) = UnfinishedFile::create(|| {
        let linked = temporary_names().make_in(folder(path), |path| Ok(link(path)?))?;
        let path = linked.path().to_owned();
        Ok((linked, path))
    })?;
    unfinished.finish(|| Ok(linked.persist(path)?))
}

/// A file with a temporary name, registered as unfinished.
fn named(folder: &Path) -> io::Result<Storage> {
    let mut builder = temporary_names();
    builder.permissions(fs::Permissions::from_mode(PERMISSIONS));
    let created = UnfinishedFile::create(|| {
        let file = builder.tempfile_in(folder)?;
        let path = file.path().to_owned();
        Ok((file, path))
    });
    // An error that names the temporary path is reduced to its kind: the user knows only the final
    // path.
    let (file, registered) = created.map_err(|error| match error.get_ref() {
        Some(_) => error.kind().into(),
        None => error,
    })?;
    Ok(Storage::Named(file, registered))
}

/// Generates the names of unfinished files.
fn temporary_names() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tenon-").suffix(".part");
    builder
}

/// Fails if a file cannot be written to `path`: an early check for long work that ends with
/// writing.
pub fn check_writable(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let file = AtomicFile::create(path).map(drop);
    file.map_err(|error| Error::io(path, "write", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_replaced_on_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (text, is_committed) in [("one", true), ("two", false), ("three", true)] {
            let mut file = AtomicFile::create(&path).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            if is_committed {
                file.commit().unwrap();
            } else {
                drop(file);
            }
            let read = fs::read_to_string(&path).unwrap();
            assert_eq!(read, if is_committed { text } else { "one" });
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test reports it")]
    fn a_file_has_no_name_before_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let count = || folder.path().read_dir().unwrap().count();
        if unnamed(folder.path()).is_err() {
            eprintln!("skipped: no O_TMPFILE in {}", folder.path().display());
            return;
        }
        for text in ["new", "replaced"] {
            let before = count();
            let mut file = AtomicFile::create(&path).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            assert_eq!(count(), before);
            file.commit().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(count(), 1);
        }
    }

    #[test]
    fn a_file_with_a_temporary_name_is_renamed_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = |text: &str| {
            let storage = named(folder.path()).unwrap();
            let path = path.clone();
            let mut file = AtomicFile { storage, path };
            file.file().write_all(text.as_bytes()).unwrap();
            file
        };
        file("one").commit().unwrap();
        drop(file("two"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        assert_eq!(
            named(&folder.path().join("none")).err().unwrap().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_new_file_has_the_permissions_of_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(folder.path().join("plain"), "").unwrap();
        AtomicFile::create(&path).unwrap().commit().unwrap();
        let mode = |name: &str| {
            folder
                .path()
                .join(name)
                .metadata()
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("x"), mode("plain"));
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let refused = check_writable(folder.path()).unwrap_err().to_string();
        assert!(
            refused.ends_with("cannot write: is a directory"),
            "{refused}"
        );
        let missing = check_writable(folder.path().join("none/x")).unwrap_err();
        assert!(!missing.to_string().contains(".part"), "{missing}");
        {
            use std::os::unix::net::UnixListener;
            // A socket as an example of a special file: it cannot be opened and must not be
            // replaced.
            let path = folder.path().join("socket");
            let _socket = UnixListener::bind(&path).unwrap();
            let mut file = AtomicFile::create(&path).unwrap();
            file.file().write_all(b"text").unwrap();
            file.commit().unwrap_err();
            assert!(!path.metadata().unwrap().is_file());
        }
    }
}
