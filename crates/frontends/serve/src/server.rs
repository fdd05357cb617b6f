//! The listeners of a server, its connections, and its end.

use crate::access::Access;
use crate::app::{App, Protocols};
use crate::body::{BodyLimits, BodyMemory};
use crate::repository::Repository;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenon::{Control, Error, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle as Task;
use tokio::time::timeout;

/// How a server listens, and its limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Where REST is served; and gRPC, without a separate address.
    pub http: SocketAddr,
    /// A separate address of gRPC.
    pub grpc: Option<SocketAddr>,
    /// The tokens.
    pub access: Access,
    /// Whether other machines may use the server without a token.
    pub insecure: bool,
    /// The most bytes of a request.
    pub max_body_bytes: usize,
    /// The most bytes of all requests in flight.
    pub max_total_bytes: usize,
    /// The longest time for a body.
    pub body_timeout: Duration,
    /// The longest time of a request; none by default.
    pub request_timeout: Option<Duration>,
    /// The most open connections; further ones wait to be accepted.
    pub max_connections: usize,
    /// Threads that serve connections.
    pub connection_threads: usize,
    /// The time between two looks at the model folder; `None` for one look.
    pub poll: Option<Duration>,
    /// The time from the start of the end until connections are refused, in which the server is not ready but serves.
    pub drain_delay: Duration,
    /// The longest time for requests in flight at the end; then they are cancelled.
    pub drain_timeout: Duration,
}

impl ServerOptions {
    /// The defaults for an address.
    pub fn new(http: SocketAddr) -> Self {
        Self {
            http,
            grpc: None,
            access: Access::default(),
            insecure: false,
            max_body_bytes: 64 << 20,
            max_total_bytes: 1 << 30,
            body_timeout: Duration::from_secs(60),
            request_timeout: None,
            max_connections: 20_000,
            connection_threads: 1,
            poll: Some(Duration::from_secs(1)),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// A server that runs. Dropping it cancels all requests; [`Self::drain`] finishes them.
pub struct Server {
    runtime: Option<Runtime>,
    app: Arc<App>,
    listeners: Vec<Task<()>>,
    http: SocketAddr,
    grpc: Option<SocketAddr>,
    graceful: Arc<Graceful>,
    loader: Option<Loader>,
    options: ServerOptions,
}

/// The time for the head of a request, and between two requests of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// The most bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// The most concurrent requests of one connection of HTTP/2.
const MAX_STREAMS: u32 = 256;

/// What a caller may send ahead on one stream, and on one connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// The time after which an idle connection of HTTP/2 is tested, and for the answer.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause after a failed accept, as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The first bytes of a connection of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Server {
    /// Listens, and loads the models on a thread.
    ///
    /// # Errors
    /// An address that other machines reach without a token; one that is in use; threads that cannot be started.
    pub fn start(options: ServerOptions, repository: Arc<Repository>) -> Result<Self> {
        let addresses = [Some(options.http), options.grpc];
        for address in addresses.into_iter().flatten() {
            options.access.check_address(address, options.insecure)?;
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.connection_threads.max(1))
            .thread_name("tenon-connections")
            .enable_all()
            .build()
            .map_err(|error| Error::io("the threads of connections", "start", error))?;
        let app = Arc::new(App {
            repository,
            access: options.access.clone(),
            body_memory: BodyMemory::new(options.max_total_bytes),
            body_limits: BodyLimits {
                bytes: options.max_body_bytes,
                time: options.body_timeout,
            },
            request_timeout: options.request_timeout,
            is_loaded: false.into(),
            is_draining: false.into(),
            in_flight: 0.into(),
            cancelled: 0.into(),
            connections: 0.into(),
            refused: Mutex::default(),
        });
        let graceful = Arc::new(Mutex::new(Some(GracefulShutdown::new())));
        let free = Arc::new(Semaphore::new(options.max_connections));
        let mut listeners = Vec::new();
        let mut listen = |address: SocketAddr, protocols| -> Result<SocketAddr> {
            let failed = |error| Error::io(address.to_string(), "listen on", error);
            let listener = runtime
                .block_on(TcpListener::bind(address))
                .map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let door = Door {
                app: app.clone(),
                address,
                protocols,
                free: free.clone(),
                graceful: graceful.clone(),
            };
            listeners.push(runtime.spawn(accept(listener, door)));
            Ok(address)
        };
        let http_protocols = match options.grpc {
            None => Protocols::Both,
            Some(_) => Protocols::Rest,
        };
        let http = listen(options.http, http_protocols)?;
        let grpc = options.grpc.map(|address| listen(address, Protocols::Grpc));
        let grpc = grpc.transpose()?;
        let loader = Loader::start(app.clone(), options.poll)?;
        Ok(Self {
            runtime: Some(runtime),
            app,
            listeners,
            http,
            grpc,
            graceful,
            loader: Some(loader),
            options,
        })
    }

    /// The address of REST, with its port.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The address of gRPC, with its port: that of REST if no other was given.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc.unwrap_or(self.http)
    }

    /// The models.
    pub fn repository(&self) -> &Repository {
        &self.app.repository
    }

    /// Waits until the models were loaded for the first time, at most for `limit`; returns whether they are.
    pub fn wait_until_loaded(&self, limit: Duration) -> bool {
        let loader = self.loader.as_ref();
        loader.is_some_and(|loader| loader.wait_until_loaded(limit))
    }

    /// Ends the server: it is no longer ready, then refuses connections, then finishes the requests in flight and
    /// cancels those that take too long. Returns whether all of them were finished.
    pub fn drain(mut self) -> bool {
        self.app.is_draining.store(true, Ordering::Relaxed);
        std::thread::sleep(self.options.drain_delay);
        if let Some(loader) = self.loader.take() {
            loader.stop();
        }
        let graceful = self
            .graceful
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (Some(runtime), Some(graceful)) = (self.runtime.take(), graceful) else {
            return true;
        };
        for listener in self.listeners.drain(..) {
            listener.abort();
            let _ = runtime.block_on(listener);
        }
        let limit = self.options.drain_timeout;
        let finished = runtime.block_on(async { timeout(limit, graceful.shutdown()).await });
        runtime.shutdown_timeout(Duration::from_secs(1));
        finished.is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(loader) = self.loader.take() {
            loader.stop();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// What the connections of a listener share.
#[derive(Clone)]
struct Door {
    app: Arc<App>,
    address: SocketAddr,
    protocols: Protocols,
    free: Arc<Semaphore>,
    graceful: Arc<Graceful>,
}

/// The end of connections; `None` once it has begun.
type Graceful = Mutex<Option<GracefulShutdown>>;

async fn accept(listener: TcpListener, door: Door) {
    loop {
        // The semaphore is never closed.
        let Ok(permit) = door.free.clone().acquire_owned().await else {
            continue;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let door = door.clone();
        tokio::spawn(async move {
            let _open = OpenConnection::new(door.app.clone());
            serve(stream, door).await;
            drop(permit);
        });
    }
}

/// Serves one connection. What goes wrong with it ends it.
async fn serve(stream: TcpStream, door: Door) {
    // Answers are written at once and whole.
    let _ = stream.set_nodelay(true);
    let Ok(Some(is_http2)) = timeout(HEAD_TIMEOUT, is_http2(&stream)).await else {
        return;
    };
    let Door {
        app,
        address,
        protocols,
        graceful,
        ..
    } = door;
    let watcher = {
        let graceful = graceful.lock().unwrap_or_else(PoisonError::into_inner);
        graceful.as_ref().map(GracefulShutdown::watcher)
    };
    let Some(watcher) = watcher else { return };
    let service = service_fn(move |request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(app.respond(request, address, protocols).await) }
    });
    let stream = TokioIo::new(stream);
    if is_http2 {
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(stream, service);
        let _ = watcher.watch(connection).await;
    } else {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(stream, service);
        let _ = watcher.watch(connection).await;
    }
}

/// Whether a connection starts with the preface of HTTP/2; `None` if it ends before.
async fn is_http2(stream: &TcpStream) -> Option<bool> {
    const PAUSE: Duration = Duration::from_millis(2);
    let mut start = [0; PREFACE.len()];
    loop {
        let read = stream.peek(&mut start).await.ok()?;
        match start[..read] {
            [] => return None,
            ref start if start == PREFACE => return Some(true),
            // The rest of the preface may be in the next packet.
            ref start if PREFACE.starts_with(start) => tokio::time::sleep(PAUSE).await,
            _ => return Some(false),
        }
    }
}

/// Counts an open connection.
struct OpenConnection(Arc<App>);

impl OpenConnection {
    fn new(app: Arc<App>) -> Self {
        app.connections.fetch_add(1, Ordering::Relaxed);
        Self(app)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The thread that loads models and looks for files that are new, changed or gone.
struct Loader {
    thread: JoinHandle<()>,
    control: Control,
    state: Arc<(Mutex<LoaderState>, Condvar)>,
}

#[derive(Default)]
struct LoaderState {
    is_loaded: bool,
    is_stopped: bool,
}

impl Loader {
    fn start(app: Arc<App>, poll: Option<Duration>) -> Result<Self> {
        let control = Control::new();
        let state = Arc::<(Mutex<LoaderState>, Condvar)>::default();
        let (own_control, own_state) = (control.clone(), state.clone());
        let load = move || {
            let (lock, changed) = &*own_state;
            loop {
                app.repository.update(&own_control);
                app.is_loaded.store(true, Ordering::Relaxed);
                let mut state = lock.lock().unwrap_or_else(PoisonError::into_inner);
                state.is_loaded = true;
                changed.notify_all();
                let Some(poll) = poll else { return };
                let next = Instant::now() + poll;
                while !state.is_stopped && Instant::now() < next {
                    let left = next.saturating_duration_since(Instant::now());
                    let woken = changed.wait_timeout(state, left);
                    (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
                }
                if state.is_stopped {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("tenon-loader".into());
        let thread = thread.spawn(load);
        let thread = thread.map_err(|error| Error::io("a thread", "start", error))?;
        Ok(Self {
            thread,
            control,
            state,
        })
    }

    fn wait_until_loaded(&self, limit: Duration) -> bool {
        let (lock, changed) = &*self.state;
        let state = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = changed.wait_timeout_while(state, limit, |state| !state.is_loaded);
        let (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        state.is_loaded
    }

    fn stop(self) {
        self.control.cancel();
        let (lock, changed) = &*self.state;
        lock.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_stopped = true;
        changed.notify_all();
        // A thread that panicked has stopped too.
        let _ = self.thread.join();
    }
}
