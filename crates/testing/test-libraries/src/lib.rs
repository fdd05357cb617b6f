//! Shared libraries for tests: C, compiled by the system's compiler during the test, and the examples in
//! Rust, which cargo builds in the folder of the test.

#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a test fails if its library cannot be built")]

use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_test_data::Answer;
pub use tenon_test_data::repository;

/// Compiles a C file into a shared library, with these definitions (`NAME` or `NAME=VALUE`) and the
/// repository's headers; returns its path.
pub fn compiled(source: &Path, library: &Path, definitions: &[&str]) -> PathBuf {
    compiled_with(&repository("include"), source, library, definitions)
}

/// The same with the headers of another folder.
pub fn compiled_with(
    headers: &Path,
    source: &Path,
    library: &Path,
    definitions: &[&str],
) -> PathBuf {
    let definitions = definitions.iter().map(|one| format!("-D{one}"));
    Answer::text(
        compiler(headers, &["-std=gnu11", "-O1", "-shared", "-fPIC"])
            .args(definitions)
            .arg(source)
            .arg("-o")
            .arg(library)
            .args(["-lm", "-pthread"]),
    );
    library.to_owned()
}

/// Checks the syntax of a file in a language (`c`, `c++`) and standard (`c11`), with all warnings as
/// errors.
pub fn check_syntax(source: &Path, language: &str, standard: &str) {
    check_syntax_with(&repository("include"), source, language, standard);
}

/// The same with the headers of another folder.
pub fn check_syntax_with(headers: &Path, source: &Path, language: &str, standard: &str) {
    let standard = format!("-std={standard}");
    let flags = ["-fsyntax-only", "-Wpedantic", "-x", language, &standard];
    Answer::text(compiler(headers, &flags).arg(source));
}

/// The folder with the header of a published version of the backend interface.
pub fn published_header(version: &str) -> PathBuf {
    repository("crates/backends/backend-abi/tests/published").join(version)
}

fn compiler(headers: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(headers).args(flags);
    command
}

/// The example in C, as `name` in `folder`.
pub fn example_in_c(folder: &Path, name: &str) -> PathBuf {
    let source = repository("examples/backend-c/example_backend.c");
    compiled(&source, &folder.join(name), &[])
}

/// The example of a device in C, as `name` in `folder`.
pub fn device_in_c(folder: &Path, name: &str) -> PathBuf {
    let source = repository("examples/backend-c/device_backend.c");
    compiled(&source, &folder.join(name), &[])
}

/// The example in C, built with the header of a published version of the interface.
pub fn example_of_version(version: &str, folder: &Path, name: &str) -> PathBuf {
    let source = repository("examples/backend-c/example_backend.c");
    compiled_with(&published_header(version), &source, &folder.join(name), &[])
}

/// The asynchronous example, as `name` in `folder`. The test depends on `tenon-async-backend`.
pub fn example_async(folder: &Path, name: &str) -> PathBuf {
    linked("libtenon_async_backend.so", &folder.join(name))
}

/// The example in Rust, as `name` in `folder`. The test depends on `tenon-example-backend`.
pub fn example_in_rust(folder: &Path, name: &str) -> PathBuf {
    linked("libtenon_example_backend.so", &folder.join(name))
}

/// `CpuRef` as a library, as `name` in `folder`. The test depends on `tenon-cpu-ref-backend`.
pub fn cpu_ref(folder: &Path, name: &str) -> PathBuf {
    linked("libtenon_cpu_ref_backend.so", &folder.join(name))
}

/// The functions of `crates/run/runtime/tests/data/cpu_nodes.c` as a library in `folder`.
pub fn cpu_nodes(folder: &Path) -> PathBuf {
    let source = repository("crates/run/runtime/tests/data/cpu_nodes.c");
    compiled(&source, &folder.join("libnodes.so"), &[])
}

/// Links a library in the folder of the test program under another name.
fn linked(library: &str, link: &Path) -> PathBuf {
    let program = std::env::current_exe().expect("the test's program");
    let built = program.with_file_name(library);
    assert!(built.is_file(), "{} is not built", built.display());
    std::os::unix::fs::symlink(built, link).expect("a link");
    link.to_owned()
}
