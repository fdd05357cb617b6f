//! Files and folders that are being written, for a process that a signal ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io, mem};

/// What [`remove_unfinished_files`] would remove.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file or folder that [`remove_unfinished_files`] removes until this value is finished or dropped.
/// Dropping it leaves the file as it is.
#[derive(Debug)]
pub struct UnfinishedFile(PathBuf);

impl UnfinishedFile {
    /// Calls `create`, which answers what it made and its path. No signal comes between the file's
    /// creation and its entry in the list: [`remove_unfinished_files`] waits for both.
    pub fn create<T>(create: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<(T, Self)> {
        let mut paths = paths();
        let (created, path) = create()?;
        let path = std::path::absolute(path)?;
        paths.insert(path.clone());
        Ok((created, Self(path)))
    }

    /// Calls `rename`, which puts it in place: before [`remove_unfinished_files`] begins or, in a process
    /// that is about to end, never.
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

/// Removes every unfinished file and folder. For a process that is about to end: threads that create
/// or finish such files afterwards block.
pub fn remove_unfinished_files() {
    let paths = paths();
    for path in paths.iter() {
        remove(path);
    }
    mem::forget(paths);
}

fn remove(path: &Path) {
    // Other threads may still create files in a folder, until it is gone.
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
    // A holder that panicked left a whole set.
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &Path) -> bool {
        paths().contains(path)
    }

    #[test]
    fn a_file_is_listed_until_it_is_finished_or_dropped() {
        let folder = std::env::temp_dir();
        let name = |what: &str| folder.join(format!("tenon-{what}-{}", std::process::id()));
        let (aside, placed) = (name("aside"), name("placed"));
        let create = || {
            let file = fs::File::create_new(&aside)?;
            Ok((file, aside.clone()))
        };
        let (_, unfinished) = UnfinishedFile::create(create).unwrap();
        assert!(listed(&aside));
        drop(unfinished);
        assert!(!listed(&aside) && aside.exists());
        fs::remove_file(&aside).unwrap();
        let (_, unfinished) = UnfinishedFile::create(create).unwrap();
        unfinished.finish(|| fs::rename(&aside, &placed)).unwrap();
        assert!(!listed(&aside) && !aside.exists());
        fs::remove_file(&placed).unwrap();
        let missing = name("none").join("x");
        let failed =
            UnfinishedFile::create(|| Ok((fs::File::create_new(&missing)?, missing.clone())));
        assert!(failed.is_err() && !listed(&missing));
    }
}
