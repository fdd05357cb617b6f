//! Targets of the package writer: a file beside its final name, or memory.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use tenon_base::{Error, Result};
use tenon_tensor::atomic_file::AtomicFile;
use tenon_tensor::{Buffer, BufferMut};

/// A target of the package writer: a file beside its final name, or memory.
pub trait Target: Write + Seek + Send {
    /// The result of [`Target::finish`].
    type Output;

    /// Completes the target: a file gets its final name.
    fn finish(self) -> io::Result<Self::Output>;

    /// The file's name, for errors.
    fn path(&self) -> Option<&Path>;
}

/// A file that gets its final name when it is complete.
pub struct FileTarget(AtomicFile);

impl FileTarget {
    /// A file that replaces `path` when it is complete.
    pub(crate) fn beside(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = AtomicFile::create(path);
        file.map(Self)
            .map_err(|error| Error::io(path, "write", error))
    }
}

impl Write for FileTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.file().flush()
    }
}

impl Seek for FileTarget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.file().seek(to)
    }
}

impl Target for FileTarget {
    type Output = ();

    fn finish(self) -> io::Result<()> {
        self.0.commit()
    }

    fn path(&self) -> Option<&Path> {
        Some(self.0.path())
    }
}

/// Memory that grows, aligned as the constants of a plain package require.
pub struct MemoryTarget {
    memory: BufferMut,
    len: usize,
    position: usize,
}

impl MemoryTarget {
    /// The smallest allocation.
    const LEAST: usize = 64 << 10;

    /// An empty target; up to `capacity` bytes are written without copying earlier ones.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        Ok(Self {
            memory: BufferMut::zeroed(capacity)?,
            len: 0,
            position: 0,
        })
    }

    fn reserve(&mut self, end: usize) -> io::Result<()> {
        if end <= self.memory.len() {
            return Ok(());
        }
        let capacity = end
            .max(self.memory.len().saturating_mul(2))
            .max(Self::LEAST);
        let mut memory = BufferMut::zeroed(capacity).map_err(io::Error::other)?;
        memory[..self.len].copy_from_slice(&self.memory[..self.len]);
        self.memory = memory;
        Ok(())
    }
}

impl Write for MemoryTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.position.checked_add(bytes.len());
        let end = end.ok_or(io::ErrorKind::OutOfMemory)?;
        self.reserve(end)?;
        self.memory[self.position..end].copy_from_slice(bytes);
        self.position = end;
        self.len = self.len.max(end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for MemoryTarget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => usize::try_from(position).ok(),
            SeekFrom::End(offset) => self.len.checked_add_signed(offset as isize),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset as isize),
        };
        let inside = position.filter(|&position| position <= self.len);
        self.position = inside.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position as u64)
    }
}

impl Target for MemoryTarget {
    type Output = Buffer;

    fn finish(self) -> io::Result<Buffer> {
        let written = self.memory.freeze().slice(0..self.len);
        written.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn path(&self) -> Option<&Path> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_and_is_overwritten_at_a_position() {
        let mut target = MemoryTarget::with_capacity(0).unwrap();
        for byte in 0..5 {
            target.write_all(&vec![byte; 50_000]).unwrap();
        }
        target.seek(SeekFrom::Start(1)).unwrap();
        target.write_all(b"header").unwrap();
        assert!(target.seek(SeekFrom::Start(250_001)).is_err());
        let bytes = target.finish().unwrap();
        assert_eq!((bytes.len(), &bytes[..8]), (250_000, &b"\0header\0"[..]));
        assert_eq!((bytes[49_999], bytes[50_000], bytes[249_999]), (0, 1, 4));
    }
}
