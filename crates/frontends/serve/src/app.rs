//! What all requests of a server share, and what becomes of one request.

use crate::access::{Access, Action};
use crate::body::{self, BodyLimits, BodyMemory, ReadBody};
use crate::busy_poll::BusyPoll;
use crate::infer::{InferAnswer, InferRequest};
use crate::repository::Repository;
use crate::served_model::ServedModel;
use crate::server::ServerOptions;
use crate::shared_memory::SharedMemory;
use crate::statistics::RequestTimes;
use crate::status::{Refusal, Status};
use crate::upload::Upload;
use crate::{grpc, rest};
use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenon::Control;
use tokio::sync::watch;

/// The backend in the configurations of models, and the name of the server in metadata unless another one is set.
pub const NAME: &str = "tenon";

/// The extensions of the protocol that every server has.
const EXTENSIONS: [&str; 7] = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
];

/// Which protocols a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocols {
    /// REST only.
    Rest,
    /// gRPC only.
    Grpc,
    /// Both, by the content type.
    Both,
}

/// The state of a server.
pub struct App {
    /// The models.
    pub repository: Arc<Repository>,
    /// The name of the server in metadata.
    pub name: String,
    /// The tokens.
    pub access: Access,
    /// The memory of bodies.
    pub body_memory: Arc<BodyMemory>,
    /// Limits of one body.
    pub body_limits: BodyLimits,
    /// The shared memory that callers have registered.
    pub shared_memory: SharedMemory,
    /// Whether requests with the admin token may write models.
    pub has_uploads: bool,
    /// Keeps threads awake after requests.
    pub busy_poll: Arc<BusyPoll>,
    /// The longest time of a request, from its first byte to the answer.
    pub request_timeout: Option<Duration>,
    /// Whether the models are loaded.
    pub is_loaded: AtomicBool,
    /// Whether the server ends.
    pub is_draining: AtomicBool,
    /// True from the moment when streams accept no further requests.
    pub ending: watch::Sender<bool>,
    /// Requests for inference that are not answered.
    pub in_flight: AtomicU64,
    /// Requests for inference whose callers went away.
    pub cancelled: AtomicU64,
    /// Open connections.
    pub connections: AtomicU64,
    /// Requests that were refused before a model was known, by status.
    pub refused: Mutex<BTreeMap<Status, u64>>,
}

/// One request as its connection has it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The address of the listener.
    pub address: SocketAddr,
    /// When its head was read.
    pub time: Instant,
}

impl App {
    /// The state of a server at its start.
    pub fn new(options: &ServerOptions, repository: Arc<Repository>) -> Self {
        let body_memory = BodyMemory::new(options.max_total_bytes);
        let shared_memory = SharedMemory::new(
            options.access.has_shared_memory(),
            options.max_body_bytes,
            body_memory.clone(),
        );
        Self {
            shared_memory,
            repository,
            name: options.name.clone(),
            access: options.access.clone(),
            body_memory,
            body_limits: BodyLimits {
                bytes: options.max_body_bytes,
                time: options.body_timeout,
            },
            has_uploads: options.has_uploads,
            busy_poll: BusyPoll::new(options.busy_poll),
            request_timeout: options.request_timeout,
            is_loaded: false.into(),
            is_draining: false.into(),
            ending: watch::Sender::new(false),
            in_flight: 0.into(),
            cancelled: 0.into(),
            connections: 0.into(),
            refused: Mutex::default(),
        }
    }

    /// Answers a request.
    pub async fn respond<B>(
        self: Arc<Self>,
        request: Request<B>,
        address: SocketAddr,
        protocols: Protocols,
    ) -> Response<tonic::body::Body>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let arrival = Arrival {
            address,
            time: Instant::now(),
        };
        let kind = request
            .headers()
            .get(CONTENT_TYPE)
            .map(HeaderValue::as_bytes);
        let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
        match (is_grpc, protocols) {
            (true, Protocols::Grpc | Protocols::Both) => {
                grpc::respond(self, request, arrival).await
            }
            (true, Protocols::Rest) => grpc::refuse(Refusal::new(
                Status::Unsupported,
                "this port has the REST protocol only",
            )),
            (false, Protocols::Grpc) => rest::refuse(&Refusal::new(
                Status::NotFound,
                "this port has the gRPC protocol only",
            )),
            (false, _) => rest::respond(&self, request, arrival).await,
        }
    }

    /// Checks whether a request is allowed.
    ///
    /// # Errors
    /// As [`Access::check`].
    pub fn check<B>(
        &self,
        request: &Request<B>,
        arrival: &Arrival,
        action: Action,
    ) -> Result<(), Refusal> {
        let checked = self.access.check(request, arrival.address, action);
        checked.inspect_err(|refusal| self.count_refused(refusal.status))
    }

    /// The extensions of the protocol that callers may use.
    pub fn extensions(&self) -> Vec<&'static str> {
        let memory = self.shared_memory.is_allowed();
        let memory = memory.then_some("system_shared_memory");
        EXTENSIONS.into_iter().chain(memory).collect()
    }

    /// Whether requests for inference are served.
    pub fn is_ready(&self) -> bool {
        self.is_loaded.load(Ordering::Relaxed) && !self.is_draining.load(Ordering::Relaxed)
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// As [`body::read`].
    pub async fn read<B>(&self, headers: &HeaderMap, body: B) -> Result<ReadBody, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let read = body::read(headers, body, self.body_limits, &self.body_memory).await;
        read.inspect_err(|refusal| self.count_refused(refusal.status))
    }

    /// Executes a request: reads it with `decode`, runs the model, writes the answer with `encode`. Dropping the future
    /// cancels the execution.
    ///
    /// # Errors
    /// What makes the request fail; it is counted with the model.
    pub async fn infer<T>(
        &self,
        model: &ServedModel,
        arrival: &Arrival,
        caller_timeout: Option<Duration>,
        size: usize,
        decode: impl FnOnce() -> Result<InferRequest, Refusal>,
        encode: impl FnOnce(&InferAnswer) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut flight = Flight::new(self);
        let done = async {
            let start = Instant::now();
            let request = body::heavy(size, decode)?;
            let input = start.elapsed();
            let requested = request.timeout_micros.map(Duration::from_micros);
            let timeouts = [
                requested.or(model.timeout()),
                caller_timeout,
                self.request_timeout,
            ];
            let timeout = timeouts.into_iter().flatten().min();
            let deadline = timeout.and_then(|timeout| arrival.time.checked_add(timeout));
            let (answer, queue, compute) = model.infer(request, deadline).await?;
            let start = Instant::now();
            let bytes = answer.outputs.iter().map(|o| o.tensor.bytes().len());
            let written = body::heavy(bytes.sum(), || {
                answer.write_regions()?;
                encode(&answer)
            })?;
            let times = RequestTimes {
                total: arrival.time.elapsed(),
                queue,
                input,
                compute,
                output: start.elapsed(),
            };
            model.statistics().answered(&times);
            Ok(written)
        };
        let done = done.await;
        flight.is_answered = true;
        if let Err(refusal) = &done {
            let refusal: &Refusal = refusal;
            model
                .statistics()
                .refused(refusal.status, arrival.time.elapsed());
        }
        done
    }

    /// Loads a model, or the files that the request brings.
    ///
    /// # Errors
    /// What `read` refuses; uploads that the server does not allow; as [`Repository::load`] and [`Repository::upload`].
    pub fn load(
        &self,
        name: &str,
        read: impl FnOnce() -> Result<Upload, Refusal>,
    ) -> Result<(), Refusal> {
        let control = Control::new();
        let load = || {
            let upload = read()?;
            match (upload.is_empty(), self.has_uploads) {
                (true, _) => self.repository.load(name, upload.max_batch_size, &control),
                (false, true) => self.repository.upload(name, &upload, &control),
                (false, false) => {
                    let text = "this server loads models of its folder only (--allow-uploads)";
                    Err(Refusal::new(Status::Unsupported, text))
                }
            }
        };
        // Triton's words, which clients look for.
        load().map_err(|refusal| refusal.at(format_args!("failed to load '{name}'")))
    }

    /// Counts a refused request that no model counts.
    pub fn count_refused(&self, status: Status) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(status).or_default() += 1;
    }
}

/// A request in flight. One that is dropped without an answer is counted as cancelled.
struct Flight<'a> {
    app: &'a App,
    is_answered: bool,
}

impl<'a> Flight<'a> {
    fn new(app: &'a App) -> Self {
        app.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            app,
            is_answered: false,
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.app.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_answered {
            self.app.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
