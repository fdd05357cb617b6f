//! The messages in the body of a call: each after a byte that says whether it is packed, and its length in four
//! bytes, big-endian (gRPC over HTTP/2, "Length-Prefixed-Message").

use crate::body::{self, BodyLimits, BodyMemory, Encoding, ReadBody};
use crate::status::Refusal;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::HeaderName;
use prost::Message;
use std::io::Write;
use std::sync::Arc;

/// How the messages of a caller are packed.
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// What a caller can unpack.
const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The bytes before a message.
const PREFIX: usize = 5;

/// Reads the messages of a body within limits of size, time and the memory of all bodies.
pub struct MessageReader<B> {
    body: B,
    /// Bytes after the last message.
    rest: Bytes,
    encoding: Option<Encoding>,
    limits: BodyLimits,
    memory: Arc<BodyMemory>,
}

impl<B: Body<Data = Bytes> + Unpin> MessageReader<B> {
    /// A reader of a body.
    ///
    /// # Errors
    /// An encoding other than gzip and deflate.
    pub fn new(
        headers: &HeaderMap,
        body: B,
        limits: BodyLimits,
        memory: &Arc<BodyMemory>,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            body,
            rest: Bytes::new(),
            encoding: Encoding::of(headers, &ENCODING)?,
            limits,
            memory: memory.clone(),
        })
    }

    /// The only message of a body.
    ///
    /// # Errors
    /// As [`Self::next`]; no message, or several.
    pub async fn only(mut self) -> Result<ReadBody, Refusal> {
        let limit = self.limits.time;
        let read = async {
            let message = self.next().await?;
            let message = message.ok_or_else(|| Refusal::invalid("the call has no message"))?;
            match self.has(1).await? {
                true => Err(Refusal::invalid("more than one message: expected one")),
                false => Ok(message),
            }
        };
        let read = tokio::time::timeout(limit, read).await;
        read.unwrap_or_else(|_| Err(body::too_slow(limit)))
    }

    /// The next message, unpacked; `None` after the last one.
    ///
    /// # Errors
    /// A message that is too large, comes too slowly after its first byte, ends early or is not packed as its header
    /// says; too many bytes in flight.
    pub async fn next(&mut self) -> Result<Option<ReadBody>, Refusal> {
        if !self.has(1).await? {
            return Ok(None);
        }
        let limit = self.limits.time;
        let message = tokio::time::timeout(limit, self.message()).await;
        message.map_err(|_| body::too_slow(limit))?.map(Some)
    }

    async fn message(&mut self) -> Result<ReadBody, Refusal> {
        let cut = || Refusal::invalid("the message ends early");
        if !self.has(PREFIX).await? {
            return Err(cut());
        }
        let is_packed = match self.rest.get_u8() {
            0 => false,
            1 => true,
            other => {
                let text = format!("the first byte of a message is {other}: expected 0 or 1");
                return Err(Refusal::invalid(text));
            }
        };
        let length = self.rest.get_u32() as usize;
        let limit = self.limits.bytes;
        if length > limit {
            return Err(body::too_large(limit));
        }
        let mut reservation = self.memory.reserve();
        reservation.grow_to(length)?;
        if !self.has(length).await? {
            return Err(cut());
        }
        let bytes = self.rest.split_to(length);
        let bytes = match (is_packed, self.encoding) {
            (false, _) => bytes,
            (true, Some(encoding)) => body::heavy(bytes.len(), || {
                encoding.inflate(&bytes, limit, &mut reservation)
            })?,
            (true, None) => {
                return Err(Refusal::invalid(
                    "the message is packed, and no grpc-encoding says how",
                ));
            }
        };
        Ok(ReadBody { bytes, reservation })
    }

    /// Reads until `rest` has this many bytes, and more by one frame of HTTP at most; `false` if the body ends before.
    async fn has(&mut self, count: usize) -> Result<bool, Refusal> {
        let mut all = BytesMut::new();
        while self.rest.len() + all.len() < count {
            let Some(frame) = self.body.frame().await else {
                return Ok(false);
            };
            let frame = frame.map_err(|_| Refusal::invalid("the body ended early"))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            // A message in one frame, the usual one, is not copied.
            if self.rest.is_empty() && all.is_empty() {
                self.rest = data;
                continue;
            }
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut self.rest));
            }
            all.extend_from_slice(&data);
        }
        if !all.is_empty() {
            self.rest = all.freeze();
        }
        Ok(true)
    }
}

/// How the answers of a call are packed: with gzip, if the messages of the caller are packed and it accepts gzip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerPacking {
    is_gzip: bool,
}

impl AnswerPacking {
    /// That of a call with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let packs = text(ENCODING).is_some_and(|name| !matches!(name.trim(), "" | "identity"));
        let accepts = |names: &str| names.split(',').any(|name| name.trim() == "gzip");
        Self {
            is_gzip: packs && text(ACCEPTED).is_some_and(accepts),
        }
    }

    /// The headers that name the encodings.
    pub fn write_headers(self, headers: &mut HeaderMap) {
        use hyper::header::HeaderValue;
        headers.insert(ACCEPTED, HeaderValue::from_static("identity,deflate,gzip"));
        if self.is_gzip {
            headers.insert(ENCODING, HeaderValue::from_static("gzip"));
        }
    }

    /// A message with its prefix.
    pub fn frame(self, message: &impl Message) -> Bytes {
        let length = message.encoded_len();
        let mut frame = BytesMut::with_capacity(PREFIX + length);
        frame.put_bytes(0, PREFIX);
        // The buffer has space for the message; the lack of it is the only reason to fail.
        let _ = message.encode(&mut frame);
        if self.is_gzip {
            frame = body::heavy(length, || packed(&frame[PREFIX..]));
        }
        let length = (frame.len() - PREFIX) as u32;
        frame[0] = self.is_gzip.into();
        frame[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        frame.freeze()
    }
}

/// The packed bytes after space for a prefix.
fn packed(bytes: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(PREFIX + bytes.len() / 2);
    frame.put_bytes(0, PREFIX);
    let mut encoder = GzEncoder::new(frame.writer(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder
        .finish()
        .map(bytes::buf::Writer::into_inner)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::messages::ModelRequest;
    use crate::status::Status;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    /// A body that arrives in parts.
    struct Parts(VecDeque<Bytes>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
        }
    }

    /// The messages of a body that arrives in parts of this many bytes.
    fn read(
        headers: &HeaderMap,
        bytes: &[u8],
        part: usize,
        limit: usize,
    ) -> Result<Vec<Bytes>, Status> {
        let parts = bytes.chunks(part).map(Bytes::copy_from_slice);
        let body = Parts(parts.collect());
        let limits = BodyLimits {
            bytes: limit,
            time: Duration::from_secs(5),
        };
        let memory = BodyMemory::new(1 << 20);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let read = runtime.unwrap().block_on(async {
            let mut reader = MessageReader::new(headers, body, limits, &memory)?;
            let mut messages = Vec::new();
            while let Some(message) = reader.next().await? {
                messages.push(message.bytes);
            }
            Ok(messages)
        });
        assert_eq!(memory.used(), 0, "the memory is returned");
        read.map_err(|refusal: Refusal| refusal.status)
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let message = |name: &str| ModelRequest {
            name: name.into(),
            version: String::new(),
        };
        let long = message(&"name ".repeat(1000));
        let mut caller = HeaderMap::new();
        let plain = AnswerPacking::of(&caller);
        caller.insert(ENCODING, "gzip".parse().unwrap());
        assert_eq!(AnswerPacking::of(&caller), plain, "it does not accept gzip");
        caller.insert(ACCEPTED, "identity, deflate, gzip".parse().unwrap());
        let packing = AnswerPacking::of(&caller);
        assert!(packing.frame(&long).len() < 100);
        for packing in [plain, packing] {
            let written = [packing.frame(&message("a")), packing.frame(&long)].concat();
            for part in [1, 4, 7, 100_000] {
                let messages = read(&caller, &written, part, 10_000).unwrap();
                assert_eq!(messages.len(), 2);
                assert_eq!(
                    ModelRequest::decode(messages[0].clone()).unwrap(),
                    message("a")
                );
                assert_eq!(ModelRequest::decode(messages[1].clone()).unwrap(), long);
                assert_eq!(read(&caller, &written, part, 1000), Err(Status::TooLarge));
            }
            for cut in 1..written.len().min(30) {
                let left = &written[..written.len() - cut];
                assert_eq!(
                    read(&caller, left, 16, 10_000),
                    Err(Status::Invalid),
                    "{cut}"
                );
            }
        }
        let headers = HeaderMap::new();
        let unknown = read(&headers, &packing.frame(&long), 16, 10_000);
        assert_eq!(
            unknown,
            Err(Status::Invalid),
            "packed without grpc-encoding"
        );
        assert_eq!(read(&caller, &[2, 0, 0, 0, 0], 5, 10), Err(Status::Invalid));
        assert_eq!(
            read(&caller, &[0, 255, 255, 255, 255], 5, 10),
            Err(Status::TooLarge)
        );
        caller.insert(ENCODING, "zstd".parse().unwrap());
        assert_eq!(read(&caller, &[], 1, 10), Err(Status::Encoding));
    }
}
