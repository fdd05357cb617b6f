//! A server without sockets, and readers of settings, for the fuzz target `serve`.

use crate::app::{App, Protocols};
use crate::model_loader::RepositoryOptions;
use crate::repository::Repository;
use crate::server::ServerOptions;
use crate::settings::Settings;
use crate::triton_config;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenon::{Control, Error, Result};
use tokio::runtime::{Builder, Runtime};

/// Reads settings of a model in TOML, and in the form of Triton.
///
/// # Errors
/// The problems of each, for what is malformed or out of range.
pub fn read_settings(text: &str) -> [Result<()>; 2] {
    [
        Settings::parse(text).map(drop),
        triton_config::parse(text, "model").map(drop),
    ]
}

/// A server that answers requests of a caller in the same process.
pub struct LocalServer {
    app: Arc<App>,
    runtime: Runtime,
}

impl LocalServer {
    /// Serves the models of a folder, with small limits.
    ///
    /// # Errors
    /// A folder that cannot be read; threads that cannot be started.
    pub fn new(folder: &Path) -> Result<Self> {
        let repository = Repository::new(folder, RepositoryOptions::default(), |_| {})?;
        repository.update(&Control::new());
        let mut options = ServerOptions::new(([127, 0, 0, 1], 0).into());
        options.max_body_bytes = 1 << 20;
        options.max_total_bytes = 4 << 20;
        options.request_timeout = Some(Duration::from_secs(1));
        let app = App::new(&options, Arc::new(repository));
        app.is_loaded.store(true, Ordering::Relaxed);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Ok(Self {
            app: Arc::new(app),
            runtime: runtime.map_err(|error| Error::io("a thread", "start", error))?,
        })
    }

    /// The names of the models that are served.
    pub fn models(&self) -> Vec<String> {
        let models = self.app.repository.served();
        models.iter().map(|model| model.name().to_owned()).collect()
    }

    /// The status of HTTP and the body of the answer to a request; `None` for a head that hyper refuses.
    pub fn answer(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<(u16, Bytes)> {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, &(name, value)| {
            request.header(name, value)
        });
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
        let address = ([127, 0, 0, 1], 0).into();
        Some(self.runtime.block_on(async {
            let answer = self
                .app
                .clone()
                .respond(request, address, Protocols::Both)
                .await;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await;
            (status, body.map(|body| body.to_bytes()).unwrap_or_default())
        }))
    }

    /// Whether all memory of requests is returned, and none is in flight.
    pub fn is_idle(&self) -> bool {
        self.app.body_memory.used() == 0 && self.app.in_flight.load(Ordering::Relaxed) == 0
    }
}
