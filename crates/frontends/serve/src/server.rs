//! The listeners of a server, its connections, and its end.

use crate::access::Access;
use crate::app::{App, NAME, Protocols};
use crate::connection::{ConnectionTimes, Graceful, Listener, accept};
use crate::repository::Repository;
use crate::tls::Tls;
use hyper_util::server::graceful::GracefulShutdown;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenon::{Control, Error, Result};
use tokio::net::TcpListener;
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
    /// The name of the server in metadata.
    pub name: String,
    /// The tokens.
    pub access: Access,
    /// Whether other machines may use the server without a token.
    pub insecure: bool,
    /// Whether requests with the admin token may write models into the folder.
    pub has_uploads: bool,
    /// The certificates of both addresses; connections are not encrypted without them.
    pub tls: Option<Arc<Tls>>,
    /// The most bytes of a request.
    pub max_body_bytes: usize,
    /// The most bytes of all requests in flight.
    pub max_total_bytes: usize,
    /// The longest time for a body.
    pub body_timeout: Duration,
    /// The longest time for the handshake of TLS.
    pub handshake_timeout: Duration,
    /// The longest time in which a caller reads an answer; larger answers have a second more for each MiB.
    pub answer_timeout: Duration,
    /// The longest time of a request; none by default.
    pub request_timeout: Option<Duration>,
    /// The most open connections; further ones wait to be accepted.
    pub max_connections: usize,
    /// Threads that serve connections, and execute models that take less than a tenth of a millisecond.
    pub connection_threads: usize,
    /// How long a thread that serves connections polls for the next request before it sleeps, while nothing is executed.
    pub busy_poll: Duration,
    /// The time between two looks at the model folder and the files of TLS; `None` for one look.
    pub poll: Option<Duration>,
    /// The time from the start of the end until connections are refused, in which the server is not ready but serves.
    pub drain_delay: Duration,
    /// The longest time for requests in flight at the end; then they are cancelled.
    pub drain_timeout: Duration,
}

impl ServerOptions {
    /// The defaults for an address.
    pub fn new(http: SocketAddr) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            http,
            grpc: None,
            name: NAME.to_owned(),
            access: Access::default(),
            insecure: false,
            has_uploads: false,
            tls: None,
            max_body_bytes: 64 << 20,
            max_total_bytes: 1 << 30,
            body_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            request_timeout: None,
            max_connections: 20_000,
            connection_threads: cpus.div_ceil(4),
            // One CPU is for the callers.
            busy_poll: Duration::from_micros(if cpus > 1 { 100 } else { 0 }),
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

impl Server {
    /// Listens, and loads the models on a thread.
    ///
    /// # Errors
    /// An address that other machines reach without a token; one that is in use; threads that cannot be started.
    pub fn start(options: ServerOptions, repository: Arc<Repository>) -> Result<Self> {
        let addresses = [Some(options.http), options.grpc];
        for address in addresses.into_iter().flatten() {
            let certificates = options.tls.as_ref();
            let are_known = certificates.is_some_and(|tls| tls.has_client_authority());
            let is_allowed = options.insecure || are_known;
            options.access.check_address(address, is_allowed)?;
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.connection_threads.max(1))
            .thread_name("tenon-connections")
            .enable_all()
            .build()
            .map_err(|error| Error::io("the threads of connections", "start", error))?;
        let app = Arc::new(App::new(&options, repository));
        let graceful = Arc::new(Mutex::new(Some(GracefulShutdown::new())));
        let free = Arc::new(Semaphore::new(options.max_connections));
        let mut listeners = Vec::new();
        let mut listen = |address: SocketAddr, protocols| -> Result<SocketAddr> {
            let failed = |error| Error::io(address.to_string(), "listen on", error);
            let listener = runtime
                .block_on(TcpListener::bind(address))
                .map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let shared = Listener {
                app: app.clone(),
                address,
                protocols,
                tls: options.tls.clone(),
                times: ConnectionTimes {
                    handshake: options.handshake_timeout,
                    answer: options.answer_timeout,
                },
                free: free.clone(),
                graceful: graceful.clone(),
            };
            listeners.push(runtime.spawn(accept(listener, shared)));
            Ok(address)
        };
        let http_protocols = match options.grpc {
            None => Protocols::Both,
            Some(_) => Protocols::Rest,
        };
        let http = listen(options.http, http_protocols)?;
        let grpc = options.grpc.map(|address| listen(address, Protocols::Grpc));
        let grpc = grpc.transpose()?;
        let loader = Loader::start(app.clone(), options.tls.clone(), options.poll)?;
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
        self.app.ending.send_replace(true);
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

/// The thread that loads models, and looks for their files and those of TLS that are new, changed or gone.
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
    fn start(app: Arc<App>, tls: Option<Arc<Tls>>, poll: Option<Duration>) -> Result<Self> {
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
                drop(state);
                if let Some(tls) = &tls {
                    tls.reload_if_changed();
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
