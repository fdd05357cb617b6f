//! Programs of other projects judge the server: kserve's clients, and schemathesis, which makes requests from `/openapi.json`.
//!
//! `TENON_CLIENTS_PYTHON` names an interpreter with both.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

mod common;

use common::{model, pixels, repository, scores, serve};
use std::path::PathBuf;
use std::process::{Command, Output};
use tenon::Tensor;
use tenon::tensor::npy::write_npy;

fn python() -> Option<PathBuf> {
    let python = std::env::var_os("TENON_CLIENTS_PYTHON");
    if python.is_none() {
        eprintln!(
            "skipped: TENON_CLIENTS_PYTHON names no interpreter with kserve and schemathesis"
        );
    }
    python.map(PathBuf::from)
}

/// The output of a program that must succeed.
fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

#[test]
fn clients_of_kserve() {
    let Some(python) = python() else { return };
    let served = serve(|_| {}, |_| {});
    let model = model();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, tensor: Tensor| write_npy(folder.path().join(name), &tensor).unwrap();
    let images: Vec<f32> = (0..4).flat_map(pixels).collect();
    write(
        "image.npy",
        Tensor::from_slice([4, 1, 8, 8], &images).unwrap(),
    );
    let expected: Vec<f32> = (0..4).flat_map(|image| scores(&model, image)).collect();
    write(
        "scores.npy",
        Tensor::from_slice([4, 10], &expected).unwrap(),
    );
    let address = served.address.to_string();
    let output = Command::new(&python)
        .arg(repository("crates/frontends/serve/tests/judges.py"))
        .args([&address, &address])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(succeeded(&output).ends_with("done\n"));
}

#[test]
fn requests_made_from_the_openapi_document() {
    let Some(python) = python() else { return };
    let served = serve(|_| {}, |_| {});
    let folder = tempfile::tempdir().unwrap();
    // It cannot know the names and shapes of a model, so that requests that fit the document may be refused.
    let excluded = "positive_data_acceptance";
    let output = Command::new(python.with_file_name("schemathesis"))
        .current_dir(folder.path())
        .arg("run")
        .arg(format!("http://{}/openapi.json", served.address))
        .args(["--checks", "all", "--exclude-checks", excluded])
        .args([
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            "20",
        ])
        .args(["--seed", "1", "--no-color", "--generation-database", "none"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .output()
        .unwrap();
    let text = succeeded(&output);
    assert!(text.contains("No issues found"), "{text}");
}
