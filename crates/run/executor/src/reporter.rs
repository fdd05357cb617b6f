//! Reporting of errors after the kernel has returned.

use crate::{Diagnostic, Host, Value};
use tenon_base::Error;
use tenon_bef::{KernelLocation, Name};

/// Reports errors at the location of one kernel, for results that are computed asynchronously.
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

    /// Reports to the host's diagnostic handler, and returns the error as the value of a result.
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
