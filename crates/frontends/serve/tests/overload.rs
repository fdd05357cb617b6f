//! Bounded queues, deadlines, callers that go away, slow and large bodies, and the end of a server.

mod common;

use common::{
    Served, answered_scores, is_close, json_request, model, read, request, scores, serve,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tenon_serve::{RepositoryOptions, ServerOptions};

/// A server whose requests wait for others, up to 20 s or `rows` of them.
fn waiting(rows: usize, max_waiting: usize, change: impl FnOnce(&mut ServerOptions)) -> Served {
    serve(change, |options: &mut RepositoryOptions| {
        options.batches.delay = Duration::from_secs(20);
        options.batches.max_rows = rows;
        options.batches.max_waiting = max_waiting;
    })
}

fn start(served: &Served, headers: &[(&str, &str)]) -> TcpStream {
    let mut stream = served.connect();
    let bytes = request("POST", "/v2/models/digits/infer", headers, &json_request(1));
    stream.write_all(&bytes).unwrap();
    stream
}

const DEPTH: &str = "tenon_queue_depth{model=\"digits\",version=\"1\"}";
const EXECUTIONS: &str = "nv_inference_exec_count{model=\"digits\",version=\"1\"}";

#[test]
fn requests_of_several_clients_are_one_execution() {
    let served = waiting(3, 10, |_| {});
    let mut clients = [0; 3].map(|_| start(&served, &[]));
    let expected = scores(&model(), 1);
    for client in &mut clients {
        assert!(is_close(&answered_scores(&read(client)), &expected));
    }
    assert_eq!(served.metric(EXECUTIONS), 1.0);
    let three = "tenon_batch_size_bucket{model=\"digits\",version=\"1\",le=\"4\"}";
    assert_eq!(served.metric(three), 1.0);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let served = waiting(32, 1, |_| {});
    let _first = start(&served, &[]);
    served.wait_for_metric(DEPTH, 1.0);
    let begin = Instant::now();
    let refused = served.infer(1);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_caller_that_goes_away_cancels_its_request() {
    let served = waiting(2, 1, |_| {});
    let first = start(&served, &[]);
    served.wait_for_metric(DEPTH, 1.0);
    drop(first);
    served.wait_for_metric("tenon_cancelled_total", 1.0);
    served.wait_for_metric("tenon_in_flight", 0.0);
    // Its place in the queue is free. One row of two: it waits, and no execution has happened.
    let _second = start(&served, &[]);
    served.wait_for_metric("tenon_in_flight", 1.0);
    assert_eq!(served.metric(EXECUTIONS), 0.0);
}

#[test]
fn deadlines_end_requests() {
    let served = waiting(32, 10, |_| {});
    let begin = Instant::now();
    let by_header = read(&mut start(&served, &[("X-Request-Timeout-Ms", "50")]));
    assert_eq!(by_header.status, 504);
    let mut json: serde_json::Value = serde_json::from_slice(&json_request(1)).unwrap();
    json["parameters"] = serde_json::json!({"timeout": 50_000});
    let path = "/v2/models/digits/infer";
    let by_parameter = served.post(path, json.to_string().as_bytes());
    assert_eq!(by_parameter.status, 504);
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert_eq!(served.metric(EXECUTIONS), 0.0);
    let malformed = read(&mut start(&served, &[("X-Request-Timeout-Ms", "soon")]));
    assert_eq!(malformed.status, 400);
    let limited = waiting(32, 10, |options| {
        options.request_timeout = Some(Duration::from_millis(50));
    });
    assert_eq!(limited.infer(1).status, 504);
}

#[test]
fn slow_and_large_bodies_are_refused() {
    let served = serve(
        |options| {
            options.body_timeout = Duration::from_millis(100);
            options.max_body_bytes = 10_000;
            options.max_total_bytes = 100_000;
        },
        |_| {},
    );
    let head = |length: usize| {
        format!(
            "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut slow = served.connect();
    slow.write_all(head(100).as_bytes()).unwrap();
    slow.write_all(b"{").unwrap();
    assert_eq!(read(&mut slow).status, 408);
    // Refused by its declared length: none of it is sent.
    let mut large = served.connect();
    large.write_all(head(10_001).as_bytes()).unwrap();
    assert_eq!(read(&mut large).status, 413);
    let mut chunked = served.connect();
    let text = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    chunked.write_all(text.as_bytes()).unwrap();
    let chunk = format!("2710\r\n{}\r\n", " ".repeat(10_000));
    chunked.write_all(chunk.as_bytes()).unwrap();
    let _ = chunked.write_all(b"1\r\n \r\n0\r\n\r\n");
    assert_eq!(read(&mut chunked).status, 413);
    assert_eq!(served.metric("tenon_body_bytes"), 0.0);
    assert_eq!(served.infer(0).status, 200);
}

#[test]
fn a_server_that_ends_finishes_its_requests() {
    let mut served = serve(
        |_| {},
        |options| {
            options.batches.delay = Duration::from_millis(500);
        },
    );
    let mut idle = served.connect();
    let mut client = start(&served, &[]);
    served.wait_for_metric(DEPTH, 1.0);
    let begin = Instant::now();
    assert!(served.server.take().unwrap().drain());
    assert!(is_close(
        &answered_scores(&read(&mut client)),
        &scores(&model(), 1)
    ));
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert!(TcpStream::connect(served.address).is_err());
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_server_that_ends_is_not_ready_and_cancels_what_takes_too_long() {
    let mut served = waiting(32, 10, |options| {
        options.drain_delay = Duration::from_secs(2);
        options.drain_timeout = Duration::from_millis(100);
    });
    let mut client = start(&served, &[]);
    served.wait_for_metric(DEPTH, 1.0);
    let server = served.server.take().unwrap();
    std::thread::scope(|scope| {
        let ended = scope.spawn(move || server.drain());
        // In the delay it serves, but is not ready.
        common::wait_until("it is not ready", || {
            served.get("/v2/health/ready").status == 503
        });
        assert_eq!(served.get("/v2/health/live").status, 200);
        assert!(!ended.join().unwrap(), "not all requests were finished");
    });
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}
