//! The folder shared by processes, for core locks and reports (docs/monitoring.md).
//!
//! File names in it are predictable, and other users may write into it. It is used only if no other
//! user can replace this user's files; files are created under random names, never through a link,
//! and renamed.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, open, openat, renameat};
use rustix::fs::{Stat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};

/// The environment variable with the folder.
pub const LOCK_FOLDER: &str = "TENON_CORE_LOCKS";

/// The folder for processes of all users: [`LOCK_FOLDER`], or `tenon-cores` in the folder for
/// temporary files.
fn shared() -> PathBuf {
    std::env::var_os(LOCK_FOLDER)
        .map_or_else(|| std::env::temp_dir().join("tenon-cores"), PathBuf::from)
}

/// The private folder of the user, if the shared one is unusable: `tenon-cores` in
/// `XDG_RUNTIME_DIR`, or `tenon-cores-UID` in the folder for temporary files.
fn own() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder.join("tenon-cores"),
        _ => std::env::temp_dir().join(format!("tenon-cores-{}", geteuid().as_raw())),
    }
}

/// The folders to search for reports and locks: the shared one, the user's, and for root those of
/// all users.
pub fn watched_folders() -> Vec<PathBuf> {
    let mut folders = vec![shared(), own()];
    if geteuid().is_root() {
        let list = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.filter_map(|entry| Some(entry.ok()?.path()))
        };
        let temporary = list(&std::env::temp_dir()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("tenon-cores-")
        });
        let of_sessions = list(Path::new("/run/user")).map(|path| path.join("tenon-cores"));
        let mut others: Vec<PathBuf> = temporary.chain(of_sessions).collect();
        others.sort();
        folders.extend(others);
    }
    let mut known = Vec::new();
    for folder in folders {
        if !known.contains(&folder) {
            known.push(folder);
        }
    }
    known
}

/// A folder in which no other user can replace this user's files. Clones share it.
#[derive(Debug, Clone)]
pub struct SharedFolder {
    folder: Arc<OwnedFd>,
    path: PathBuf,
}

impl SharedFolder {
    /// The shared folder, else the user's, else none. The error, for the log, has the problem and
    /// the fallback.
    pub fn find() -> (Option<Self>, Option<Error>) {
        let refused = match Self::open(&shared()) {
            Ok(folder) => return (Some(folder), None),
            Err(error) => error,
        };
        match Self::own() {
            Ok(folder) => {
                let help = format!("{} is used instead", folder.path.display());
                (Some(folder), Some(refused.help(help)))
            }
            Err(error) => {
                let text = "cores are not locked and the process is not shown by tenon monitor";
                let help = format!("the user's own folder cannot be used either ({error}): {text}");
                (None, Some(refused.help(help)))
            }
        }
    }

    /// The private folder of the user.
    pub(crate) fn own() -> Result<Self> {
        Self::open_with(&own(), OWN)
    }

    /// Opens a folder; creates it if it does not exist: root for all users, other users for their
    /// processes.
    ///
    /// # Errors
    /// A folder owned by neither root nor the user, one that others may write without the sticky
    /// bit, a link, or no folder.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(
            path,
            if geteuid().is_root() {
                OF_ALL
            } else {
                READABLE
            },
        )
    }

    fn open_with(path: &Path, mode: u32) -> Result<Self> {
        // Without a trailing separator, after which a link would be followed.
        let path: PathBuf = path.components().collect();
        let is_new = make(&path, mode)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let failed = |error: Errno| Error::io(&path, "open the folder", error.into());
        let folder = open(&path, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => refused("a link, or no folder", &path),
            error => failed(error),
        })?;
        check(&fstat(&folder).map_err(failed)?, geteuid().as_raw(), &path)?;
        if is_new {
            // The umask may have removed permissions.
            fchmod(&folder, Mode::from_raw_mode(mode)).map_err(failed)?;
        }
        Ok(Self {
            folder: Arc::new(folder),
            path,
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in the folder with [`open_plain`].
    pub(crate) fn open_file(&self, name: &str, flags: OFlags, mode: u32) -> io::Result<File> {
        open_plain(&*self.folder, Path::new(name), flags, mode)
    }

    /// Replaces the file `name` atomically by one that only this user can read.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let random = RandomState::new().hash_one(name);
        let aside = format!(".{name}-{random:016x}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = self.open_file(&aside, flags, 0o600)?;
        let written = file.write_all(bytes);
        let renamed =
            written.and_then(|()| Ok(renameat(&*self.folder, &*aside, &*self.folder, name)?));
        if renamed.is_err() {
            self.remove(&aside);
        }
        renamed
    }

    /// Removes a file; errors are ignored.
    pub(crate) fn remove(&self, name: &str) {
        let _ = unlinkat(&*self.folder, name, AtFlags::empty());
    }

    /// The names of this user's files in the folder.
    pub(crate) fn own_files(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.folder)? {
            let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let found = rustix::fs::statat(&*self.folder, &*name, AtFlags::SYMLINK_NOFOLLOW);
            if found.is_ok_and(|found| found.st_uid == geteuid().as_raw()) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Opens a regular file; never through a link, and without blocking on a FIFO.
///
/// # Errors
/// Those of open(2), and an invalid input for a file that is not regular, or has other hard links:
/// it could be any file of the same file system.
pub(crate) fn open_plain(
    folder: impl AsFd,
    name: &Path,
    flags: OFlags,
    mode: u32,
) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(mode))?;
    let found = fstat(&file)?;
    let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if is_plain && found.st_nlink == 1 {
        Ok(file.into())
    } else {
        let text = "not a regular file with a single name";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// The mode of a folder that root creates for all users: only owners remove files.
const OF_ALL: u32 = 0o1777;
/// The mode of a folder that a user creates: others can read the owners of cores.
const READABLE: u32 = 0o755;
/// The mode of a private folder.
const OWN: u32 = 0o700;

/// Creates the folder; returns whether it did not exist.
fn make(path: &Path, mode: u32) -> Result<bool> {
    let failed = |error| Error::io(path, "make the folder", error);
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match std::fs::DirBuilder::new().mode(mode & 0o755).create(path) {
        Ok(()) => Ok(true),
        // Another process has created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Checks that only `user` and root can replace the user's files in a folder.
fn check(folder: &Stat, user: u32, path: &Path) -> Result<()> {
    const STICKY: u32 = 0o1000;
    const OF_OTHERS: u32 = 0o022;
    if folder.st_uid != 0 && folder.st_uid != user {
        return Err(refused("it belongs to another user", path)
            .expected(format_args!("root (0) or the user ({user})"))
            .found(folder.st_uid));
    }
    if folder.st_mode & OF_OTHERS != 0 && folder.st_mode & STICKY == 0 {
        return Err(refused("others may replace files in it", path)
            .expected("a sticky bit, or no permission to write for group and others")
            .found(format_args!("mode {:04o}", folder.st_mode & 0o7777)));
    }
    Ok(())
}

fn refused(why: &str, path: &Path) -> Error {
    let text = format!("the folder of core locks and reports cannot be used: {why}");
    Error::new(ErrorKind::InvalidArgument, text).at(Location::file(path))
}

#[cfg(test)]
mod tests;
