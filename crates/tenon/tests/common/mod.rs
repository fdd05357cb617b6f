//! The real netlists that are not part of the project.

use std::path::{Path, PathBuf};

/// The good ones under `TENON_EXTRA_DATA`, sorted; says so when there are none.
pub fn samples() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("TENON_EXTRA_DATA") else {
        eprintln!("skipped: TENON_EXTRA_DATA does not name a folder of netlists");
        return Vec::new();
    };
    let mut files = Vec::new();
    collect(&Path::new(&folder).join("netlists"), &mut files);
    files.retain(|path| !path.iter().any(|part| part == "error_tests"));
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            files.push(path);
        }
    }
}
