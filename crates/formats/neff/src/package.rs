//! A package opened for reading: the header, and the members as slices of the file.

use crate::archive::{Blocks, Index};
use crate::error::{invalid, json_text};
use crate::header::hex;
use crate::{HEADER_BYTES, Header, payload};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::Buffer;

/// Bytes hashed between two checks of [`Control`].
const STEP: usize = 16 << 20;

/// Limits of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a compressed payload of any size may unpack to.
    pub unpacked_bytes: u64,
    /// The ratio of unpacked to compressed size that is accepted beyond that.
    pub unpacked_ratio: u64,
}

impl Limits {
    /// At most `unpacked_bytes` bytes unpacked.
    pub fn of_bytes(unpacked_bytes: u64) -> Self {
        Self {
            unpacked_bytes,
            unpacked_ratio: 0,
        }
    }

    /// The limit for a payload of `payload` bytes.
    pub(crate) fn unpacked(&self, payload: usize) -> u64 {
        let by_ratio = self.unpacked_ratio.saturating_mul(payload as u64);
        self.unpacked_bytes.max(by_ratio)
    }
}

impl Default for Limits {
    /// 2 GiB unpacked, or 8 times the compressed size: weights compress to a half or a quarter, a
    /// gzip bomb to a thousandth.
    fn default() -> Self {
        Self {
            unpacked_bytes: 2 << 30,
            unpacked_ratio: 8,
        }
    }
}

/// An open package. Opening reads the header and the archive's entry headers; the members of a
/// plain package are slices of the mapped file.
///
/// ```
/// use tenon_base::Control;
/// use tenon_neff::{Header, Limits, Package, PackageWriter};
/// use tenon_tensor::BufferMut;
/// let mut writer = PackageWriter::in_memory(Header::tenon("hello", 1))?;
/// writer.add("info.json", b"{}")?;
/// let (bytes, _) = writer.finish()?;
/// let buffer = BufferMut::copy_of(&bytes)?.freeze();
/// let package = Package::from_buffer(buffer, &Limits::default(), &Control::new())?;
/// assert_eq!(&package.member("info.json").unwrap()[..], b"{}");
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Package {
    path: Option<PathBuf>,
    header: Header,
    /// As stored, padding included.
    payload: Buffer,
    /// The tar archive: the payload, unpacked if compressed.
    archive: Buffer,
    index: Index,
}

/// The result of comparing the header's hash with the payload's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashCheck {
    /// They are equal.
    Equal,
    /// They differ in a package that Tenon did not write. Files of another known compiler never
    /// match (neff 1.3): no evidence of damage.
    ForeignDiffers,
}

impl Package {
    /// Opens a file with the default limits.
    pub fn open(path: impl AsRef<Path>, control: &Control) -> Result<Self> {
        Self::open_with(path, &Limits::default(), control)
    }

    /// Opens a file.
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, "read", error);
        let file = File::open(path).map_err(failed)?;
        let map = Buffer::map(&file).map_err(failed)?;
        let mut package = Self::parse(map, Some(&file), limits, control)
            .map_err(|error| error.at(Location::file(path)))?;
        package.path = Some(path.to_owned());
        Ok(package)
    }

    /// Opens the bytes of a file.
    pub fn from_buffer(file: Buffer, limits: &Limits, control: &Control) -> Result<Self> {
        Self::parse(file, None, limits, control)
    }

    fn parse(map: Buffer, file: Option<&File>, limits: &Limits, control: &Control) -> Result<Self> {
        let header = Header::decode(&map)?;
        let range = payload_range(&header, map.len())?;
        let start = range.start;
        let payload = map
            .slice(range)
            .ok_or_else(|| invalid("the payload is cut short"))?;
        let (archive, index) = if payload::is_compressed(&payload) {
            let archive = payload::unpack(&payload, limits, control)?;
            let index = Index::read(&&archive[..]);
            (archive, index)
        } else {
            let index = match file {
                Some(file) => read_index(file, start, payload.len()),
                None => Index::read(&&payload[..]),
            };
            (payload.clone(), index)
        };
        // Offsets in errors are relative to the archive; in the file of a plain package, the
        // header's size must be added.
        let index = index.map_err(|error| error.at(Location::member("archive")))?;
        Ok(Self {
            path: None,
            header,
            payload,
            archive,
            index,
        })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file it was opened from.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the payload is compressed.
    pub fn is_compressed(&self) -> bool {
        payload::is_compressed(&self.payload)
    }

    /// The members in file order: name and size.
    pub fn members(&self) -> impl Iterator<Item = (&str, usize)> {
        self.index.iter().map(|(name, range)| (name, range.len()))
    }

    /// The bytes of a member, not copied.
    pub fn member(&self, name: &str) -> Option<Buffer> {
        self.archive.slice(self.index.find(name)?)
    }

    /// The bytes of a required member.
    pub fn require(&self, name: &str) -> Result<Buffer> {
        self.member(name).ok_or_else(|| {
            self.locate(invalid("the package has no such member").at(Location::member(name)))
        })
    }

    /// A JSON member as a typed value.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let bytes = self.require(name)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let text = json_text(&error);
            let (line, column) = (error.line() as u32, error.column() as u32);
            let place = Location::member(name).line_column(line, column);
            self.locate(invalid(format!("not valid: {text}")).at(place))
        })
    }

    /// Adds the file to an error about this package.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(Location::file(path)),
            None => error,
        }
    }

    /// Compares the header's hash with that of the payload, which reads the whole file. A
    /// difference is an error in a package that Tenon wrote.
    pub fn verify_hash(&self, control: &Control) -> Result<HashCheck> {
        let found: Vec<u8> = if self.header.pkg_version == 2 {
            self.hash::<md5::Md5>(control)?
        } else {
            self.hash::<Sha256>(control)?
        };
        let stored = self.header.hash.get(..found.len()).unwrap_or_default();
        if stored == found {
            return Ok(HashCheck::Equal);
        }
        if !self.header.is_tenon() {
            return Ok(HashCheck::ForeignDiffers);
        }
        let error = invalid("the payload's hash differs from the header's");
        let error = error.expected(self.header.hash_text());
        Err(self.locate(error.found(hex(&found))))
    }

    fn hash<D: Digest>(&self, control: &Control) -> Result<Vec<u8>> {
        let mut digest = D::new();
        let mut done = 0u64;
        for chunk in self.payload.chunks(STEP) {
            control.progress("verify the hash", done, self.payload.len() as u64)?;
            digest.update(chunk);
            done += chunk.len() as u64;
        }
        Ok(digest.finalize().to_vec())
    }
}

/// The index of the archive in a file. Entry headers are read with `pread`: it costs less than the
/// page fault of an access to the mapping, and a package has an entry for each constant.
fn read_index(file: &File, start: usize, len: usize) -> Result<Index> {
    struct InFile<'a> {
        file: &'a File,
        start: usize,
        len: usize,
    }

    impl Blocks for InFile<'_> {
        fn len(&self) -> usize {
            self.len
        }

        fn copy(&self, position: usize, to: &mut [u8]) -> Result<()> {
            let offset = (self.start + position) as u64;
            self.file.read_exact_at(to, offset).map_err(|error| {
                Error::new(ErrorKind::Io, format!("cannot read: {error}")).source(error)
            })
        }
    }

    Index::read(&InFile { file, start, len })
}

/// The range of the payload in a file of `len` bytes. Bytes after it are ignored.
fn payload_range(header: &Header, len: usize) -> Result<std::ops::Range<usize>> {
    let start = usize::try_from(header.header_size)
        .ok()
        .filter(|&start| start <= len);
    let start = start.ok_or_else(|| {
        invalid("the header size is larger than the file")
            .expected(format_args!("{HEADER_BYTES}"))
            .found(header.header_size)
            .at(Location::field("header_size"))
    })?;
    let end = usize::try_from(header.data_size)
        .ok()
        .and_then(|size| start.checked_add(size));
    match end.filter(|&end| end <= len) {
        Some(end) => Ok(start..end),
        None => Err(invalid("the file is cut short, or its data size is wrong")
            .expected(format_args!("{} bytes of data", header.data_size))
            .found(len - start)
            .at(Location::field("data_size"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limit_grows_with_the_payload_and_a_given_one_does_not() {
        let limits = Limits::default();
        assert_eq!(limits.unpacked(0), 2 << 30);
        assert_eq!(limits.unpacked(16 << 20), 2 << 30);
        assert_eq!(limits.unpacked(1 << 30), 8 << 30);
        assert_eq!(limits.unpacked(usize::MAX), u64::MAX);
        assert_eq!(Limits::of_bytes(5).unpacked(1 << 30), 5);
    }
}
