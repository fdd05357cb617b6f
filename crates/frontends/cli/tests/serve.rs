//! `tenon serve` as a process: what it prints, that it answers, and how it ends.

#![cfg(feature = "serve")]

#[path = "../../serve/tests/common/certificates.rs"]
mod certificates;
mod common;

use common::{folder, repository, tenon};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server and its first line of JSON.
fn serve(folder: &Path, arguments: &[&str]) -> (Child, serde_json::Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tenon"))
        .args(["serve", ".", "--http", ":0", "--json"])
        .args(arguments)
        .current_dir(folder)
        .env("TENON_CACHE_DIR", "")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (child, json)
}

fn get(address: &serde_json::Value, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address.as_str().expect("an address")).expect("it listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn models_are_served_until_sigterm() {
    let folder = folder();
    let model = repository("models/small/mlp.onnx");
    std::fs::copy(model, folder.path().join("mlp.onnx")).unwrap();
    std::fs::write(folder.path().join("broken.neff"), "no package").unwrap();
    std::fs::write(folder.path().join(".token"), "0123456789abcdef").unwrap();
    let (mut child, json) = serve(folder.path(), &["--grpc", ":0", "--token-file", ".token"]);
    assert_eq!(json["models"][0]["name"], "broken");
    assert_eq!(json["models"][0]["state"], "UNAVAILABLE");
    let ready = serde_json::json!({"name": "mlp", "version": "1", "state": "READY", "reason": ""});
    assert_eq!(json["models"][1], ready);
    assert_ne!(json["http"], json["grpc"]);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let answer = get(&json["http"], "/v2/models/mlp", token);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"FP32\""),
        "{answer}"
    );
    let answer = get(&json["http"], "/v2/models/mlp", "");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert!(
        log.contains("loaded mlp, version 1") && log.contains("broken.neff"),
        "{log}"
    );
}

#[test]
fn mistakes_say_what_to_do() {
    let folder = folder();
    let refused = |arguments: &[&str], part: &str| {
        let answer = tenon(folder.path(), arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.err);
        assert!(answer.err.contains(part), "{arguments:?}: {}", answer.err);
    };
    refused(&["serve", ".", "--http", "0.0.0.0:0"], "--token-file FILE");
    refused(&["serve", ".", "--grpc", "0.0.0.0:0"], "--insecure");
    refused(&["serve", "none"], "NAME/VERSION/");
    refused(&["serve", ".", "--http", "here"], "127.0.0.1:8000");
    refused(&["serve", ".", "--instances", "0"], "at least 1");
    std::fs::write(folder.path().join("token"), "short").unwrap();
    refused(&["serve", ".", "--token-file", "token"], "at least 16");
    refused(&["serve", ".", "--tls-cert", "token"], "--tls-key");
    let tls = ["serve", ".", "--tls-cert", "token", "--tls-key", "none"];
    refused(&tls, "token: the file has no certificate");
    refused(&tls, "none: cannot read");
}

#[test]
fn sighup_reads_the_certificates_again() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    if u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 == 1 {
        // As under nohup: a child ignores the signal too.
        return;
    }
    let folder = folder();
    let authority = certificates::Authority::new("authority");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let (certificate, key) = authority.issue();
    write("certificate.pem", &certificate);
    write("key.pem", &key);
    let tls = ["--tls-cert", "certificate.pem", "--tls-key", "key.pem"];
    // They are read again at the signal only.
    let (mut child, json) = serve(folder.path(), &[&tls[..], &["--poll", "0"]].concat());
    let answer = get(&json["http"], "/v2", "");
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("https://"),
        "{answer}"
    );
    let pid = Pid::from_child(&child);
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = move || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    };
    kill_process(pid, Signal::HUP).unwrap();
    assert_eq!(line(), "loaded the certificates again\n");
    write("key.pem", "no key");
    kill_process(pid, Signal::HUP).unwrap();
    let problem = line();
    assert!(
        problem.contains("key.pem: the file has no private key"),
        "{problem}"
    );
    assert_eq!(line(), "the certificates before them are kept\n");
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
