//! Two futures at once, and the first part of one.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// The one of two futures that is done first; the other is dropped.
#[derive(Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first argument.
    One(A),
    /// The second argument.
    Other(B),
}

/// Polls two futures until one of them is done.
pub async fn first<A: Future, B: Future>(one: A, other: B) -> First<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if let Poll::Ready(done) = one.as_mut().poll(context) {
            return Poll::Ready(First::One(done));
        }
        other.as_mut().poll(context).map(First::Other)
    })
    .await
}

/// Polls a future once, and returns the rest of it: what it does before it first waits is done in the order of these calls.
pub async fn begun<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let mut work = Box::pin(work);
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    async move {
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => work.await,
        }
    }
}
