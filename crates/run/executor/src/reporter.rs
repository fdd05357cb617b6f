//! Telling of an error after the kernel has returned.

use crate::{Diagnostic, Host, Value};
use tenon_base::Error;
use tenon_bef::{KernelLocation, Name};

/// Tells of an error at the place of one kernel, for results that are computed later.
#[derive(Clone)]
pub struct Reporter {
    host: Host,
    location: KernelLocation,
    kernel: Name,
}

impl Reporter {
    pub(crate) fn new(host: Host, location: KernelLocation, kernel: Name) -> Self {
        Self {
            host,
            location,
            kernel,
        }
    }

    /// Tells the host's handler of diagnostics, and answers the value that the result becomes.
    pub fn report(&self, error: Error) -> Value {
        self.host.diagnose(&Diagnostic {
            location: &self.location,
            kernel: &self.kernel,
            error: &error,
        });
        Value::error(error)
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }
}
