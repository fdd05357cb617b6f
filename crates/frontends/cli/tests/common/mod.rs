//! Running the `tenon` program.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file is a separate program"
)]

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
pub use tenon_test_data::Answer;

/// `tenon` in `folder`, without the cache of the user.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    command.args(arguments).current_dir(folder);
    command.env("TENON_CACHE_DIR", "");
    command
}

/// Runs `tenon` in `folder`.
pub fn tenon(folder: &Path, arguments: &[&str]) -> Answer {
    Answer::of(&mut command(folder, arguments))
}

/// Runs `tenon` in `folder` with 4 GB of address space.
pub fn limited(folder: &Path, arguments: &[&str]) -> Answer {
    in_shell("ulimit -v 4194304", folder, arguments)
}

/// Runs `tenon` in `folder` by a shell, after other commands.
pub fn in_shell(before: &str, folder: &Path, arguments: &[&str]) -> Answer {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before}; exec \"$@\""), "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_tenon")).args(arguments);
    Answer::of(shell.current_dir(folder))
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
pub fn repository(path: &str) -> String {
    tenon_test_data::repository(path).display().to_string()
}

/// A tiny model of `tests/data`.
pub fn tiny(name: &str) -> String {
    repository(&format!("crates/frontends/cli/tests/data/{name}.onnx"))
}

/// An empty folder.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Compiles a model of the repository into `folder` as `model.neff`.
#[track_caller]
pub fn package(folder: &Path, model: &str) {
    done(folder, &["compile", &repository(model), "-o", "model.neff"]);
}

/// The processes that a process has started.
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
