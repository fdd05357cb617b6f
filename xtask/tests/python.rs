//! The tests of the Python package and of the commands in the pages: builds the extension module, runs `python/tests` with pytest.

#![allow(clippy::print_stdout, reason = "the report of pytest")]

#[path = "../src/python_package.rs"]
mod python_package;

use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_test_data::Answer;

fn root() -> PathBuf {
    std::path::absolute(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

/// The folder of the profile that this test was built with.
fn build_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().to_owned()
}

/// Builds the extension module and returns the file; and the program and the libraries of the commands that pages have.
fn build() -> PathBuf {
    let folder = build_folder();
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root());
    command.args(["build", "--quiet", "--locked"]);
    let packages = ["tenon-python", "tenon-cli", "tenon-c", "tenon-nrt"];
    command.args(packages.iter().flat_map(|name| ["--package", name]));
    if folder.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success());
    folder.join("lib_tenon.so")
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let Some(python) = tenon_test_data::interpreter() else {
        return;
    };
    let packages = build_folder().join("python-package");
    python_package::stage(&root(), &build(), &packages).unwrap();
    let mut pytest = Command::new(python);
    pytest
        .current_dir(root().join("python"))
        .env("PYTHONPATH", &packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TENON_COMMAND", build_folder().join("tenon"))
        .args(["-m", "pytest", "-p", "no:cacheprovider"]);
    println!("{}", Answer::text(&mut pytest));
}
