//! Registry of files and folders that are being written, so that a process ended by a signal can
//! remove them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io, mem};

/// The registered paths.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A registered file or folder: [`remove_unfinished_files`] removes it until this value is finished
/// or dropped. Dropping the value does not touch the file.
#[derive(Debug)]
pub struct UnfinishedFile(PathBuf);

impl UnfinishedFile {
    /// Calls `create`, which creates the file and returns it with its path. Creation and
    /// registration are atomic with respect to [`remove_unfinished_files`].
    pub fn create<T>(create: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<(T, Self)> {
        let mut paths = paths();
        let (created, path) = create()?;
        let path = std::path::absolute(path)?;
        paths.insert(path.clone());
        Ok((created, Self(path)))
    }

    /// Calls `rename`, which moves the file to its final path. Atomic with respect to
    /// [`remove_unfinished_files`]: blocks forever if that ran before.
    pub fn finish<T>(self, rename: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut paths = paths();
        let renamed = rename();
        paths.remove(&self.0);
        mem::forget(self);
        renamed
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        paths().remove(&self.0);
    }
}

/// Removes every registered file and folder. To be called when the process is about to end: threads
/// that create or finish such files afterwards block forever.
pub fn remove_unfinished_files() {
    let paths = paths();
    for path in paths.iter() {
        remove(path);
    }
    mem::forget(paths);
}

fn remove(path: &Path) {
    // Other threads may still create files in a folder while it is removed.
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        let removed = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(_) => return,
        };
        if removed.is_ok() {
            return;
        }
    }
}

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // Inserting and removing leave the set consistent even if a holder panicked.
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_registered(path: &Path) -> bool {
        paths().contains(path)
    }

    #[test]
    fn a_file_is_registered_until_it_is_finished_or_dropped() {
        let folder = std::env::temp_dir();
        let name = |label: &str| folder.join(format!("tenon-{label}-{}", std::process::id()));
        let (aside, placed) = (name("aside"), name("placed"));
        let create = || {
            let file = fs::File::create_new(&aside)?;
            Ok((file, aside.clone()))
        };
        let (_, unfinished) = UnfinishedFile::create(create).unwrap();
        assert!(is_registered(&aside));
        drop(unfinished);
        assert!(!is_registered(&aside) && aside.exists());
        fs::remove_file(&aside).unwrap();
        let (_, unfinished) = UnfinishedFile::create(create).unwrap();
        unfinished.finish(|| fs::rename(&aside, &placed)).unwrap();
        assert!(!is_registered(&aside) && !aside.exists());
        fs::remove_file(&placed).unwrap();
        let missing = name("none").join("x");
        let failed =
            UnfinishedFile::create(|| Ok((fs::File::create_new(&missing)?, missing.clone())));
        assert!(failed.is_err() && !is_registered(&missing));
    }
}
