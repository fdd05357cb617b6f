//! The payload of a package: a tar archive, plain or compressed.

use crate::error::{collect, invalid};
use crate::gzip::{self, Block};
use crate::{Limits, parallel};
use flate2::bufread::GzDecoder;
use std::io::Read;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_tensor::{Buffer, BufferMut};

/// The magic number of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes unpacked between two checks of [`Control`].
const STEP: usize = 1 << 20;

/// Whether a payload is compressed, independent of the header (neff 1.2).
pub(crate) fn is_compressed(payload: &[u8]) -> bool {
    payload.starts_with(&GZIP)
}

/// Unpacks gzip members, which zeros may follow. Memory use follows the unpacked bytes, not the size
/// fields of the stream.
pub(crate) fn unpack(payload: &[u8], limits: &Limits, control: &Control) -> Result<Buffer> {
    let limit = limits.unpacked(payload.len());
    let unpacked = match gzip::blocks(payload) {
        Some(blocks) => in_blocks(payload, &blocks, limit, control),
        None => streaming(payload, limit, control),
    };
    unpacked.map_err(|error| error.at(Location::member("payload")))
}

fn in_blocks(payload: &[u8], blocks: &[Block], limit: u64, control: &Control) -> Result<Buffer> {
    let total: usize = blocks.iter().map(|block| block.unpacked).sum();
    within(total, limit)?;
    let mut archive = BufferMut::zeroed(total)?;
    let mut rest = &mut archive[..];
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(block.unpacked);
        parts.push((&block.stored, part));
        rest = after;
    }
    let unpacked = parallel::map(parts, |(stored, part)| {
        if control.is_cancelled() {
            return Ok(());
        }
        gzip::unpack(&payload[stored.clone()], part).map_err(|text| {
            let error = invalid(format!("the compressed payload is invalid: {text}"));
            error.at(Location::offset(stored.start as u64))
        })
    });
    control.progress("unpack", total as u64, total as u64)?;
    collect(unpacked)?;
    Ok(archive.freeze())
}

fn streaming(payload: &[u8], limit: u64, control: &Control) -> Result<Buffer> {
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let mut total = 0usize;
    let mut rest = payload;
    while is_compressed(rest) {
        let mut decoder = GzDecoder::new(rest);
        loop {
            control.progress("unpack", total as u64, 0)?;
            let mut chunk = Vec::with_capacity(STEP);
            let read = (&mut decoder).take(STEP as u64).read_to_end(&mut chunk);
            read.map_err(|error| {
                invalid(format!("the compressed payload is invalid: {error}")).source(error)
            })?;
            if chunk.is_empty() {
                break;
            }
            total += chunk.len();
            within(total, limit)?;
            chunks.push(chunk);
        }
        rest = decoder.into_inner();
    }
    if rest.iter().any(|&byte| byte != 0) {
        let error = invalid("bytes after the compressed payload");
        return Err(error.at(Location::offset((payload.len() - rest.len()) as u64)));
    }
    let mut archive = BufferMut::zeroed(total)?;
    let mut to = &mut archive[..];
    for chunk in chunks {
        let (part, after) = to.split_at_mut(chunk.len());
        part.copy_from_slice(&chunk);
        to = after;
    }
    Ok(archive.freeze())
}

fn within(total: usize, limit: u64) -> Result<()> {
    if total as u64 <= limit {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::OutOfMemory,
        "the unpacked payload exceeds the limit",
    );
    Err(error
        .expected(format_args!("at most {limit} bytes"))
        .help("raise the limit (--max-unpacked) if the package is trusted"))
}
