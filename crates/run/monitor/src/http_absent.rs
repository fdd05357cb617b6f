//! The endpoint for Prometheus in a build without the feature.

use std::convert::Infallible;
use std::net::SocketAddr;
use tenon_base::{Error, ErrorKind, Result};

/// The endpoint, which cannot be created in this build.
#[derive(Debug)]
pub struct MetricsServer(Infallible);

impl MetricsServer {
    /// Fails with the build command that enables it.
    pub fn listen(_port: u16) -> Result<Self> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this tenon was built without the endpoint for Prometheus",
        )
        .help("build it with `cargo build --release --features prometheus`"))
    }

    /// The address it listens on.
    pub fn address(&self) -> Result<SocketAddr> {
        match self.0 {}
    }

    /// Serves requests.
    pub fn serve(self, _page: impl Fn() -> String + Send + Sync + 'static) -> ! {
        match self.0 {}
    }
}
