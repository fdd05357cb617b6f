use super::*;
use std::io::{Read, Write};
use std::net::TcpStream as Client;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A server that runs until the test process exits.
fn serve(time_limit: Duration) -> SocketAddr {
    let server = MetricsServer::with_time_limit(0, time_limit).unwrap();
    let address = server.address().unwrap();
    let count = AtomicU64::new(0);
    let page = move || format!("some_total {}\n", count.fetch_add(1, Ordering::Relaxed));
    std::thread::spawn(move || server.serve(page));
    address
}

fn send(address: SocketAddr, request: &str) -> String {
    let mut client = Client::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

fn get(address: SocketAddr, host: &str) -> String {
    send(
        address,
        &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
}

#[test]
fn one_page_is_served_on_loopback() {
    let address = serve(TIME_LIMIT);
    assert!(address.ip().is_loopback());
    let host = address.to_string();
    let text = get(address, &host);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let lower = text.to_lowercase();
    assert!(
        lower.contains("content-type: text/plain; version=0.0.4"),
        "{text}"
    );
    assert!(text.ends_with("\r\n\r\nsome_total 0\n"), "{text}");
    let text = send(address, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
    let text = send(
        address,
        &format!("POST /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    );
    assert!(text.starts_with("HTTP/1.1 405"), "{text}");
    assert!(send(address, "no HTTP\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn another_host_is_refused() {
    let address = serve(TIME_LIMIT);
    let port = address.port();
    for host in ["localhost", "LocalHost", "127.0.0.1", "[::1]"] {
        let text = get(address, &format!("{host}:{port}"));
        assert!(text.starts_with("HTTP/1.1 200"), "{host}: {text}");
    }
    let other = port ^ 1;
    for host in [
        format!("evil.example:{port}"),
        format!("127.0.0.1:{other}"),
        format!("127.0.0.1:{port}\r\nHost: evil.example"),
        format!("localhost.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        String::new(),
    ] {
        let text = get(address, &host);
        assert!(text.starts_with("HTTP/1.1 421"), "{host}: {text}");
        assert!(!text.contains("some_total"), "{text}");
    }
    let text = send(address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 421"), "{text}");
    let absolute =
        format!("GET http://evil.example/metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let text = send(address, &absolute);
    assert!(text.starts_with("HTTP/1.1 421"), "{text}");
}

#[test]
fn slow_clients_do_not_delay_others() {
    let time_limit = Duration::from_secs(3);
    let address = serve(time_limit);
    let began = Instant::now();
    // No request, a partial head, and a response that is not read.
    let mut slow: Vec<Client> = (0..CONNECTIONS / 2)
        .map(|index| {
            let mut client = Client::connect(address).unwrap();
            let text = ["", "GET /met", "GET /metrics HTTP/1.1\r\nHost: x\r\n"][index % 3];
            client.write_all(text.as_bytes()).unwrap();
            client
        })
        .collect();
    let text = get(address, &address.to_string());
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(began.elapsed() < time_limit, "{:?}", began.elapsed());
    // Single bytes do not extend the time limit.
    for byte in b"X-A: aaaaaaaaaaaaaaaaaaaa" {
        let _ = slow[2].write_all(&[*byte]);
        std::thread::sleep(time_limit / 20);
    }
    for client in &mut slow {
        client.set_read_timeout(Some(time_limit)).unwrap();
        let mut rest = Vec::new();
        // Closed by the server, with or without a reset.
        let ended = client.read_to_end(&mut rest);
        let timed_out = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!ended.is_err_and(timed_out), "the connection is still open");
    }
}

#[test]
fn clients_beyond_the_maximum_are_served_later() {
    let time_limit = Duration::from_secs(1);
    let address = serve(time_limit);
    let silent: Vec<Client> = (0..CONNECTIONS + 4)
        .map(|_| Client::connect(address).unwrap())
        .collect();
    let text = get(address, &address.to_string());
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    drop(silent);
}

#[test]
fn an_endless_head_is_refused() {
    let address = serve(TIME_LIMIT);
    let mut client = Client::connect(address).unwrap();
    let began = Instant::now();
    client.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let line = format!("X-A: {}\r\n", "a".repeat(1000));
    for _ in 0..2 * MAX_HEAD_BYTES / line.len() {
        // The server may have closed it already.
        let _ = client.write_all(line.as_bytes());
    }
    let mut response = Vec::new();
    // Refused and closed, or closed by a reset that arrives before the response.
    let _ = client.read_to_end(&mut response);
    assert!(began.elapsed() < TIME_LIMIT / 2, "{:?}", began.elapsed());
    assert!(
        response.is_empty() || response.starts_with(b"HTTP/1.1 431"),
        "{response:?}"
    );
}
