//! The connections of a listener, from their acceptance to their end.

use crate::app::{App, Protocols};
use crate::first::first;
use crate::json_answer::error_body;
use crate::tls::{HTTP2, Tls};
use crate::unread::UnreadAnswers;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What the connections of a listener share.
#[derive(Clone)]
pub struct Listener {
    /// The state of the server.
    pub app: Arc<App>,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it serves.
    pub protocols: Protocols,
    /// Its certificates.
    pub tls: Option<Arc<Tls>>,
    /// The limits of time.
    pub times: ConnectionTimes,
    /// One permit for each connection that may be open.
    pub free: Arc<Semaphore>,
    /// The end of the connections.
    pub graceful: Arc<Graceful>,
}

/// Limits of time that can be set.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimes {
    /// For the handshake of TLS.
    pub handshake: Duration,
    /// For the caller to read an answer.
    pub answer: Duration,
}

/// The end of connections; `None` once it has begun.
pub type Graceful = Mutex<Option<GracefulShutdown>>;

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

/// Accepts connections until it is aborted.
pub async fn accept(socket: TcpListener, listener: Listener) {
    loop {
        // The semaphore is never closed.
        let Ok(permit) = listener.free.clone().acquire_owned().await else {
            continue;
        };
        let Ok((stream, _)) = socket.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let listener = listener.clone();
        tokio::spawn(async move {
            let _open = OpenConnection::new(listener.app.clone());
            serve(stream, listener).await;
            drop(permit);
        });
    }
}

/// Serves one connection. What goes wrong with it ends it.
async fn serve(stream: TcpStream, listener: Listener) {
    // Answers are written at once and whole.
    let _ = stream.set_nodelay(true);
    match &listener.tls {
        None => {
            if let Ok(Some(is_http2)) = timeout(HEAD_TIMEOUT, is_http2(&stream)).await {
                Box::pin(serve_requests(stream, is_http2, listener)).await;
            }
        }
        Some(tls) => {
            let handshake = Box::pin(handshake(stream, tls));
            if let Ok(Some(stream)) = timeout(listener.times.handshake, handshake).await {
                let protocol = stream.get_ref().1.alpn_protocol();
                let is_http2 = protocol == Some(HTTP2);
                Box::pin(serve_requests(stream, is_http2, listener)).await;
            }
        }
    }
}

/// The encrypted stream; `None` if the client sends something else, has no certificate, or refuses that of the server.
async fn handshake(stream: TcpStream, tls: &Tls) -> Option<TlsStream<TcpStream>> {
    let mut start = [0];
    stream.peek(&mut start).await.ok()?;
    // A method of HTTP; a handshake starts with 22 (RFC 8446, 5.1).
    if start[0].is_ascii_uppercase() {
        refuse_plain(stream).await;
        return None;
    }
    TlsAcceptor::from(tls.config()).accept(stream).await.ok()
}

/// Answers a request that is not encrypted.
async fn refuse_plain(mut stream: TcpStream) {
    let body = error_body("this port is encrypted: use https:// (TLS)");
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    let _ = stream.shutdown().await;
    // Closing a socket with unread bytes resets it, and the caller would not see the answer.
    let mut rest = [0; 4096];
    let mut read = 0;
    while read < MAX_HEAD_BYTES {
        match stream.read(&mut rest).await {
            Ok(0) | Err(_) => return,
            Ok(more) => read += more,
        }
    }
}

/// Serves the requests of a connection.
async fn serve_requests<S>(stream: S, is_http2: bool, listener: Listener)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let watcher = {
        let graceful = listener.graceful.lock();
        let graceful = graceful.unwrap_or_else(PoisonError::into_inner);
        graceful.as_ref().map(GracefulShutdown::watcher)
    };
    let Some(watcher) = watcher else { return };
    let unread = UnreadAnswers::new(listener.times.answer);
    let served = serve_http(TokioIo::new(stream), is_http2, listener, watcher, &unread);
    // A caller that does not read its answers keeps them in memory: the connection is closed.
    first(served, unread.overdue()).await;
}

async fn serve_http<S>(
    stream: S,
    is_http2: bool,
    listener: Listener,
    watcher: Watcher,
    unread: &Arc<UnreadAnswers>,
) where
    S: Read + Write + Unpin + Send + 'static,
{
    let Listener {
        app,
        address,
        protocols,
        ..
    } = listener;
    let unread = unread.clone();
    let service = service_fn(move |request| {
        let (app, unread) = (app.clone(), unread.clone());
        // The state of a request, some kilobytes, is allocated while there is one: most connections are idle.
        Box::pin(async move {
            let response = app.clone().respond(request, address, protocols).await;
            let idle = app.clone();
            app.busy_poll
                .stay_awake(move || idle.in_flight.load(Ordering::Relaxed) == 0);
            Ok::<_, Infallible>(response.map(|body| unread.count(body)))
        })
    });
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
        // Boxed, so that a connection has the state of its protocol only.
        let _ = Box::pin(watcher.watch(connection)).await;
    } else {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(stream, service);
        let _ = Box::pin(watcher.watch(connection)).await;
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
