//! Citations of rules, such as `neff 2.8`, in sources and pages: each names a section of a page in `docs`.

use regex_lite::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tenon_base::Citation;

/// The words of pages with numbered sections.
const PAGES: [&str; 5] = ["backends", "bef", "neff", "netlist", "nrt"];

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

/// The numbered sections of a page.
fn sections(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let heading = Regex::new(r#"(?m)^##+ <a id="([0-9.]+)"></a>([0-9.]+) "#).unwrap();
    let mut found = BTreeSet::new();
    for captures in heading.captures_iter(&text) {
        assert_eq!(captures[1], captures[2], "{page}");
        let is_new = found.insert(captures[1].to_owned());
        assert!(is_new, "{page} has section {} twice", &captures[1]);
    }
    found
}

/// The anchors that a page has for headings of words: the words in lower case with hyphens.
fn titles(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let headings = text.lines().filter(|line| line.starts_with("##"));
    let anchor = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        title.replace(' ', "-").chars().filter(kept).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_citation_names_a_section() {
    let mut paths = Vec::new();
    for folder in ["crates", "docs", "xtask", "fuzz/targets"] {
        files(&root().join(folder), &mut paths);
    }
    let (mut missing, mut count) = (Vec::new(), 0);
    for word in PAGES {
        let page = Citation::all(word).next().unwrap().page();
        let sections = sections(&page);
        assert!(!sections.is_empty(), "{page} has no numbered section");
        // One number, or several.
        let citation =
            format!(r"\b{word} [0-9]+\.[0-9]+(?:\.[0-9]+)*(?:, [0-9]+\.[0-9]+(?:\.[0-9]+)*)*");
        let citation = Regex::new(&citation).unwrap();
        for path in &paths {
            let text = fs::read_to_string(path).unwrap();
            for found in citation.find_iter(&text) {
                for link in Citation::all(found.as_str()) {
                    count += 1;
                    if !sections.contains(link.anchor.unwrap()) {
                        missing.push(format!("{}: {link}", path.display()));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(count > 50, "only {count} citations were found");
}

/// The links that `tenon verify --rules` and docs/neff.md have for a rule.
#[test]
fn the_sources_of_rules_are_sections() {
    for rule in tenon_neff::Rule::ALL {
        for link in Citation::all(rule.source) {
            let page = link.page();
            let is_section =
                |anchor: &str| sections(&page).contains(anchor) || titles(&page).contains(anchor);
            assert!(link.anchor.is_none_or(is_section), "{}: {link}", rule.id);
        }
    }
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
