//! Blocked gzip (as BGZF of SAMtools): each block of a payload is a separate gzip member, so that
//! all cores compress and unpack one payload. Every gzip reader decodes the concatenated members
//! (RFC 1952, 2.2); the extra field `TN` stores the compressed size of a member, by which this
//! reader finds the next one without unpacking.

use crate::parallel::{self, Task};
use libdeflater::{CompressionLvl, Compressor, Crc, Decompressor};
use std::io::{self, Write};
use std::ops::Range;

/// Bytes of a block before compressing.
pub(crate) const BLOCK: usize = 1 << 20;

/// The level whose ratio is that of zlib's default.
const LEVEL: i32 = 6;

/// Magic, deflate, extra field; time 0, no hint, Unix.
const START: [u8; 10] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3];

/// The extra field: 8 bytes with one subfield `TN` of 4 bytes, the size of the whole member.
const EXTRA: [u8; 6] = [8, 0, b'T', b'N', 4, 0];

/// Bytes before the compressed data, and after it: checksum and size.
const HEAD: usize = START.len() + EXTRA.len() + 4;
const TAIL: usize = 8;

/// Blocks compressed at a time.
const BATCH: usize = 16;

/// Compresses the written bytes in blocks: a batch of blocks on all cores, while the previous batch
/// is written.
pub(crate) struct BlockWriter<W: Write + Send> {
    out: W,
    pending: Vec<u8>,
    compressed: Vec<Vec<u8>>,
}

impl<W: Write + Send> BlockWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            pending: Vec::new(),
            compressed: Vec::new(),
        }
    }

    pub(crate) fn get_ref(&self) -> &W {
        &self.out
    }

    /// Compresses the pending bytes and writes the rest.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.compress()?;
        self.compress()?;
        Ok(self.out)
    }

    fn compress(&mut self) -> io::Result<()> {
        let (before, out) = (&self.compressed, &mut self.out);
        let write = || {
            let written = before.iter().try_for_each(|member| out.write_all(member));
            written.map(|()| Vec::new())
        };
        let first: Task<'_, io::Result<Vec<u8>>> = Box::new(write);
        let blocks = self.pending.chunks(BLOCK);
        let blocks = blocks.map(|block| Box::new(move || member(block)) as Task<'_, _>);
        let mut done = parallel::all([first].into_iter().chain(blocks)).into_iter();
        done.next().transpose()?;
        self.compressed = done.collect::<io::Result<_>>()?;
        self.pending.clear();
        Ok(())
    }
}

impl<W: Write + Send> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let free = BATCH * BLOCK - self.pending.len();
        let bytes = &bytes[..bytes.len().min(free)];
        self.pending.extend_from_slice(bytes);
        if self.pending.len() == BATCH * BLOCK {
            self.compress()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One block as a gzip member.
fn member(block: &[u8]) -> io::Result<Vec<u8>> {
    let level = CompressionLvl::new(LEVEL).map_err(|_| io::Error::other("no such level"))?;
    let mut compressor = Compressor::new(level);
    let mut bytes = vec![0; HEAD + compressor.deflate_compress_bound(block.len()) + TAIL];
    let len = compressor
        .deflate_compress(block, &mut bytes[HEAD..])
        .map_err(|error| io::Error::other(format!("cannot compress: {error}")))?;
    bytes.truncate(HEAD + len);
    let mut crc = Crc::new();
    crc.update(block);
    bytes.extend_from_slice(&crc.sum().to_le_bytes());
    bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
    let size = (bytes.len() as u32).to_le_bytes();
    bytes[..START.len()].copy_from_slice(&START);
    bytes[START.len()..HEAD - 4].copy_from_slice(&EXTRA);
    bytes[HEAD - 4..HEAD].copy_from_slice(&size);
    Ok(bytes)
}

/// A block of a payload: the range of its gzip member, and its unpacked size.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    pub stored: Range<usize>,
    pub unpacked: usize,
}

/// The blocks of a payload that Tenon compressed, without trailing zeros; `None` for any other.
pub(crate) fn blocks(payload: &[u8]) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut position = 0;
    while payload.get(position).is_some_and(|&byte| byte != 0) {
        let rest = &payload[position..];
        let head = rest.get(..HEAD)?;
        if head[..START.len()] != START || head[START.len()..HEAD - 4] != EXTRA {
            return None;
        }
        let size = u32::from_le_bytes(*head.last_chunk()?) as usize;
        let member = rest.get(..size).filter(|_| size >= HEAD + TAIL)?;
        let unpacked = u32::from_le_bytes(*member.last_chunk()?) as usize;
        if unpacked > BLOCK {
            return None;
        }
        blocks.push(Block {
            stored: position..position + size,
            unpacked,
        });
        position += size;
    }
    let zeros = payload[position..].iter().all(|&byte| byte == 0);
    (zeros && !blocks.is_empty()).then_some(blocks)
}

/// Unpacks one block into `to`, whose length is the unpacked size of the block.
pub(crate) fn unpack(member: &[u8], to: &mut [u8]) -> Result<(), String> {
    let unpacked = Decompressor::new().gzip_decompress(member, to);
    match unpacked {
        Ok(len) if len == to.len() => Ok(()),
        Ok(len) => Err(format!(
            "a block of {len} bytes whose size field is {}",
            to.len()
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::bufread::MultiGzDecoder;
    use std::io::Read;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn any_gzip_reader_unpacks_it() {
        for len in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5, (BATCH + 1) * BLOCK] {
            let bytes: Vec<u8> = (0..len).map(|i| (i / 3 % 256) as u8).collect();
            let stored = compressed(&bytes);
            let mut read = Vec::new();
            if len > 0 {
                MultiGzDecoder::new(&stored[..])
                    .read_to_end(&mut read)
                    .unwrap();
            }
            assert!(read == bytes, "{len}");
        }
    }

    #[test]
    fn blocks_are_found_without_unpacking() {
        let bytes = vec![7; BLOCK + 100];
        let mut stored = compressed(&bytes);
        stored.extend_from_slice(&[0; 300]);
        let found = blocks(&stored).unwrap();
        assert_eq!(
            found.iter().map(|block| block.unpacked).collect::<Vec<_>>(),
            [BLOCK, 100]
        );
        let mut to = vec![0; 100];
        unpack(&stored[found[1].stored.clone()], &mut to).unwrap();
        assert_eq!(to, bytes[..100]);
        assert!(unpack(&stored[found[0].stored.clone()], &mut to).is_err());
        let last = stored.len() - 1;
        stored[last] = 1;
        assert_eq!(blocks(&stored), None);
        assert_eq!(blocks(&stored[..50]), None);
        assert_eq!(blocks(b""), None);
    }
}
