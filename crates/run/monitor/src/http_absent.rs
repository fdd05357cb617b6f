//! The endpoint that Prometheus reads, in a build without it.

use std::convert::Infallible;
use std::net::SocketAddr;
use tenon_base::{Error, ErrorKind, Result};

/// Stands for the endpoint; there is none.
#[derive(Debug)]
pub struct MetricsServer(Infallible);

impl MetricsServer {
    /// An error that says how to build it.
    pub fn listen(_port: u16) -> Result<Self> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this tenon was built without the page for Prometheus",
        )
        .help("build it with `cargo build --release --features prometheus`"))
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        match self.0 {}
    }

    /// Answers requests.
    pub fn serve(self, _page: impl Fn() -> String + Send + Sync + 'static) -> ! {
        match self.0 {}
    }
}
