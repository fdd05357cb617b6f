//! Calls with a stream of requests and a stream of answers.

use super::frames::{AnswerPacking, MessageReader};
use super::{Answer, Call, decoded, headed, late, trailers};
use crate::first::{First, begun, first};
use crate::status::{Refusal, Status};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame};
use prost::Message;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout_at;

/// Answers each message of a call, at most `concurrent` of them at a time, in the order of the messages. The work of each
/// begins in that order too. `work` has the message and its size. When the caller goes away, all work is cancelled.
pub fn respond<B, M, R, W>(
    call: Call,
    headers: &HeaderMap,
    reader: MessageReader<B>,
    concurrent: usize,
    work: impl Fn(M, usize) -> W + Send + 'static,
) -> Answer
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    M: Message + Default + Send + 'static,
    R: Message + 'static,
    W: Future<Output = R> + Send + 'static,
{
    let packing = AnswerPacking::of(headers);
    // Further answers wait in their tasks, which are limited, until the caller takes them.
    let (sender, receiver) = mpsc::channel(1);
    let driver = tokio::spawn(async move {
        let deadline = call
            .timeout
            .and_then(|limit| call.arrival.time.checked_add(limit));
        let drive = drive(&call, reader, packing, concurrent, work, &sender);
        let ended = match deadline {
            None => drive.await,
            Some(deadline) => timeout_at(deadline.into(), drive)
                .await
                .unwrap_or_else(|_| Err(late())),
        };
        if let Err(refusal) = &ended {
            call.app.count_refused(refusal.status);
        }
        // The caller may be gone.
        let _ = sender.send(Frame::trailers(trailers(ended.err()))).await;
    });
    let body = AnswerStream { receiver, driver };
    headed(tonic::body::Body::new(body), packing)
}

async fn drive<B, M, R, W>(
    call: &Call,
    mut reader: MessageReader<B>,
    packing: AnswerPacking,
    concurrent: usize,
    work: impl Fn(M, usize) -> W,
    answers: &mpsc::Sender<Frame<Bytes>>,
) -> Result<(), Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    M: Message + Default,
    R: Message + 'static,
    W: Future<Output = R> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(concurrent));
    let mut running = JoinSet::new();
    // Dropped when the answer to the request before is sent; there is none before the first.
    let (_, mut sent_before) = oneshot::channel::<()>();
    let mut ending = call.app.ending.subscribe();
    let ended = loop {
        // The semaphore is never closed.
        let permit = free.clone().acquire_owned().await;
        while running.try_join_next().is_some() {}
        let end = async {
            let _ = ending.wait_for(|is_ending| *is_ending).await;
        };
        let message = match first(reader.next(), end).await {
            First::One(Ok(Some(message))) => message,
            First::One(Ok(None)) => break Ok(()),
            First::One(Err(refusal)) => break Err(refusal),
            First::Other(()) => {
                let text = "the server ends: it accepts no further requests of the stream";
                break Err(Refusal::new(Status::Unavailable, text));
            }
        };
        let size = message.bytes.len();
        let work = match decoded(message.bytes) {
            Err(refusal) => break Err(refusal),
            // Requests of a sequence, and of a queue, have their turns in the order in which they are polled first.
            Ok(decoded) => begun(work(decoded, size)).await,
        };
        let (answers, reservation) = (answers.clone(), message.reservation);
        let (sent, is_sent) = oneshot::channel();
        let turn = std::mem::replace(&mut sent_before, is_sent);
        running.spawn(async move {
            let frame = packing.frame(&work.await);
            drop(reservation);
            // Its sender is dropped, never used.
            let _ = turn.await;
            // The caller may be gone.
            let _ = answers.send(Frame::data(frame)).await;
            drop((sent, permit));
        });
    };
    while running.join_next().await.is_some() {}
    ended
}

/// The answers of a stream. Dropping it cancels what is executed for them.
struct AnswerStream {
    receiver: mpsc::Receiver<Frame<Bytes>>,
    driver: JoinHandle<()>,
}

impl Body for AnswerStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
