//! Files that are written as a whole or not at all: without a name first, or beside it, then linked
//! or renamed.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tenon_base::{Error, Result, UnfinishedFile};

/// A file that is to replace what has its name, or to become it. Dropped before it is
/// [`commit`](Self::commit), it leaves nothing behind; where the file system has files without a name,
/// neither does a process that is killed.
pub struct AtomicFile {
    written: Written,
    path: PathBuf,
}

/// What is written to until the file is done.
enum Written {
    /// A file without a name, in the folder of the one that is to be.
    Unnamed(File),
    /// A file of another name in the same folder.
    Named(NamedTempFile, UnfinishedFile),
    /// A file without a name in the folder for temporary files: the target is a device or pipe,
    /// which is written to and stays.
    Copied(File),
}

/// Permissions of a new file, narrowed by the user's mask.
const PERMISSIONS: u32 = 0o666;

impl AtomicFile {
    /// A file that is to be `path`.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let found = path.metadata().ok();
        if found.as_ref().is_some_and(|found| found.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let written = match found.is_some_and(|found| !found.is_file()) {
            true => Written::Copied(tempfile::tempfile()?),
            false => match unnamed(folder(path)) {
                Ok(file) => Written::Unnamed(file),
                Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
                // The file system has no files without a name, or there is another reason, which
                // comes up again.
                Err(_) => named(folder(path))?,
            },
        };
        Ok(Self {
            written,
            path: path.to_owned(),
        })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is written to.
    pub fn file(&mut self) -> &mut File {
        match &mut self.written {
            Written::Unnamed(file) | Written::Copied(file) => file,
            Written::Named(file, _) => file.as_file_mut(),
        }
    }

    /// Puts it in place.
    pub fn commit(self) -> io::Result<()> {
        match self.written {
            Written::Unnamed(file) => link(&file, &self.path),
            Written::Named(file, unfinished) => {
                let renamed = unfinished.finish(|| Ok(file.persist(&self.path)?));
                renamed.map(drop)
            }
            Written::Copied(mut file) => {
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

/// A file without a name, which [`link`] can give one (open(2), `O_TMPFILE`).
fn unnamed(folder: &Path) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::from_raw_mode(PERMISSIONS))?);
    // Without /proc it could not get a name.
    match Path::new(&in_proc(&file)).exists() {
        true => Ok(file),
        false => Err(Errno::OPNOTSUPP),
    }
}

/// The name by which the kernel shows an open file.
fn in_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name the name `path`. A file of that name is replaced.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let link = |path: &Path| linkat(CWD, in_proc(file), CWD, path, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Err(Errno::EXIST) => {}
        done => return Ok(done?),
    }
    // A link does not replace a file, renaming does.
    let (linked, unfinished) = UnfinishedFile::create(|| {
        let linked = aside().make_in(folder(path), |path| Ok(link(path)?))?;
        let path = linked.path().to_owned();
        Ok((linked, path))
    })?;
    unfinished.finish(|| Ok(linked.persist(path)?))
}

fn named(folder: &Path) -> io::Result<Written> {
    let mut builder = aside();
    builder.permissions(fs::Permissions::from_mode(PERMISSIONS));
    let created = UnfinishedFile::create(|| {
        let file = builder.tempfile_in(folder)?;
        let path = file.path().to_owned();
        Ok((file, path))
    });
    // The name that nobody asked for is of no use in an error.
    let (file, listed) = created.map_err(|error| match error.get_ref() {
        Some(_) => error.kind().into(),
        None => error,
    })?;
    Ok(Written::Named(file, listed))
}

/// Names of files and folders that are not finished.
fn aside() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tenon-").suffix(".part");
    builder
}

/// Whether a file can be written to `path`, for work that takes long before it is.
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
    fn a_file_is_replaced_when_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (text, is_done) in [("one", true), ("two", false), ("three", true)] {
            let mut file = AtomicFile::create(&path).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            match is_done {
                true => file.commit().unwrap(),
                false => drop(file),
            }
            let read = fs::read_to_string(&path).unwrap();
            assert_eq!(read, if is_done { text } else { "one" });
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn a_file_has_no_name_until_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let count = || folder.path().read_dir().unwrap().count();
        if unnamed(folder.path()).is_err() {
            eprintln!(
                "skipped: no files without a name in {}",
                folder.path().display()
            );
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
    fn a_file_with_a_name_aside_is_renamed_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = |text: &str| {
            let written = named(folder.path()).unwrap();
            let path = path.clone();
            let mut file = AtomicFile { written, path };
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
    fn a_new_file_has_the_permissions_of_the_users_mask() {
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
    fn what_is_no_plain_file_is_not_replaced() {
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
            // As good as a device: it cannot be opened, and must still be there after.
            let path = folder.path().join("socket");
            let _socket = UnixListener::bind(&path).unwrap();
            let mut file = AtomicFile::create(&path).unwrap();
            file.file().write_all(b"text").unwrap();
            file.commit().unwrap_err();
            assert!(!path.metadata().unwrap().is_file());
        }
    }
}
