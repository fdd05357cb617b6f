//! Writes a package: members in sequence, the header last. Equal input gives equal bytes.

use crate::error::encode;
use crate::gzip::BlockWriter;
use crate::parallel::{self, Task};
use crate::tar_entry::{BLOCK, entry, padding};
use crate::target::{FileTarget, MemoryTarget, Target};
use crate::{DIGESTS_JSON, Digest, Digests, HEADER_BYTES, Header};
use md5::Md5;
use sha2::{Digest as _, Sha256};
use std::io::{self, SeekFrom, Write};
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};

/// The payload's size is a multiple of this, as in the files of other writers of the format.
const RECORD: u64 = 10240;

/// Writes members into a package. The target's name appears with [`PackageWriter::finish`]; a
/// writer that is dropped leaves no file.
pub struct PackageWriter<W: Target> {
    header: Header,
    stream: Stream<W>,
    names: std::collections::HashSet<String>,
    digests: Option<Digests>,
}

/// The stream of the archive's bytes: compressed or not, hashed, counted.
enum Stream<W: Target> {
    Plain(Hashed<W>),
    Gzip(BlockWriter<Hashed<W>>),
}

struct Hashed<W: Target> {
    out: W,
    /// The hash of a plain package, and the source of a new uuid.
    sha256: Option<Sha256>,
    /// The hash of a compressed package.
    md5: Option<Md5>,
    written: u64,
}

/// From this length on, writing and hashing run concurrently.
const LARGE: usize = 1 << 20;

impl<W: Target> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (out, sha256, md5) = (&mut self.out, &mut self.sha256, &mut self.md5);
        let hash = |sha256: &mut Option<Sha256>, md5: &mut Option<Md5>| {
            if let Some(sha256) = sha256 {
                sha256.update(bytes);
            }
            if let Some(md5) = md5 {
                md5.update(bytes);
            }
        };
        if bytes.len() < LARGE {
            out.write_all(bytes)?;
            hash(sha256, md5);
        } else {
            let hash = || {
                hash(sha256, md5);
                Ok(())
            };
            let tasks: [Task<'_, io::Result<()>>; 2] =
                [Box::new(hash), Box::new(|| out.write_all(bytes))];
            parallel::all(tasks)
                .into_iter()
                .collect::<io::Result<()>>()?;
        }
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl PackageWriter<FileTarget> {
    /// A writer of the file `path`, which is replaced when finished.
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<Self> {
        Self::new(FileTarget::beside(path)?, header)
    }
}

impl PackageWriter<MemoryTarget> {
    /// A writer into memory.
    pub fn in_memory(header: Header) -> Result<Self> {
        Self::in_memory_with_capacity(header, 0)
    }

    /// A writer into memory, of which `capacity` bytes are allocated in advance.
    pub(crate) fn in_memory_with_capacity(header: Header, capacity: usize) -> Result<Self> {
        Self::new(MemoryTarget::with_capacity(capacity)?, header)
    }
}

impl<W: Target> PackageWriter<W> {
    /// A writer into `out`. The header's `pkg_version` decides between plain (1) and gzip (2);
    /// its sizes, hash and (when zero) uuid are filled in at the end.
    fn new(mut out: W, header: Header) -> Result<Self> {
        let placed = out.write_all(&[0; HEADER_BYTES]);
        placed.map_err(|error| failed(out.path(), error))?;
        let compressed = header.pkg_version == 2;
        let md5 = compressed.then(Md5::new);
        let hashed = Hashed {
            out,
            sha256: (!compressed || header.uuid == [0; 16]).then(Sha256::new),
            md5,
            written: 0,
        };
        let stream = if compressed {
            Stream::Gzip(BlockWriter::new(hashed))
        } else {
            Stream::Plain(hashed)
        };
        Ok(Self {
            header,
            stream,
            names: Default::default(),
            digests: None,
        })
    }

    /// Adds a last member with the digests of all others.
    pub fn with_digests(mut self) -> Self {
        self.digests = Some(Digests::default());
        self
    }

    /// Adds a member. Each name can be used once.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Err(Error::new(ErrorKind::Internal, "a member is written twice")
                .at(Location::member(name)));
        }
        if let Some(digests) = &mut self.digests {
            digests.add(name, bytes.len() as u64, Digest::of(bytes));
        }
        let entry = entry(name, bytes.len() as u64)?;
        self.write(&entry)?;
        self.write(bytes)?;
        self.write(padding(bytes.len()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let result = match &mut self.stream {
            Stream::Plain(out) => out.write_all(bytes),
            Stream::Gzip(out) => out.write_all(bytes),
        };
        result.map_err(|error| failed(self.path(), error))
    }

    fn path(&self) -> Option<&Path> {
        match &self.stream {
            Stream::Plain(hashed) => hashed.out.path(),
            Stream::Gzip(encoder) => encoder.get_ref().out.path(),
        }
    }

    /// Ends the archive, writes the header and renames the file to its final name. Returns the
    /// output of the target and the header.
    pub fn finish(mut self) -> Result<(W::Output, Header)> {
        if let Some(digests) = self.digests.take() {
            self.add(DIGESTS_JSON, &encode(&digests.to_stored())?)?;
        }
        self.write(&[0; 2 * BLOCK])?;
        let path = self.path().map(Path::to_owned);
        self.end().map_err(|error| failed(path.as_deref(), error))
    }

    fn end(self) -> io::Result<(W::Output, Header)> {
        let mut header = self.header;
        let mut hashed = match self.stream {
            Stream::Plain(hashed) => hashed,
            Stream::Gzip(encoder) => encoder.finish()?,
        };
        let rest = hashed.written.next_multiple_of(RECORD) - hashed.written;
        io::copy(&mut io::Read::take(io::repeat(0), rest), &mut hashed)?;
        let Hashed {
            mut out,
            sha256,
            md5,
            written,
        } = hashed;
        header.header_size = HEADER_BYTES as u64;
        header.data_size = written;
        header.hash = [0; 32];
        if let Some(md5) = md5 {
            header.hash[..16].copy_from_slice(&md5.finalize());
        }
        if let Some(sha256) = sha256 {
            let sha256: [u8; 32] = sha256.finalize().into();
            if header.pkg_version != 2 {
                header.hash = sha256;
            }
            if header.uuid == [0; 16] {
                header.uuid = uuid_of(&sha256);
            }
        }
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&header.encode())?;
        out.flush()?;
        Ok((out.finish()?, header))
    }
}

/// A UUID of version 8 from a hash.
fn uuid_of(hash: &[u8; 32]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash[..16]);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

fn failed(path: Option<&Path>, error: io::Error) -> Error {
    match path {
        Some(path) => Error::io(path, "write", error),
        None => Error::new(ErrorKind::Io, format!("cannot write: {error}")).source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Seek};

    /// A disk with a limited number of free bytes.
    struct LimitedDisk(Cursor<Vec<u8>>, usize);

    impl Write for LimitedDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let free = self.1.saturating_sub(self.0.position() as usize);
            if free == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(&bytes[..free.min(bytes.len())])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for LimitedDisk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    impl Target for LimitedDisk {
        type Output = usize;

        fn finish(self) -> io::Result<usize> {
            Ok(self.0.into_inner().len())
        }

        fn path(&self) -> Option<&Path> {
            Some(Path::new("model.neff"))
        }
    }

    fn write(free: usize, pkg_version: u64) -> Result<usize> {
        let out = LimitedDisk(Cursor::new(Vec::new()), free);
        let mut writer = PackageWriter::new(out, Header::tenon("x", pkg_version))?;
        writer.add("a.bin", &[7; 3000])?;
        writer.add("b.bin", &[])?;
        Ok(writer.finish()?.0)
    }

    #[test]
    fn a_full_disk_is_an_error_at_every_position() {
        for pkg_version in [1, 2] {
            let len = write(usize::MAX, pkg_version).unwrap();
            assert_eq!(len % RECORD as usize, HEADER_BYTES);
            for free in (0..len).step_by(501).chain([len - 1]) {
                let error = write(free, pkg_version).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(
                    error.to_string().starts_with("model.neff: cannot write"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn long_names_and_empty_members_read_back() {
        let mut writer = PackageWriter::in_memory(Header::tenon("x", 1)).unwrap();
        let long = "folder/".repeat(40) + "name";
        let wide = "ä".repeat(120);
        for name in ["a", &long, &wide] {
            writer.add(name, name.as_bytes()).unwrap();
        }
        assert!(writer.add("a", b"again").is_err());
        let (bytes, _) = writer.finish().unwrap();
        let mut archive = tar::Archive::new(&bytes[HEADER_BYTES..]);
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a", long.as_str(), wide.as_str()]);
        let buffer = tenon_tensor::BufferMut::copy_of(&bytes).unwrap().freeze();
        let control = tenon_base::Control::new();
        let package = crate::Package::from_buffer(buffer, &Default::default(), &control).unwrap();
        assert_eq!(package.member(&long).unwrap()[..], *long.as_bytes());
        assert_eq!(package.member(&wide).unwrap()[..], *wide.as_bytes());
    }
}
