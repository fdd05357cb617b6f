//! Output of programs, which print without looking at failures.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A writer that keeps its first failure.
pub(super) struct WatchedOutput<W> {
    out: W,
    failure: Failure,
}

/// What a [`WatchedOutput`] failed with.
#[derive(Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl<W: Write> WatchedOutput<W> {
    pub(super) fn new(out: W) -> (Self, Failure) {
        let failure = Failure::default();
        let watched = Self {
            out,
            failure: failure.clone(),
        };
        (watched, failure)
    }

    fn keep<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            // A write that was interrupted is made again.
            if kind != io::ErrorKind::Interrupted {
                let first = self.failure.0.lock();
                first
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(error);
            }
            kind.into()
        })
    }
}

impl Failure {
    /// The first failure, if any.
    pub(super) fn take(&self) -> Option<io::Error> {
        let first = self.0.lock();
        first.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<W: Write> Write for WatchedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.keep(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.keep(flushed)
    }
}
