//! The answers that a connection has not taken yet, and the time that its caller has to read them.
//!
//! The bytes of an answer are counted until they are in the buffer of the socket: hyper and h2 drop them then. So
//! a caller that opens no window of HTTP/2 is noticed as well as one that reads nothing at all.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The unread answers of one connection.
#[derive(Debug)]
pub struct UnreadAnswers {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When each part must be read, by its number.
    deadlines: BTreeMap<u64, Instant>,
    parts: u64,
}

/// The bytes for which a caller has a second more.
const BYTES_A_SECOND: usize = 1 << 20;

impl UnreadAnswers {
    /// None yet. A part of up to a MiB must be read within `limit`.
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            state: Mutex::default(),
        })
    }

    /// The body, whose bytes are counted until they are sent.
    pub fn count<B>(self: &Arc<Self>, body: B) -> CountedBody<B> {
        CountedBody {
            body,
            answers: self.clone(),
        }
    }

    /// Ends when the caller has had too little of an answer for too long.
    pub async fn overdue(&self) {
        loop {
            let now = Instant::now();
            let next = self.lock().deadlines.values().min().copied();
            match next {
                Some(deadline) if deadline <= now => return,
                // A part that is added meanwhile has a later deadline than the end of this pause.
                _ => sleep_until(next.unwrap_or(now + self.limit)).await,
            }
        }
    }

    fn add(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let more = Duration::from_secs((bytes.len() / BYTES_A_SECOND) as u64);
        let mut state = self.lock();
        let number = state.parts;
        state.parts += 1;
        let deadline = Instant::now() + self.limit + more;
        state.deadlines.insert(number, deadline);
        drop(state);
        Bytes::from_owner(Part {
            bytes,
            number,
            answers: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of an answer. It is dropped with the last reference to its bytes.
struct Part {
    bytes: Bytes,
    number: u64,
    answers: Arc<UnreadAnswers>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.answers.lock().deadlines.remove(&self.number);
    }
}

/// A body whose bytes are counted.
#[derive(Debug)]
pub struct CountedBody<B> {
    body: B,
    answers: Arc<UnreadAnswers>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| frame.map_data(|bytes| self.answers.add(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    #[test]
    fn bytes_are_unread_until_all_references_are_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let limit = Duration::from_millis(20);
            let answers = UnreadAnswers::new(limit);
            let mut body = answers.count(Full::new(Bytes::from_static(b"answer")));
            let frame = body.frame().await.unwrap().unwrap();
            let part = frame.into_data().unwrap().slice(3..);
            assert_eq!(part, "wer");
            // Nothing is sent: the time passes.
            let start = Instant::now();
            answers.overdue().await;
            assert!(start.elapsed() >= limit);
            drop(part);
            let waited = tokio::time::timeout(limit * 5, answers.overdue()).await;
            assert!(waited.is_err(), "all is sent");
        });
    }
}
