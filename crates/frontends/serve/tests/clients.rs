//! Clients of other projects: tritonclient over REST and gRPC, compared with the model without a server.
//!
//! `TENON_CLIENTS_PYTHON` names an interpreter with the packages of `tests/python/requirements-clients.txt`.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

mod common;

use common::certificates::Authority;
use common::{Served, digits, model, pixels, repository, scores, serve, serve_folder};
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenon::Tensor;
use tenon::tensor::npy::write_npy;
use tenon_serve::{Access, ServerOptions, Tls, TlsFiles};

/// The interpreter of the clients, if there is one.
fn python() -> Option<OsString> {
    let python = std::env::var_os("TENON_CLIENTS_PYTHON");
    if python.is_none() {
        eprintln!("skipped: TENON_CLIENTS_PYTHON names no interpreter with tritonclient");
    }
    python
}

/// Runs `clients.py` against a server; `false` if there is no interpreter for it.
fn run_clients(action: &str, served: &Served) -> bool {
    run_clients_in(tempfile::tempdir().unwrap(), action, served)
}

fn run_clients_in(folder: TempDir, action: &str, served: &Served) -> bool {
    let Some(python) = python() else { return false };
    let model = model();
    let images: Vec<f32> = (0..4).flat_map(pixels).collect();
    let expected: Vec<f32> = (0..4).flat_map(|image| scores(&model, image)).collect();
    let write = |name: &str, tensor: Tensor| write_npy(folder.path().join(name), &tensor).unwrap();
    let images = Tensor::from_slice([4, 1, 8, 8], &images);
    write("image.npy", images.unwrap());
    write(
        "scores.npy",
        Tensor::from_slice([4, 10], &expected).unwrap(),
    );
    let grpc = served.server.as_ref().unwrap().grpc_address();
    let output = Command::new(&python)
        .arg(repository("crates/frontends/serve/tests/clients.py"))
        .args([action, &served.address.to_string(), &grpc.to_string()])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    true
}

#[test]
fn one_port_serves_both_protocols() {
    let served = serve(|_| {}, |_| {});
    run_clients("infer", &served);
}

#[test]
fn two_ports_serve_one_protocol_each() {
    let grpc = "127.0.0.1:0".parse().unwrap();
    let served = serve(|options| options.grpc = Some(grpc), |_| {});
    run_clients("infer", &served);
}

#[test]
fn clients_with_certificates_use_tls() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::new("authority");
    let write = |name: &str, text: String| std::fs::write(at(name), text).unwrap();
    write("authority.pem", authority.certificate());
    for name in ["server", "client"] {
        let (certificate, key) = authority.issue();
        write(&format!("{name}.pem"), certificate);
        write(&format!("{name}-key.pem"), key);
    }
    let files = TlsFiles {
        certificate: at("server.pem"),
        key: at("server-key.pem"),
        client_authority: Some(at("authority.pem")),
    };
    let tls = Tls::new(files, |_| {}).unwrap();
    let served = serve(|options| options.tls = Some(Arc::new(tls)), |_| {});
    run_clients_in(folder, "tls", &served);
}

#[test]
fn clients_upload_models() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    std::fs::write(folder.path().join("new.neff"), digits()).unwrap();
    let access = Access::default().admin_token_file(&token).unwrap();
    let change = |options: &mut ServerOptions| {
        options.access = access;
        options.has_uploads = true;
    };
    let served = serve(change, |_| {});
    run_clients_in(folder, "upload", &served);
}

/// The expectations of Triton's own examples, without their code.
#[test]
fn examples_of_triton() {
    let Some(python) = python() else { return };
    let labels = "label_filename: 'sides.txt'";
    let image = format!(
        "max_batch_size: 4
        input {{ name: 'in' format: FORMAT_NHWC dims: [1, 2, 1] reshape {{ shape: [2] }} }}
        output {{ name: 'out' dims: 2 {labels} }}"
    );
    let named = "max_batch_size: 3 output { name: 'result' } ensemble_scheduling { step {
        model_name: 'image' model_version: -1
        input_map { key: 'in' value: 'in' } output_map { key: 'out' value: 'result' } } }";
    let numbered = include_str!("data/configs/numbered.pbtxt");
    let folder = tempfile::tempdir().unwrap();
    let models = [
        ("both", "both", "max_batch_size: 8"),
        ("texts", "texts", "max_batch_size: 8"),
        ("numbered", "numbered", numbered),
        ("image", "negative", &image),
        ("named", "", named),
    ];
    for (name, model, configuration) in models {
        let at = folder.path().join(name);
        std::fs::create_dir_all(at.join("1")).unwrap();
        std::fs::write(at.join("config.pbtxt"), configuration).unwrap();
        std::fs::write(at.join("sides.txt"), "left\nright").unwrap();
        if !model.is_empty() {
            let file = format!("crates/frontends/serve/tests/data/{model}.onnx");
            std::fs::copy(repository(&file), at.join("1/model.onnx")).unwrap();
        }
    }
    let change = |options: &mut ServerOptions| {
        options.name = "triton".into();
        options.access = Access::default().model_control(true).shared_memory(true);
    };
    let served = serve_folder(folder, change, |_| {});
    let address = served.address.to_string();
    let script = repository("crates/frontends/serve/tests/triton.py");
    let output = Command::new(python)
        .arg(script)
        .args([&address, &address])
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

#[test]
fn calls_are_cancelled_and_have_deadlines() {
    let served = serve(
        |_| {},
        |options| {
            options.batches.delay = Duration::from_secs(60);
        },
    );
    if run_clients("cancel", &served) {
        // The call that was cancelled; the client whose deadline passed may have been answered first.
        served.wait_for_metric("tenon_in_flight", 0.0);
        assert!(served.metric("tenon_cancelled_total") >= 1.0);
        let executions = "nv_inference_exec_count{model=\"digits\",version=\"1\"}";
        assert_eq!(served.metric(executions), 0.0);
    }
}
