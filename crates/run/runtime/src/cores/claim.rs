//! Cores that belong to one process at a time.
//!
//! A core is a file in a folder that all processes of the machine share, locked while the core is
//! owned. The system drops the lock when its process ends, in whatever way. The file says who the
//! owner is, for messages and for `tenon devices`.

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
    /// Takes the cores of `selection` among `total`, all or none. Each is `size` successive cores
    /// of the machine, and owns their locks.
    ///
    /// # Errors
    /// `NotEnoughCores` when the machine has fewer, or fewer are free one beside the other;
    /// `OutOfMemory` (a resource that is used up) when a core asked for by number has an owner.
    pub fn take(
        folder: &SharedFolder,
        selection: &CoreSelection,
        total: u32,
        size: u32,
    ) -> Result<Self> {
        let wanted = selection.count(total);
        let last = match selection {
            CoreSelection::Range(range) => range.end,
            _ => wanted,
        };
        if last > total || wanted == 0 {
            return Err(Error::new(
                ErrorKind::NotEnoughCores,
                "the machine has fewer cores than asked for",
            )
            .expected(format_args!(
                "at most {total} (TENON_CORES sets how many there are)"
            ))
            .found(selection));
        }
        let starts = match selection {
            CoreSelection::All => 0..1,
            CoreSelection::Count(_) => 0..total - wanted + 1,
            CoreSelection::Range(range) => range.start..range.start + 1,
        };
        let mut taken = None;
        let mut start = starts.start;
        while start < starts.end {
            match take_all(folder, start..start + wanted, size)? {
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
            .help("ask for others with NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES, or end that process"))
    }

    /// The cores, by their numbers on the machine.
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
        // Nobody is told of an owner who has left; the lock itself goes with the file.
        for file in &self.locks {
            let _ = file.set_len(0);
        }
    }
}

/// A core that another process owns.
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

/// The process that owns core `core`, for those who only look.
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
                let told = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()));
                told.map_err(|error| failed("write", error))?;
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

/// Opens a lock that every user may take, and makes it when there is none.
fn open_lock(folder: &SharedFolder, core: u32) -> io::Result<File> {
    let name = lock_name(core);
    // A lock that is there is not opened for creation, which Linux refuses for files of others in
    // folders with the sticky bit (`fs.protected_regular`).
    let open = |flags| folder.open_file(&name, OFlags::RDWR | flags, 0o666);
    loop {
        match open(OFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match open(OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => {
                // Against the mask of the process.
                file.set_permissions(PermissionsExt::from_mode(0o666))?;
                return Ok(file);
            }
            // Another process was faster.
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
        // Two beside each other are only there behind it.
        let two = take(folder, None, Some("2")).unwrap();
        assert_eq!(two.cores(), 2..4);
        let error = take(folder, None, Some("2")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnoughCores);
        let error = take(folder, Some("0-1"), None).unwrap_err();
        assert_eq!(error.kind().nrt_status(), 4);
        let owner = format!("core 1 belongs to process {}", std::process::id());
        assert!(error.message().ends_with(&owner), "{error}");
        // What was taken before the busy one was found is free again.
        assert_eq!(take(folder, Some("0"), None).unwrap().cores(), 0..1);
        drop((middle, two));
        assert_eq!(core_owner(folder, 1), None);
        assert_eq!(take(folder, None, None).unwrap().cores(), 0..4);
    }

    #[test]
    fn a_logical_core_owns_every_core_that_it_is_made_of() {
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
        // One with smaller cores meets it.
        assert!(take(folder, Some("3"), None).is_err());
        let small = take(folder, Some("1"), None).unwrap();
        let error = take_pair("0").unwrap_err();
        assert!(error.message().contains("core 0 belongs to"), "{error}");
        drop(small);
        assert_eq!(take_pair("0").unwrap().cores(), 0..1);
    }

    #[test]
    fn a_planted_lock_is_not_written_through() {
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
    fn more_than_there_are_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (visible, count) in [(None, Some("5")), (Some("4"), None), (Some("3-4"), None)] {
            let error = take(folder.path(), visible, count).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotEnoughCores, "{error}");
        }
    }
}
