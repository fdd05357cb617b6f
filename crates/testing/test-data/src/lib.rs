//! Real netlists, which are not part of the project. Tests and benches read them from the folder in
//! `TENON_EXTRA_DATA`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a test prints why it is skipped")]

use std::path::{Path, PathBuf};

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
