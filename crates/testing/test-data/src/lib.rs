//! What tests and benches of several crates share: files of the repository, golden files, programs that are run, an executor, and real
//! netlists, which are not part of the project: they are in the folder of `TENON_EXTRA_DATA`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a test prints why it is skipped")]
#![allow(
    clippy::panic,
    reason = "a test fails if a file or program it needs is missing"
)]

mod executor;
mod program;

pub use executor::block_on;
pub use program::{Answer, interpreter, python};

use std::path::{Path, PathBuf};

/// A file of the repository.
pub fn repository(path: impl AsRef<Path>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap_or(root).join(path)
}

/// Compares a text with a golden file of the repository. `TENON_BLESS=1` rewrites the file.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, text: &str) {
    let path = repository(path);
    if std::env::var_os("TENON_BLESS").is_some() {
        return std::fs::write(&path, text).expect("the golden file is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text,
        expected,
        "{}: TENON_BLESS=1 rewrites it",
        path.display()
    );
}

/// All netlists, sorted; prints a note if there are none.
pub fn netlists() -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(folder) = std::env::var_os("TENON_EXTRA_DATA") {
        collect(&Path::new(&folder).join("netlists"), &mut files);
    }
    if files.is_empty() {
        eprintln!("skipped: TENON_EXTRA_DATA does not name a folder of netlists");
    }
    files.sort();
    files
}

/// The netlists without deliberate errors.
pub fn good_netlists() -> Vec<PathBuf> {
    let mut files = netlists();
    files.retain(|path| !path.iter().any(|part| part == "error_tests"));
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            files.push(path);
        }
    }
}
