//! Citations of rules, such as `neff 2.8`, in sources and pages: each names a section of a page in `docs`.

use regex_lite::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages with numbered sections: the word of their citations, and the name of the file.
const PAGES: [(&str, &str); 5] = [
    ("backends", "backends"),
    ("bef", "bef"),
    ("neff", "neff"),
    ("netlist", "netlists"),
    ("nrt", "nrt"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources and pages below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "rs" || it == "md") {
            found.push(path);
        }
    }
}

/// The sections of a page, by their anchors.
fn sections(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
    let heading = Regex::new(r#"(?m)^##+ <a id="([0-9.]+)"></a>([0-9.]+) "#).unwrap();
    let mut found = BTreeSet::new();
    for captures in heading.captures_iter(&text) {
        assert_eq!(captures[1], captures[2], "docs/{page}.md");
        let is_new = found.insert(captures[1].to_owned());
        assert!(is_new, "docs/{page}.md has section {} twice", &captures[1]);
    }
    assert!(!found.is_empty(), "docs/{page}.md has no numbered section");
    found
}

#[test]
fn every_citation_names_a_section() {
    let mut paths = Vec::new();
    for folder in ["crates", "docs", "xtask", "fuzz/targets"] {
        files(&root().join(folder), &mut paths);
    }
    let (mut missing, mut count) = (Vec::new(), 0);
    for (word, page) in PAGES {
        let sections = sections(page);
        // One number, or several.
        let citation =
            format!(r"\b{word} ([0-9]+\.[0-9]+(?:\.[0-9]+)*(?:, [0-9]+\.[0-9]+(?:\.[0-9]+)*)*)");
        let citation = Regex::new(&citation).unwrap();
        for path in &paths {
            let text = fs::read_to_string(path).unwrap();
            for captures in citation.captures_iter(&text) {
                for number in captures[1].split(", ") {
                    count += 1;
                    if !sections.contains(number) {
                        missing.push(format!("{}: {word} {number}", path.display()));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(count > 50, "only {count} citations were found");
}

/// Sources are sections of pages, or published documents, never notes outside of the repository.
#[test]
fn every_source_is_in_the_repository_or_published() {
    let outside =
        Regex::new(r#"(?i)\bfacts\b|"seed,|\(seed, ["`{]|\bseed (?:neuron|buda)"#).unwrap();
    let mut paths = Vec::new();
    for folder in [
        "crates",
        "docs",
        "xtask",
        "fuzz/targets",
        "examples",
        "include",
    ] {
        files(&root().join(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        if path.ends_with("xtask/tests/citations.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if outside.is_match(line) {
                found.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
