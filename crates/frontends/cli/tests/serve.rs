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
use std::process::{Child, Stdio};

/// A server and its first line of JSON.
fn serve(folder: &Path, arguments: &[&str]) -> (Child, serde_json::Value) {
    serve_with(folder, arguments, &[])
}

fn serve_with(
    folder: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (Child, serde_json::Value) {
    let mut child = common::command(folder, &["serve", ".", "--http", ":0", "--json"])
        .args(arguments)
        .envs(environment.iter().copied())
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

/// The status and the body of a request for inference with a row of three floats.
fn infer(address: &serde_json::Value, model: &str, row: [f32; 3], header: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address.as_str().expect("an address")).expect("it listens");
    let input = serde_json::json!({"name": "x", "shape": [1, 3], "datatype": "FP32", "data": row});
    let body = serde_json::json!({"inputs": [input]}).to_string();
    let request = format!(
        "POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{header}\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    let body = answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    (status.expect("a status"), body.unwrap_or_default())
}

#[test]
fn a_crash_of_a_native_node_does_not_end_the_server() {
    const NODE: &str = "#include <stdlib.h>
        #include <unistd.h>
        #include <tenon/cpu_node.h>
        int32_t twice(const tenon_cpu_node_call *call) {
            const float *x = call->inputs[0].data;
            float *y = call->outputs[0].data;
            for (uint64_t i = 0; i < call->outputs[0].bytes / sizeof *y; i++) {
                if (x[i] == 666)
                    abort();
                if (x[i] == 777)
                    sleep(1000);
                y[i] = 2 * x[i];
            }
            return 0;
        }";
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("twice.c"), NODE).unwrap();
    tenon_test_libraries::compiled(&at("twice.c"), &at("libtwice.so"), &[]);
    std::fs::create_dir(at("models")).unwrap();
    let node = ["--cpu-node", "twice=libtwice.so:twice", "--dim", "batch=1"];
    let own = common::tiny("own");
    let compiled = tenon(
        folder.path(),
        &[&["compile", &own, "-o", "models/own.neff"][..], &node].concat(),
    );
    assert_eq!(compiled.status, Some(0), "{}", compiled.err);

    // A process that does not allow them says so.
    let (mut child, json) = serve(&at("models"), &["--isolate"]);
    let reason = json["models"][0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("TENON_ALLOW_NATIVE_NODES"), "{reason}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let environment = [("TENON_ALLOW_NATIVE_NODES", "1")];
    let (mut child, json) = serve_with(&at("models"), &["--isolate"], &environment);
    assert_eq!(json["models"][0]["state"], "READY", "{json}");
    let http = &json["http"];
    let row = [0.0, -1.0, 0.5];
    let (status, body) = infer(http, "own", row, "");
    assert_eq!(status, 200, "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    // y = Exp(twice(Neg(x)))
    let expected = row.map(|x| (-2.0 * x).exp());
    for (found, expected) in answer["outputs"][0]["data"]
        .as_array()
        .unwrap()
        .iter()
        .zip(expected)
    {
        assert!(
            (found.as_f64().unwrap() - f64::from(expected)).abs() < 1e-5,
            "{body}"
        );
    }
    // The process has been running for long enough to be started again at once.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (status, body) = infer(http, "own", [0.0, -666.0, 0.0], "");
    assert_eq!(status, 500);
    assert!(body.contains("was ended by SIGABRT (signal 6)"), "{body}");
    let (status, body) = infer(http, "own", row, "");
    assert_eq!(status, 200, "{body}");
    let metrics = get(http, "/metrics", "");
    let restarts = "tenon_worker_restarts_total{model=\"own\",version=\"1\"} 1\n";
    assert!(metrics.contains(restarts), "{metrics}");
    // It crashes again before a second has passed.
    infer(http, "own", [0.0, -666.0, 0.0], "");
    let (status, body) = infer(http, "own", row, "");
    assert_eq!(status, 503);
    assert!(body.contains("started again in 1 s"), "{body}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // A node that does not end does not hold its caller.
    let (status, _) = infer(
        http,
        "own",
        [0.0, -777.0, 0.0],
        "X-Request-Timeout-Ms: 300\r\n",
    );
    assert_eq!(status, 504);
    let workers = common::children(child.id());
    assert_eq!(workers.len(), 1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
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
    for flag in ["--allow-model-control", "--allow-shared-memory"] {
        let text = format!("{flag} is for programs of this one");
        let others = ["serve", ".", "--insecure", "--grpc", "0.0.0.0:0", flag];
        refused(&others, &text);
    }
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
