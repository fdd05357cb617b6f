//! Two futures at once.

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
