//! Running the `tenon` program.

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The result of a run of the program.
#[derive(Debug)]
pub struct Answer {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// Runs `tenon` in `folder`.
pub fn tenon(folder: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    command
        .args(arguments)
        .current_dir(folder)
        // Without the cache of the user.
        .env("TENON_CACHE_DIR", "")
        .output()
        .expect("it starts")
        .into()
}

/// Runs `tenon`, which must succeed; returns its output.
#[track_caller]
pub fn done(folder: &Path, arguments: &[&str]) -> String {
    let answer = tenon(folder, arguments);
    assert_eq!(
        answer.status,
        Some(0),
        "tenon {arguments:?} failed:\n{}",
        answer.err
    );
    assert_eq!(answer.err, "", "a success says nothing on stderr");
    answer.out
}

/// A file of the repository.
#[allow(dead_code, reason = "each test file is a separate program")]
pub fn repository(path: &str) -> String {
    format!("{}/../../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// A tiny model of `tests/data`.
#[allow(dead_code, reason = "each test file is a separate program")]
pub fn tiny(name: &str) -> String {
    format!("{}/tests/data/{name}.onnx", env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder.
#[allow(dead_code, reason = "not every test program needs one")]
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Compiles a model of the repository into `folder` as `model.neff`.
#[allow(dead_code, reason = "each test file is a separate program")]
#[track_caller]
pub fn package(folder: &Path, model: &str) {
    done(folder, &["compile", &repository(model), "-o", "model.neff"]);
}

/// The processes that a process has started.
#[allow(dead_code, reason = "not every test program needs it")]
pub fn children(parent: u32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    ids.filter(is_child).collect()
}
