//! Libraries that the tests build with the C compiler, wherever they run.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The fixture of `tests/fixtures/variant.c` with these definitions, as `name` in `folder`.
pub fn variant(folder: &Path, name: &str, definitions: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/variant.c");
    compile(Path::new(source), &folder.join(name), definitions)
}

/// The example in C, as `name` in `folder`.
pub fn example_in_c(folder: &Path, name: &str) -> PathBuf {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/backend-c/example_backend.c"
    );
    compile(Path::new(source), &folder.join(name), &[])
}

fn compile(source: &Path, library: &Path, definitions: &[&str]) -> PathBuf {
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include"))
        .args(
            definitions
                .iter()
                .map(|definition| format!("-D{definition}")),
        )
        .arg(source)
        .arg("-o")
        .arg(library)
        .output()
        .expect("a C compiler called cc");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    library.to_owned()
}
