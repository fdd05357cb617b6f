//! Exclusive ownership of cores by processes.
//!
//! A core is a lock file (flock(2)) in a folder shared by all processes of the machine. The kernel
//! releases the lock when the process ends, also by a crash. The file contains the owner's process
//! id, for messages and for `tenon devices`.

use super::CoreSelection;
use crate::SharedFolder;
use crate::shared_folder::open_plain;
use rustix::fs::{CWD, FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Result};

/// Cores that this process owns until the value is dropped.
#[derive(Debug)]
pub struct CoreClaim {
    cores: Range<u32>,
    locks: Vec<File>,
}

impl CoreClaim {
    /// Claims the cores of `selection` among `total`, all or none. A core is `size` consecutive
    /// physical cores and owns their locks.
    ///
    /// # Errors
    /// `NotEnoughCores` when the machine has fewer, or no consecutive range is free; `OutOfMemory`
    /// (an exhausted resource) when a core selected by number has an owner.
    pub fn take(
        folder: &SharedFolder,
        selection: &CoreSelection,
        total: u32,
        size: u32,
    ) -> Result<Self> {
        let requested = selection.count(total);
        let last = match selection {
            CoreSelection::Range(range) => range.end,
            _ => requested,
        };
        if last > total || requested == 0 {
            return Err(Error::new(
                ErrorKind::NotEnoughCores,
                "the machine has fewer cores than requested",
            )
            .expected(format_args!(
                "at most {total} (TENON_CORES sets how many there are)"
            ))
            .found(selection));
        }
        let starts = match selection {
            CoreSelection::All => 0..1,
            CoreSelection::Count(_) => 0..total - requested + 1,
            CoreSelection::Range(range) => range.start..range.start + 1,
        };
        let mut taken = None;
        let mut start = starts.start;
        while start < starts.end {
            match take_all(folder, start..start + requested, size)? {
                Ok(claim) => return Ok(claim),
                Err(busy) => {
                    start = busy.core + 1;
                    taken = Some(busy);
                }
            }
        }
        let busy = taken.map_or_else(String::new, |busy| busy.to_string());
        let (kind, what) = match selection {
            CoreSelection::Count(_) => (ErrorKind::NotEnoughCores, "not enough cores are free"),
            _ => (ErrorKind::OutOfMemory, "a core is in use"),
        };
        Err(Error::new(kind, format!("{what}: {busy}"))
            .expected(selection)
            .help("select others with NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES, or end that process"))
    }

    /// The cores, numbered on the machine.
    pub fn cores(&self) -> Range<u32> {
        self.cores.clone()
    }

    /// The descriptors that hold the locks: a child made by `fork` shares them and must close them.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.locks.iter().map(AsRawFd::as_raw_fd)
    }
}

impl Drop for CoreClaim {
    fn drop(&mut self) {
        // The owner's id is erased; closing the file releases the lock.
        for file in &self.locks {
            let _ = file.set_len(0);
        }
    }
}

/// A core owned by another process.
struct Busy {
    core: u32,
    owner: Option<u32>,
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.owner {
            Some(owner) => write!(f, "core {} belongs to process {owner}", self.core),
            None => write!(f, "core {} belongs to another process", self.core),
        }
    }
}

/// The process that owns core `core`, for monitoring.
pub fn core_owner(folder: &Path, core: u32) -> Option<u32> {
    let name = lock_name(core);
    let mut file = open_plain(CWD, &folder.join(name), OFlags::RDONLY, 0).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => None,
        Err(_) => read_owner(&mut file),
    }
}

fn take_all(
    folder: &SharedFolder,
    cores: Range<u32>,
    size: u32,
) -> Result<Result<CoreClaim, Busy>> {
    let mut claim = CoreClaim {
        cores: cores.clone(),
        locks: Vec::with_capacity(cores.len() * size as usize),
    };
    for core in cores.start * size..cores.end * size {
        let failed = |what: &str, error: io::Error| {
            Error::io(folder.path().join(lock_name(core)), what, error)
        };
        let mut file = open_lock(folder, core).map_err(|error| failed("open", error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let written = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()));
                written.map_err(|error| failed("write", error))?;
                claim.locks.push(file);
            }
            Err(Errno::WOULDBLOCK) => {
                let owner = read_owner(&mut file);
                let core = core / size;
                return Ok(Err(Busy { core, owner }));
            }
            Err(error) => return Err(failed("lock", error.into())),
        }
    }
    Ok(Ok(claim))
}

fn read_owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn lock_name(core: u32) -> String {
    format!("core-{core}")
}

/// Opens a lock file that every user may lock; creates it if it does not exist.
fn open_lock(folder: &SharedFolder, core: u32) -> io::Result<File> {
    let name = lock_name(core);
    // An existing file is opened without O_CREAT, which Linux denies for files of other users in
    // folders with the sticky bit (`fs.protected_regular`).
    let open = |flags| folder.open_file(&name, OFlags::RDWR | flags, 0o666);
    loop {
        match open(OFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match open(OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => {
                // The umask may have removed permissions.
                file.set_permissions(PermissionsExt::from_mode(0o666))?;
                return Ok(file);
            }
            // Another process has created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, visible: Option<&str>, count: Option<&str>) -> Result<CoreClaim> {
        let selection = CoreSelection::from_variables(visible, count).unwrap();
        CoreClaim::take(&SharedFolder::open(folder)?, &selection, 4, 1)
    }

    #[test]
    fn a_core_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let middle = take(folder, Some("1"), None).unwrap();
        assert_eq!(middle.cores(), 1..2);
        assert_eq!(core_owner(folder, 1), Some(std::process::id()));
        assert_eq!(core_owner(folder, 0), None);
        // Two consecutive cores are free only after it.
        let two = take(folder, None, Some("2")).unwrap();
        assert_eq!(two.cores(), 2..4);
        let error = take(folder, None, Some("2")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnoughCores);
        let error = take(folder, Some("0-1"), None).unwrap_err();
        assert_eq!(error.kind().nrt_status(), 4);
        let owner = format!("core 1 belongs to process {}", std::process::id());
        assert!(error.message().ends_with(&owner), "{error}");
        // Cores locked before the busy one was found are released.
        assert_eq!(take(folder, Some("0"), None).unwrap().cores(), 0..1);
        drop((middle, two));
        assert_eq!(core_owner(folder, 1), None);
        assert_eq!(take(folder, None, None).unwrap().cores(), 0..4);
    }

    #[test]
    fn a_logical_core_owns_all_its_physical_cores() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let take_pair = |list| {
            let selection = CoreSelection::from_variables(Some(list), None).unwrap();
            CoreClaim::take(&SharedFolder::open(folder)?, &selection, 2, 2)
        };
        let pair = take_pair("1").unwrap();
        assert_eq!((pair.cores(), pair.descriptors().count()), (1..2, 2));
        let owners = [0, 1, 2, 3].map(|core| core_owner(folder, core).is_some());
        assert_eq!(owners, [false, false, true, true]);
        // A process with smaller cores conflicts with it.
        assert!(take(folder, Some("3"), None).is_err());
        let small = take(folder, Some("1"), None).unwrap();
        let error = take_pair("0").unwrap_err();
        assert!(error.message().contains("core 0 belongs to"), "{error}");
        drop(small);
        assert_eq!(take_pair("0").unwrap().cores(), 0..1);
    }

    #[test]
    fn a_planted_link_is_not_written_through() {
        let place = tempfile::tempdir().unwrap();
        let (folder, target) = (place.path().join("shared"), place.path().join("target"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&target, "untouched").unwrap();
        let lock = folder.join("core-0");
        for plant in [std::fs::hard_link, |from: &Path, to: &Path| {
            std::os::unix::fs::symlink(from, to)
        }] {
            plant(&target, &lock).unwrap();
            let error = take(&folder, Some("0"), None).unwrap_err();
            assert!(error.to_string().contains("core-0"), "{error}");
            assert_eq!(core_owner(&folder, 0), None);
            assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
            std::fs::remove_file(&lock).unwrap();
        }
    }

    #[test]
    fn more_cores_than_the_machine_has_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        for (visible, count) in [(None, Some("5")), (Some("4"), None), (Some("3-4"), None)] {
            let error = take(folder.path(), visible, count).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotEnoughCores, "{error}");
        }
    }
}
