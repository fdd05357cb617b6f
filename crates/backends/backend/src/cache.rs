//! The cache of what backends make when models are loaded, such as compiled programs and choices that took
//! measurements: files in a folder of the user.
//!
//! A file is named by a digest of backend, version and key, and has a digest of its contents: a damaged one is absent.
//! Files are written aside and renamed, so that processes share the folder without locks. When the folder grows beyond
//! its limit, the files used least recently are deleted; the time of a use is the file's modification time.

mod file;

pub use file::{CacheFile, MAX_KEY};

use crate::BackendId;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tenon_base::{Error, Result};
use tenon_tensor::{Buffer, BufferMut};

/// The environment variable with the folder; empty for no cache.
pub const CACHE_VARIABLE: &str = "TENON_CACHE_DIR";

/// The most bytes of all files by default.
pub const CACHE_BYTES: u64 = 1 << 30;

/// The name of a file that is being written starts with this.
const UNFINISHED: &str = ".unfinished-";

/// The age of such a file after which its process must have ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Bytes by key, kept from one process to the next: [`Backend::set_cache`](crate::Backend::set_cache). An entry may be
/// deleted at any time. The key contains all that the bytes depend on, such as device, driver and options.
pub trait Cache: Send + Sync {
    /// The bytes of an entry, if there is one.
    fn get(&self, key: &str) -> Option<Buffer>;

    /// Adds or replaces an entry. A key longer than [`MAX_KEY`] and what cannot be written are ignored.
    fn put(&self, key: &str, bytes: &[u8]);
}

/// The cache of a user.
#[derive(Debug)]
pub struct UserCache {
    folder: PathBuf,
    limit: u64,
    /// The first failure to write.
    problem: OnceLock<Error>,
}

/// An entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Id of the backend.
    pub backend: String,
    /// The version of the interface for which it was made.
    pub version: String,
    /// The backend's key.
    pub key: String,
    /// The size of the file.
    pub bytes: u64,
    /// When it was used last.
    pub used: SystemTime,
}

impl UserCache {
    /// The cache in the folder of [`CACHE_VARIABLE`], else in `tenon` in the user's folder for caches; `None` if the
    /// variable is empty, or the user has no such folder.
    pub fn of_user() -> Option<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let absolute = |name| variable(name).filter(|folder: &PathBuf| folder.is_absolute());
        let folder = match variable(CACHE_VARIABLE) {
            Some(folder) if folder.as_os_str().is_empty() => return None,
            Some(folder) => std::path::absolute(folder).ok()?,
            None => absolute("XDG_CACHE_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".cache")))?
                .join("tenon"),
        };
        Some(Self::new(folder, CACHE_BYTES))
    }

    /// The cache in a folder, which is created when an entry is added, with at most `limit` bytes of files.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Self {
        Self {
            folder: folder.into(),
            limit,
            problem: OnceLock::new(),
        }
    }

    /// The cache as a backend sees it: its own entries, made for this version of the interface.
    pub fn for_backend(self: &Arc<Self>, backend: BackendId) -> Arc<dyn Cache> {
        Arc::new(BackendCache {
            cache: self.clone(),
            backend,
            version: format!("{}.{}", crate::abi::MAJOR, crate::abi::MINOR),
        })
    }

    /// Deletes all entries; returns their number and bytes.
    ///
    /// # Errors
    /// A file that cannot be deleted.
    pub fn clear(&self) -> Result<(usize, u64)> {
        let (mut count, mut bytes) = (0, 0);
        for file in self.files()? {
            match fs::remove_file(&file.path) {
                Ok(()) if file.is_finished => (count, bytes) = (count + 1, bytes + file.bytes),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io(&file.path, "delete", error)),
            }
        }
        Ok((count, bytes))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The most bytes of all files.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The first entry that could not be written, for one warning.
    pub fn problem(&self) -> Option<&Error> {
        self.problem.get()
    }

    /// All entries, those used last first. Damaged files are left out.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn entries(&self) -> Result<Vec<CacheEntry>> {
        let mut entries = Vec::new();
        for found in self.files()?.into_iter().filter(|file| file.is_finished) {
            let head = read(&found.path, file::MAX_HEAD as u64);
            let Some(file) = head.as_deref().and_then(CacheFile::head) else {
                continue;
            };
            entries.push(CacheEntry {
                backend: file.backend.to_owned(),
                version: file.version.to_owned(),
                key: file.key.to_owned(),
                bytes: found.bytes,
                used: found.used,
            });
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        Ok(entries)
    }

    fn get(&self, file: &CacheFile<'_>) -> Option<Buffer> {
        let path = self.folder.join(file.name());
        let contents = read(&path, self.limit)?;
        let found = CacheFile::parse(&contents)?;
        if !found.is_named_as(file) {
            return None;
        }
        // A use: without permission for it the entry is deleted earlier.
        if let Ok(opened) = fs::File::open(&path) {
            let _ = opened.set_modified(SystemTime::now());
        }
        Some(BufferMut::copy_of(found.bytes).ok()?.freeze())
    }

    fn put(&self, file: &CacheFile<'_>) {
        if file.size() > self.limit || !file.is_valid() {
            return;
        }
        match self.write(file) {
            Ok(()) => self.delete_oldest(),
            Err(error) => {
                let error = Error::io(&self.folder, "write an entry of the cache", error);
                let help = format!(
                    "what backends make is made again by each process; {CACHE_VARIABLE} names another folder"
                );
                let _ = self.problem.set(error.help(help));
            }
        }
    }

    fn write(&self, file: &CacheFile<'_>) -> io::Result<()> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)?;
        let mut unfinished = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.folder)?;
        unfinished.write_all(&file.to_head())?;
        unfinished.write_all(file.bytes)?;
        unfinished.persist(self.folder.join(file.name()))?;
        Ok(())
    }

    /// Deletes the files used least recently until the others are within the limit. Other processes may delete at the
    /// same time.
    fn delete_oldest(&self) {
        let Ok(mut files) = self.files() else { return };
        let now = SystemTime::now();
        files.retain(|file| {
            let age = now.duration_since(file.used).unwrap_or_default();
            let is_abandoned = !file.is_finished && age > ABANDONED;
            if is_abandoned {
                let _ = fs::remove_file(&file.path);
            }
            file.is_finished
        });
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(&file.path);
            total -= file.bytes;
        }
    }

    /// The files of the cache in its folder; none if there is no folder.
    fn files(&self) -> Result<Vec<FoundFile>> {
        let failed = |error| Error::io(&self.folder, "list", error);
        let list = match fs::read_dir(&self.folder) {
            Ok(list) => list,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut files = Vec::new();
        for entry in list {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_finished = file::is_name(&name);
            // Other files are left alone, and another process may have deleted this one.
            let (true, Ok(found)) = (
                is_finished || name.starts_with(UNFINISHED),
                entry.metadata(),
            ) else {
                continue;
            };
            if found.is_file() {
                files.push(FoundFile {
                    path: entry.path(),
                    bytes: found.len(),
                    used: found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    is_finished,
                });
            }
        }
        Ok(files)
    }
}

struct FoundFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    is_finished: bool,
}

/// At most `limit` bytes of a file; `None` if it cannot be read.
fn read(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = fs::File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len().min(limit);
    let mut contents = Vec::new();
    contents
        .try_reserve_exact(usize::try_from(bytes).ok()?)
        .ok()?;
    file.take(bytes).read_to_end(&mut contents).ok()?;
    Some(contents)
}

/// The entries of one backend.
struct BackendCache {
    cache: Arc<UserCache>,
    backend: BackendId,
    version: String,
}

impl BackendCache {
    fn file<'a>(&'a self, key: &'a str, bytes: &'a [u8]) -> CacheFile<'a> {
        CacheFile {
            backend: self.backend.as_str(),
            version: &self.version,
            key,
            bytes,
        }
    }
}

impl Cache for BackendCache {
    fn get(&self, key: &str) -> Option<Buffer> {
        self.cache.get(&self.file(key, &[]))
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.cache.put(&self.file(key, bytes));
    }
}

#[cfg(test)]
mod tests;
