//! The tests of the Python package: builds the extension module and runs `python/tests` with pytest.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report of pytest, and the reason of a skip"
)]

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

/// Copies the Python modules and the extension module into the package `tenon` of a folder, with the entry points of the
/// manifest.
fn stage(library: &Path, packages: &Path) {
    let _ = std::fs::remove_dir_all(packages);
    let metadata = packages.join("tenon.dist-info");
    std::fs::create_dir_all(&metadata).unwrap();
    let name = format!("Name: tenon\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
    std::fs::write(metadata.join("METADATA"), name).unwrap();
    let manifest = std::fs::read_to_string(root().join("python/pyproject.toml")).unwrap();
    let entry_points = manifest.split("[project.entry-points.").nth(1).unwrap();
    let entry_points = entry_points.split("\n\n").next().unwrap();
    let entry_points = format!("[{}\n", entry_points.replace('"', ""));
    std::fs::write(metadata.join("entry_points.txt"), entry_points).unwrap();
    let folder = packages.join("tenon");
    std::fs::create_dir_all(&folder).unwrap();
    for file in std::fs::read_dir(root().join("python/python/tenon")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    std::fs::copy(library, folder.join("_tenon.abi3.so")).unwrap();
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set (cargo xtask test sets it)");
        return;
    };
    let packages = build_folder().join("python-package");
    stage(&build(), &packages);
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
