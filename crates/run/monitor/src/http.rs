//! The endpoint for Prometheus: one page, HTTP/1.1, on the loopback interface only.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tenon_base::{Error, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The content type of the text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The maximum size of a request head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The time limit of a connection, from accepting to the end of the response. A connection has one
/// request.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of concurrent connections; further ones wait to be accepted.
const CONNECTIONS: usize = 64;

/// The pause after a failed accept, as with too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `GET /metrics` on 127.0.0.1.
#[derive(Debug)]
pub struct MetricsServer {
    runtime: Runtime,
    listener: TcpListener,
    time_limit: Duration,
}

impl MetricsServer {
    /// Listens on `port`; 0 selects an unused port.
    pub fn listen(port: u16) -> Result<Self> {
        Self::with_time_limit(port, TIME_LIMIT)
    }

    fn with_time_limit(port: u16, time_limit: Duration) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |error| Error::io(address.to_string(), "listen", error);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(failed)?;
        Ok(Self {
            runtime,
            listener,
            time_limit,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = self.listener.local_addr();
        address.map_err(|error| Error::io("the socket", "read the address of", error))
    }

    /// Serves the result of `page`; does not return.
    pub fn serve(self, page: impl Fn() -> String + Send + Sync + 'static) -> ! {
        let Self {
            runtime,
            listener,
            time_limit,
        } = self;
        let page: Arc<Page> = Arc::new(page);
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        runtime.block_on(async move {
            loop {
                // The semaphore is never closed.
                let Ok(permit) = free.clone().acquire_owned().await else {
                    continue;
                };
                let Ok((client, _)) = listener.accept().await else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let page = page.clone();
                tokio::spawn(async move {
                    // Errors and timeouts end the connection.
                    let _ = timeout(time_limit, connection(client, page)).await;
                    drop(permit);
                });
            }
        })
    }
}

type Page = dyn Fn() -> String + Send + Sync;

async fn connection(client: TcpStream, page: Arc<Page>) -> hyper::Result<()> {
    let port = client.local_addr().map_or(0, |address| address.port());
    let respond = |request: Request<Incoming>| {
        let page = page.clone();
        async move { Ok::<_, Infallible>(response(&request, port, &*page)) }
    };
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(client), service_fn(respond))
        .await
}

fn response<B>(request: &Request<B>, port: u16, page: &Page) -> Response<Full<Bytes>> {
    if !is_local(request, port) {
        // DNS rebinding: a page of a site whose name resolves to 127.0.0.1 must not read the metrics.
        let text = "the host must be 127.0.0.1 or localhost\n";
        return text_response(StatusCode::MISDIRECTED_REQUEST, "text/plain", text);
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => text_response(StatusCode::OK, CONTENT_TYPE, page()),
        (&Method::GET, _) => text_response(StatusCode::NOT_FOUND, "text/plain", "see /metrics\n"),
        _ => {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            let mut response = text_response(status, "text/plain", "the method must be GET\n");
            let methods = HeaderValue::from_static("GET");
            response.headers_mut().insert(header::ALLOW, methods);
            response
        }
    }
}

fn text_response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Whether a request names this server: the one `Host` of HTTP/1.1 is a name of the loopback
/// interface with this port, as is the authority of an absolute target (RFC 9112, 3.2).
fn is_local<B>(request: &Request<B>, port: u16) -> bool {
    let names_this = |text: &str| {
        let (name, port_text) = match text.strip_prefix("[::1]") {
            Some(rest) => ("[::1]", rest.strip_prefix(':')),
            None => match text.split_once(':') {
                Some((name, port_text)) => (name, Some(port_text)),
                None => (text, None),
            },
        };
        let is_loopback = ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        // The default port is that of the scheme.
        is_loopback && port_text.unwrap_or("80").parse() == Ok(port)
    };
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let authority = request.uri().authority();
    host.is_some_and(names_this)
        && hosts.next().is_none()
        && authority.is_none_or(|authority| names_this(authority.as_str()))
}

#[cfg(test)]
mod tests;
