//! The tests of the Python package: builds the extension module and runs `python/tests` with pytest.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report of pytest, and the reason of a skip"
)]

#[path = "../src/python_package.rs"]
mod python_package;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    std::path::absolute(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

/// The folder of the profile that this test was built with.
fn build_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().to_owned()
}

/// Builds the extension module and returns the file.
fn build() -> PathBuf {
    let folder = build_folder();
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root());
    command.args(["build", "--quiet", "--locked", "--package", "tenon-python"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success());
    folder.join("lib_tenon.so")
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set (cargo xtask test sets it)");
        return;
    };
    let packages = build_folder().join("python-package");
    python_package::stage(&root(), &build(), &packages).unwrap();
    let done = Command::new(python)
        .current_dir(root().join("python"))
        .env("PYTHONPATH", &packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "pytest", "-p", "no:cacheprovider"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    println!("{text}");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
