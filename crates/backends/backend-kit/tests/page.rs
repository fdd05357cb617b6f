//! The code blocks of docs/backends.md: joined, built with the documented command, and checked.

use std::path::Path;
use std::process::Command;
use tenon_backend_kit::{Outcome, check_library};

const PAGE: &str = include_str!("../../../../docs/backends.md");

/// The code blocks of a language, joined.
fn code_blocks(language: &str) -> String {
    let begin = format!("```{language}\n");
    let parts = PAGE.split(&begin).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_documented_backend_conforms() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acme_abs.c"), code_blocks("c")).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    std::os::unix::fs::symlink(include, folder.path().join("include")).unwrap();
    let commands = code_blocks("sh");
    let build = commands
        .lines()
        .find(|line| line.starts_with("cc "))
        .unwrap();
    let words: Vec<&str> = build.split(' ').collect();
    let done = Command::new(words[0])
        .args(&words[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
        .current_dir(folder.path())
        .output()
        .expect("a C compiler called cc");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );

    let checked = commands
        .lines()
        .find_map(|line| line.strip_prefix("tenon plugin check "));
    let library = folder.path().join(checked.unwrap());
    let report = check_library(&library);
    assert_eq!(report.count(Outcome::Failed), 0, "{report}");
    assert_eq!(report.backend, "AcmeAbs");
    let support = report
        .checks
        .iter()
        .find(|check| check.text == "supports Abs");
    assert!(support.is_some(), "{report}");
}
