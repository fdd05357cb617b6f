//! Requests to a server of one model: a line with method and path, lines of headers, an empty line, the body. REST with
//! JSON and binary data, and gRPC. After the line `settings`: the settings of a model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;
use tenon_serve::fuzzing::{LocalServer, read_settings};

/// A model of two layers: input `x` of shape [1, 20], output `y`.
const MODEL: &[u8] = include_bytes!("../../models/small/mlp.onnx");

static SERVER: LazyLock<(LocalServer, TempDir)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("mlp.onnx"), MODEL).expect("it is written");
    let server = LocalServer::new(folder.path()).expect("a server");
    assert_eq!(server.models(), ["mlp"]);
    (server, folder)
});

fuzz_target!(|bytes: &[u8]| {
    if let Some(text) = bytes.strip_prefix(b"settings\n") {
        if let Ok(text) = std::str::from_utf8(text) {
            for problem in read_settings(text).into_iter().filter_map(Result::err) {
                // Its message must be printable too.
                let _ = problem.to_string();
            }
        }
        return;
    }
    let end = bytes.windows(2).position(|two| two == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &[][..]),
    };
    let Ok(head) = std::str::from_utf8(head) else {
        return;
    };
    let mut lines = head.lines();
    let Some((method, path)) = lines.next().and_then(|line| line.split_once(' ')) else {
        return;
    };
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let server = &SERVER.0;
    let Some((status, answer)) = server.answer(method, path, &headers, body) else {
        return;
    };
    assert!((200..600).contains(&status), "{status}");
    if status >= 400 {
        let json: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert!(json["error"].is_string(), "{json}");
    }
    // A stream that fails cancels its requests, which end a moment later.
    for _ in 0..1000 {
        if server.is_idle() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("memory or requests are left");
});
