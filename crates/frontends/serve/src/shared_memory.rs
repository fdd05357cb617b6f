//! Triton's extension "system_shared_memory": inputs that are read from, and outputs that are written to regions of POSIX
//! shared memory, which callers of the same machine register.
//!
//! A region is a part of a file in `/dev/shm` that is opened once and copied from and to: a caller that makes the file
//! shorter, or writes it meanwhile, makes its own request fail or changes its own elements.

use crate::body::{self, BodyMemory, Reservation};
use crate::parameters::Parameters;
use crate::raw_data;
use crate::status::{Refusal, Status};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tenon::tensor::BufferMut;
use tenon::{Tensor, TensorType};

/// The files of POSIX shared memory.
const FOLDER: &str = "/dev/shm";
/// The most regions.
const MAX_REGIONS: usize = 1024;
/// The most bytes of the name of a region or of a key: those of a file name.
const MAX_NAME: usize = 255;

/// The parameters of inputs and outputs.
pub const REGION: &str = "shared_memory_region";
const BYTE_SIZE: &str = "shared_memory_byte_size";
const OFFSET: &str = "shared_memory_offset";

/// The regions that callers have registered.
pub struct SharedMemory {
    is_allowed: bool,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
    /// The most bytes of the inputs of one request.
    max_bytes: usize,
    memory: Arc<BodyMemory>,
}

/// What a caller says about a region.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RegionSource {
    /// The name of the shared memory object, with or without a slash before it.
    pub key: String,
    /// Where the region begins in it.
    #[serde(default)]
    pub offset: u64,
    /// The bytes of the region.
    pub byte_size: u64,
}

#[derive(Debug)]
struct Region {
    name: String,
    source: RegionSource,
    file: File,
}

/// A part of a region, which takes an output.
#[derive(Debug, Clone)]
pub struct RegionPart {
    region: Arc<Region>,
    /// From the begin of the file.
    offset: u64,
    bytes: usize,
}

/// The regions that one request uses, and the memory of what it reads from them.
pub struct RequestRegions<'a> {
    shared: &'a SharedMemory,
    reservation: Option<Reservation>,
    bytes: usize,
}

impl SharedMemory {
    /// No regions, and never one unless it is allowed. The inputs of a request have at most `max_bytes` together, which count
    /// as bodies do.
    pub fn new(is_allowed: bool, max_bytes: usize, memory: Arc<BodyMemory>) -> Self {
        Self {
            is_allowed,
            regions: RwLock::default(),
            max_bytes,
            memory,
        }
    }

    /// Whether regions are allowed.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Opens the file of a region.
    ///
    /// # Errors
    /// A name that is registered; too many regions; a key that is no name of a regular file, or that does not have the bytes.
    pub fn register(&self, name: &str, source: RegionSource) -> Result<(), Refusal> {
        self.check_allowed()?;
        if !(1..=MAX_NAME).contains(&name.len()) {
            let text =
                format!("the name of a shared memory region: expected 1 to {MAX_NAME} bytes");
            return Err(Refusal::invalid(text));
        }
        // Held while the file is opened, so that two callers do not register one name.
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if regions.contains_key(name) {
            let text = format!(
                "shared memory region '{name}' already in manager: unregister it first, or use another name"
            );
            return Err(Refusal::new(Status::Exists, text));
        }
        if regions.len() >= MAX_REGIONS {
            let text =
                format!("{MAX_REGIONS} shared memory regions are registered: unregister one first");
            return Err(Refusal::new(Status::TooLarge, text));
        }
        let file = open(&source.key).map_err(|error| error.at(place(name)))?;
        let region = Region {
            name: name.to_owned(),
            source,
            file,
        };
        let end = region.source.offset.checked_add(region.source.byte_size);
        let length = region.length()?;
        if region.source.byte_size == 0 || end.is_none_or(|end| end > length) {
            let found = format!(
                "offset {} and {} bytes, '{}' has {length}",
                region.source.offset, region.source.byte_size, region.source.key
            );
            return Err(invalid_part(name, &found));
        }
        regions.insert(name.to_owned(), Arc::new(region));
        Ok(())
    }

    /// Closes a region, or all. Requests that use it finish; a name that is unknown is no error, as in Triton.
    pub fn unregister(&self, name: Option<&str>) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        match name {
            Some(name) => drop(regions.remove(name)),
            None => regions.clear(),
        }
    }

    /// A region, or all.
    ///
    /// # Errors
    /// An unknown name.
    pub fn status(&self, name: Option<&str>) -> Result<Vec<(String, RegionSource)>, Refusal> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let named = |region: &Arc<Region>| (region.name.clone(), region.source.clone());
        match name {
            None => Ok(regions.values().map(named).collect()),
            Some(name) => {
                let region = regions.get(name).ok_or_else(|| {
                    let text = format!(
                        "Unable to find system shared memory region: '{name}': register it first"
                    );
                    Refusal::new(Status::NotFound, text)
                })?;
                Ok(vec![named(region)])
            }
        }
    }

    fn check_allowed(&self) -> Result<(), Refusal> {
        if self.is_allowed {
            return Ok(());
        }
        let text =
            "shared memory is not allowed (--allow-shared-memory): send the data in the request";
        Err(Refusal::new(Status::Forbidden, text))
    }

    fn part(&self, name: &str, offset: u64, bytes: u64) -> Result<RegionPart, Refusal> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let region = regions.get(name).cloned().ok_or_else(|| {
            let text = format!("Unable to find shared memory region: '{name}': register it first");
            Refusal::new(Status::NotFound, text)
        })?;
        drop(regions);
        let size = region.source.byte_size;
        let misfit = || {
            let found = format!("offset {offset} and {bytes} bytes, the region has {size}");
            invalid_part(name, &found)
        };
        let end = offset.checked_add(bytes).filter(|&end| end <= size);
        end.ok_or_else(misfit)?;
        Ok(RegionPart {
            // The end of the region is in the file, and so is its begin.
            offset: region.source.offset + offset,
            bytes: usize::try_from(bytes).map_err(|_| misfit())?,
            region,
        })
    }
}

impl Region {
    fn length(&self) -> Result<u64, Refusal> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| failed(&self.name, "read", &error))?;
        Ok(metadata.len())
    }
}

impl RegionPart {
    /// Whether a tensor of this size fits.
    ///
    /// # Errors
    /// A part of fewer bytes.
    pub fn check(&self, bytes: usize) -> Result<(), Refusal> {
        // A file that was made shorter would grow again.
        let end = self.offset + bytes as u64;
        if bytes <= self.bytes && end <= self.region.length()? {
            return Ok(());
        }
        let found = format!(
            "the output has {bytes} bytes, its part of the region {}",
            self.bytes
        );
        Err(invalid_part(&self.region.name, &found))
    }

    /// Writes a tensor in the form of binary data.
    ///
    /// # Errors
    /// As [`Self::check`]; a file that cannot be written.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Refusal> {
        self.check(bytes.len())?;
        let written = self.region.file.write_all_at(bytes, self.offset);
        written.map_err(|error| failed(&self.region.name, "write", &error))
    }

    fn read(&self) -> Result<BufferMut, Refusal> {
        let mut buffer = BufferMut::zeroed(self.bytes)?;
        let read = self.region.file.read_exact_at(&mut buffer, self.offset);
        read.map_err(|error| failed(&self.region.name, "read", &error))?;
        Ok(buffer)
    }
}

impl<'a> RequestRegions<'a> {
    /// A request to a server with these regions.
    pub fn new(shared: &'a SharedMemory) -> Self {
        Self {
            shared,
            reservation: None,
            bytes: 0,
        }
    }

    /// Reads the tensor of an input whose parameters name a region.
    ///
    /// # Errors
    /// An unknown region, a part that it does not have; more bytes than a request may have; as [`raw_data::read`].
    pub fn input(
        &mut self,
        parameters: &Parameters,
        ty: &TensorType,
    ) -> Result<Option<Tensor>, Refusal> {
        let Some(part) = self.output(parameters)? else {
            return Ok(None);
        };
        let shared = self.shared;
        let bytes = self.bytes.saturating_add(part.bytes);
        if bytes > shared.max_bytes {
            let text = format!(
                "the inputs in shared memory have {bytes} bytes, expected at most {} (--max-request)",
                shared.max_bytes
            );
            return Err(Refusal::new(Status::TooLarge, text));
        }
        let reservation = self
            .reservation
            .get_or_insert_with(|| shared.memory.reserve());
        reservation.grow_to(bytes)?;
        self.bytes = bytes;
        let read = || raw_data::read(&part.read()?, ty.clone());
        body::heavy(part.bytes, read).map(Some)
    }

    /// The part of a region that parameters name.
    ///
    /// # Errors
    /// As [`Self::input`].
    pub fn output(&self, parameters: &Parameters) -> Result<Option<RegionPart>, Refusal> {
        let Some(name) = parameters.text(REGION)? else {
            return Ok(None);
        };
        let bytes = parameters.unsigned(BYTE_SIZE)?;
        let bytes = bytes.ok_or_else(|| {
            Refusal::invalid(format!(
                "the parameter {BYTE_SIZE} is missing beside {REGION}"
            ))
        })?;
        let offset = parameters.unsigned(OFFSET)?.unwrap_or(0);
        self.shared.check_allowed()?;
        self.shared.part(name, offset, bytes).map(Some)
    }

    /// The memory of what was read, which is returned when it is dropped.
    pub fn into_reservation(self) -> Option<Reservation> {
        self.reservation
    }
}

/// The refusal to register memory of GPUs.
pub fn cuda_unsupported() -> Refusal {
    let text = "CUDA shared memory is not supported: register system shared memory, or send the data in the request";
    Refusal::new(Status::Unsupported, text)
}

/// The refusal of a region in memory of GPUs, of which there is none.
pub fn no_cuda_region(name: &str) -> Refusal {
    let text = format!("Unable to find cuda shared memory region: '{name}': it is not supported");
    Refusal::new(Status::NotFound, text)
}

/// Opens a regular file of the folder, never what a link names.
fn open(key: &str) -> Result<File, Refusal> {
    let name = key.strip_prefix('/').unwrap_or(key);
    let is_name = (1..=MAX_NAME).contains(&name.len())
        && !name.contains(['/', '\0'])
        && ![".", ".."].contains(&name);
    if !is_name {
        let text = format!(
            "key {key:?}: expected a name of at most {MAX_NAME} bytes, with at most one slash before it"
        );
        return Err(Refusal::invalid(text));
    }
    let path = Path::new(FOLDER).join(name);
    let unusable = |error: &std::io::Error| {
        Refusal::invalid(format!(
            "Unable to open shared memory region: key {key:?}: {error}"
        ))
    };
    let expected = fs::symlink_metadata(&path).map_err(|error| unusable(&error))?;
    if !expected.is_file() {
        return Err(Refusal::invalid(format!("key {key:?} is no regular file")));
    }
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.map_err(|error| unusable(&error))?;
    let found = file.metadata().map_err(|error| unusable(&error))?;
    // A link that has replaced the file meanwhile leads to another one.
    if (found.dev(), found.ino()) != (expected.dev(), expected.ino()) {
        return Err(Refusal::invalid(format!(
            "key {key:?} was replaced meanwhile"
        )));
    }
    Ok(file)
}

fn place(name: &str) -> String {
    format!("shared memory region '{name}'")
}

fn invalid_part(name: &str, found: &str) -> Refusal {
    Refusal::invalid(format!(
        "Invalid offset + byte size for shared memory region: '{name}': {found}"
    ))
}

fn failed(name: &str, action: &str, error: &std::io::Error) -> Refusal {
    Refusal::invalid(format!("{}: cannot {action} it: {error}", place(name)))
}

#[cfg(test)]
mod tests;
