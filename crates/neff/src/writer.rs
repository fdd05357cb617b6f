//! Writes a package: members one after the other, the header last. Equal input gives equal bytes.

use crate::{HEADER_BYTES, Header};
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tenon_base::{Error, ErrorKind, Location, Result};

const BLOCK: usize = 512;
/// The payload's size is a multiple of this, as other writers of the format have it.
const RECORD: u64 = 10240;

/// Writes members into a package. Nothing appears under the target's name before
/// [`PackageWriter::finish`]; a writer that is dropped leaves nothing.
pub struct PackageWriter<W: Target> {
    header: Header,
    stream: Stream<W>,
    names: std::collections::HashSet<String>,
}

/// Where a package is written: a file beside its final name, or memory.
pub trait Target: Write + Seek {
    /// What finishing gives.
    type Done;

    /// Puts the written bytes where they belong.
    fn done(self) -> io::Result<Self::Done>;

    /// The file's name, for errors.
    fn path(&self) -> Option<&Path>;
}

/// A file beside its final name.
pub struct FileTarget {
    file: NamedTempFile,
    path: PathBuf,
}

impl Write for FileTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for FileTarget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Target for FileTarget {
    type Done = ();

    fn done(self) -> io::Result<()> {
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

impl Target for Cursor<Vec<u8>> {
    type Done = Vec<u8>;

    fn done(self) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }

    fn path(&self) -> Option<&Path> {
        None
    }
}

/// The archive's bytes on their way: compressed or not, hashed, counted.
enum Stream<W: Target> {
    Plain(Hashed<W>),
    Gzip(GzEncoder<Hashed<W>>),
}

struct Hashed<W: Target> {
    out: W,
    sha256: Sha256,
    /// Only the packages that are known by it pay for it.
    md5: Option<Md5>,
    written: u64,
}

impl<W: Target> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        let bytes = &bytes[..len];
        self.sha256.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        self.written += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl PackageWriter<FileTarget> {
    /// A writer of the file `path`, which is replaced when finished.
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<Self> {
        let path = path.as_ref();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tenon-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Narrowed by the user's mask, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| Error::io(path, "write", error))?;
        Self::new(
            FileTarget {
                file,
                path: path.to_owned(),
            },
            header,
        )
    }
}

impl PackageWriter<Cursor<Vec<u8>>> {
    /// A writer into memory.
    pub fn in_memory(header: Header) -> Result<Self> {
        Self::new(Cursor::new(Vec::new()), header)
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
            sha256: Sha256::new(),
            md5,
            written: 0,
        };
        let stream = if compressed {
            let builder = GzBuilder::new().mtime(0).operating_system(3);
            Stream::Gzip(builder.write(hashed, Compression::default()))
        } else {
            Stream::Plain(hashed)
        };
        Ok(Self {
            header,
            stream,
            names: Default::default(),
        })
    }

    /// Adds a member. Each name can be used once.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Err(Error::new(ErrorKind::Internal, "a member is written twice")
                .at(Location::member(name)));
        }
        let entry = entry(name, bytes.len() as u64, tar::EntryType::Regular)?;
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

    /// Ends the archive, writes the header and puts the file in its place. Answers the bytes (of a
    /// writer into memory) and the header.
    pub fn finish(mut self) -> Result<(W::Done, Header)> {
        self.write(&[0; 2 * BLOCK])?;
        let path = self.path().map(Path::to_owned);
        self.end().map_err(|error| failed(path.as_deref(), error))
    }

    fn end(self) -> io::Result<(W::Done, Header)> {
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
        let sha256: [u8; 32] = sha256.finalize().into();
        header.hash = sha256;
        if let Some(md5) = md5 {
            header.hash = [0; 32];
            header.hash[..16].copy_from_slice(&md5.finalize());
        }
        if header.uuid == [0; 16] {
            header.uuid = uuid_of(&sha256);
        }
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&header.encode())?;
        out.flush()?;
        Ok((out.done()?, header))
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

/// The header block of an entry, after a GNU block with its name when that is long.
fn entry(name: &str, size: u64, kind: tar::EntryType) -> Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let mut bytes = Vec::new();
    if header.set_path(name).is_err() {
        let mut long = name.as_bytes().to_vec();
        long.push(0);
        bytes = entry(
            "././@LongLink",
            long.len() as u64,
            tar::EntryType::GNULongName,
        )?;
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(padding(long.len()));
        // For readers that do not know the long name: a part of it that every field can hold.
        let plain = name.chars().filter(|&c| c.is_ascii_alphanumeric());
        let short: String = "long-".chars().chain(plain).take(90).collect();
        header.set_path(short).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("a bad member name: {error}"),
            )
            .at(Location::member(name))
        })?;
    }
    header.set_cksum();
    bytes.extend_from_slice(header.as_bytes());
    Ok(bytes)
}

/// The zeros after a member of `len` bytes.
fn padding(len: usize) -> &'static [u8] {
    &[0; BLOCK][..len.next_multiple_of(BLOCK) - len]
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

    /// A disk with room for some bytes.
    struct Full(Cursor<Vec<u8>>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.1.saturating_sub(self.0.position() as usize);
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(&bytes[..room.min(bytes.len())])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    impl Target for Full {
        type Done = usize;

        fn done(self) -> io::Result<usize> {
            Ok(self.0.into_inner().len())
        }

        fn path(&self) -> Option<&Path> {
            Some(Path::new("model.neff"))
        }
    }

    fn write(room: usize, pkg_version: u64) -> Result<usize> {
        let out = Full(Cursor::new(Vec::new()), room);
        let mut writer = PackageWriter::new(out, Header::tenon("x", pkg_version))?;
        writer.add("a.bin", &[7; 3000])?;
        writer.add("b.bin", &[])?;
        Ok(writer.finish()?.0)
    }

    #[test]
    fn a_full_disk_is_an_error_wherever_it_fills() {
        for pkg_version in [1, 2] {
            let len = write(usize::MAX, pkg_version).unwrap();
            assert_eq!(len % RECORD as usize, HEADER_BYTES);
            for room in (0..len).step_by(501).chain([len - 1]) {
                let error = write(room, pkg_version).unwrap_err();
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
