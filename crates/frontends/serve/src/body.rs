//! The body of a request, read within limits of size, time and the memory of all bodies.

use crate::status::{Refusal, Status};
use bytes::{Bytes, BytesMut};
use flate2::read::{GzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The memory that the bodies of all requests may take together.
#[derive(Debug)]
pub struct BodyMemory {
    used: AtomicUsize,
    limit: usize,
}

/// The part of the memory that one request has; dropping it returns it.
#[derive(Debug)]
pub struct Reservation {
    memory: Arc<BodyMemory>,
    bytes: usize,
}

/// A body of which the request holds the memory.
#[derive(Debug)]
pub struct ReadBody {
    /// The bytes, inflated.
    pub bytes: Bytes,
    /// Their memory, and that of the tensors that they become.
    pub reservation: Reservation,
}

/// Limits of one body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The most bytes, before and after inflating.
    pub bytes: usize,
    /// The longest time from the first byte to the last.
    pub time: Duration,
}

/// Bytes from which on work on a body is moved off the threads that serve connections.
const LARGE: usize = 256 << 10;

impl BodyMemory {
    /// Memory of this many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// No bytes yet.
    pub fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation {
            memory: self.clone(),
            bytes: 0,
        }
    }
}

impl Reservation {
    /// Grows to at least `bytes`.
    ///
    /// # Errors
    /// [`Status::QueueFull`] when other requests have the memory.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        let limit = self.memory.limit;
        let add = |used: usize| used.checked_add(more).filter(|&sum| sum <= limit);
        let used = &self.memory.used;
        let added = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if added.is_err() {
            let text = "the requests in flight take all memory for bodies: send it again later";
            return Err(Refusal::new(Status::QueueFull, text));
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads a body.
///
/// # Errors
/// A body that is too large, by its declared length before any of it is read; one that comes too slowly, ends early
/// or is no data of its content encoding; too many bytes in flight.
pub async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: BodyLimits,
    memory: &Arc<BodyMemory>,
) -> Result<ReadBody, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut reservation = memory.reserve();
    if let Some(length) = declared_length(headers)? {
        if length > limits.bytes {
            return Err(too_large(limits.bytes));
        }
        reservation.grow_to(length)?;
    }
    let encoding = Encoding::of(headers, &CONTENT_ENCODING)?;
    let collected = collect(body, limits.bytes, &mut reservation);
    let collected = tokio::time::timeout(limits.time, collected).await;
    let bytes = collected.map_err(|_| too_slow(limits.time))??;
    let bytes = match encoding {
        None => bytes,
        Some(encoding) => heavy(bytes.len(), || {
            encoding.inflate(&bytes, limits.bytes, &mut reservation)
        })?,
    };
    Ok(ReadBody { bytes, reservation })
}

/// Runs work on a body of this size; that on a large one does not stop the thread's other connections.
pub fn heavy<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    match bytes > LARGE {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

async fn collect<B>(
    mut body: B,
    limit: usize,
    reservation: &mut Reservation,
) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::invalid("the body ended early"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = first.len() + all.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        reservation.grow_to(length)?;
        // A body of one frame, the usual one, is not copied.
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn declared_length(headers: &HeaderMap) -> Result<Option<usize>, Refusal> {
    let Some(value) = headers.get(CONTENT_LENGTH) else {
        return Ok(None);
    };
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    let malformed = || Refusal::invalid("Content-Length is no length");
    length.ok_or_else(malformed).map(Some)
}

/// The refusal of a request of more bytes than the limit.
pub fn too_large(limit: usize) -> Refusal {
    let text = format!("the request has more than {limit} bytes, the limit of the server");
    Refusal::new(Status::TooLarge, text)
}

/// The refusal of a body that comes too slowly.
pub fn too_slow(limit: Duration) -> Refusal {
    let text = format!("the body took longer than {} s", limit.as_secs_f64());
    Refusal::new(Status::SlowBody, text)
}

/// How a body or a message of gRPC is packed.
#[derive(Debug, Clone, Copy)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// The zlib format, RFC 1950.
    Deflate,
}

impl Encoding {
    /// The encoding that a header names; `None` for bytes that are not packed.
    ///
    /// # Errors
    /// [`Status::Encoding`].
    pub fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, Refusal> {
        let Some(value) = headers.get(name) else {
            return Ok(None);
        };
        let text = value
            .to_str()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        match text.as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            other => {
                let text = format!("the header {name} is {other:?}: expected gzip or deflate");
                Err(Refusal::new(Status::Encoding, text))
            }
        }
    }

    /// Unpacks bytes, within limits.
    ///
    /// # Errors
    /// Bytes that are no data of the encoding; too many; too many in flight.
    pub fn inflate(
        self,
        packed: &[u8],
        limit: usize,
        reservation: &mut Reservation,
    ) -> Result<Bytes, Refusal> {
        let mut reader: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(GzDecoder::new(packed)),
            Self::Deflate => Box::new(ZlibDecoder::new(packed)),
        };
        let mut bytes = Vec::new();
        let mut block = vec![0; 64 << 10];
        loop {
            let read = reader.read(&mut block).map_err(|_| {
                Refusal::invalid("the data is not packed as its header says, or ends early")
            })?;
            if read == 0 {
                return Ok(bytes.into());
            }
            if bytes.len() + read > limit {
                return Err(too_large(limit));
            }
            reservation.grow_to(packed.len() + bytes.len() + read)?;
            bytes.extend_from_slice(&block[..read]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use http_body_util::Full;
    use std::io::Write;

    fn read_body(
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
        limit: usize,
        memory: usize,
    ) -> Result<Bytes, Status> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let limits = BodyLimits {
            bytes: limit,
            time: Duration::from_secs(5),
        };
        let memory = BodyMemory::new(memory);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let body = Full::new(body.into());
        let read = runtime.unwrap().block_on(read(&map, body, limits, &memory));
        let read = read
            .map(|read| read.bytes)
            .map_err(|refusal| refusal.status);
        assert_eq!(memory.used(), 0, "the memory is returned");
        read
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn bodies_are_inflated() {
        assert_eq!(read_body(&[], "abc", 3, 3).unwrap(), "abc");
        let packed = gzip(b"hello");
        let read = read_body(&[("content-encoding", "gzip")], packed.clone(), 100, 200);
        assert_eq!(read.unwrap(), "hello");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"hello").unwrap();
        let deflated = encoder.finish().unwrap();
        let read = read_body(&[("content-encoding", "deflate")], deflated, 100, 200);
        assert_eq!(read.unwrap(), "hello");
        let cut = packed[..packed.len() - 9].to_vec();
        let read = read_body(&[("content-encoding", "gzip")], cut, 100, 200);
        assert_eq!(read, Err(Status::Invalid));
        let read = read_body(&[("content-encoding", "br")], packed, 100, 200);
        assert_eq!(read, Err(Status::Encoding));
    }

    #[test]
    fn bombs_are_refused() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let headers = [("content-encoding", "gzip")];
        assert_eq!(
            read_body(&headers, bomb.clone(), 1 << 20, 1 << 30),
            Err(Status::TooLarge)
        );
        assert_eq!(
            read_body(&headers, bomb, 1 << 30, 1 << 20),
            Err(Status::QueueFull)
        );
    }

    #[test]
    fn sizes_are_limited() {
        assert_eq!(read_body(&[], "abcd", 3, 100), Err(Status::TooLarge));
        assert_eq!(read_body(&[], "abcd", 100, 3), Err(Status::QueueFull));
        let declared = |length| read_body(&[("content-length", length)], "", 3, 100);
        assert_eq!(declared("4"), Err(Status::TooLarge));
        assert_eq!(declared("99999999999999999999"), Err(Status::Invalid));
        assert_eq!(declared("x"), Err(Status::Invalid));
    }
}
