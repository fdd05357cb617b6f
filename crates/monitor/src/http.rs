//! The endpoint that Prometheus asks: one page, over HTTP/1.1, on loopback only.

use crate::prometheus::CONTENT_TYPE;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tenon_base::{Error, Result};

/// Longest request that is read.
const LONGEST: u64 = 16 << 10;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers `GET /metrics` on 127.0.0.1.
#[derive(Debug)]
pub struct MetricsServer(TcpListener);

impl MetricsServer {
    /// Listens on `port`; 0 is any that is free.
    pub fn listen(port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(|error| Error::io(address.to_string(), "listen", error))?;
        Ok(Self(listener))
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = self.0.local_addr();
        address.map_err(|error| Error::io("the socket", "read the address of", error))
    }

    /// Answers one client with what `page` says. A client that misbehaves is its own concern.
    pub fn answer(&self, page: impl FnOnce() -> String) -> Result<()> {
        let (client, _) = self
            .0
            .accept()
            .map_err(|error| Error::io("the socket", "accept a client on", error))?;
        let _ = serve(client, page);
        Ok(())
    }
}

fn serve(mut client: TcpStream, page: impl FnOnce() -> String) -> std::io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(client.try_clone()?.take(LONGEST)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head, up to the empty line.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = request.split_whitespace();
    let target = (words.next(), words.next());
    let (status, kind, body) = match target {
        (Some("GET"), Some("/metrics")) => ("200 OK", CONTENT_TYPE, page()),
        (Some("GET"), Some(_)) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "only GET\n".to_owned(),
        ),
    };
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &MetricsServer, request: &str) -> String {
        let address = server.address().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| server.answer(|| "some_total 1\n".to_owned()).unwrap());
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        })
    }

    #[test]
    fn one_page_is_served_on_loopback() {
        let server = MetricsServer::listen(0).unwrap();
        assert!(server.address().unwrap().ip().is_loopback());
        let text = ask(&server, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.contains("Content-Type: text/plain; version=0.0.4"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\nsome_total 1\n"), "{text}");
        let text = ask(&server, "GET / HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 404"), "{text}");
        let text = ask(&server, "POST /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 405"), "{text}");
    }
}
