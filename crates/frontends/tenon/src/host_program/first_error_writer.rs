//! A writer for programs, which ignore errors of printing.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A writer that keeps its first error.
pub(super) struct FirstErrorWriter<W> {
    out: W,
    failure: Failure,
}

/// The first error of a [`FirstErrorWriter`].
#[derive(Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl<W: Write> FirstErrorWriter<W> {
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
            // An interrupted write is repeated.
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
    /// The first error, if any.
    pub(super) fn take(&self) -> Option<io::Error> {
        let first = self.0.lock();
        first.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<W: Write> Write for FirstErrorWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.keep(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.keep(flushed)
    }
}
