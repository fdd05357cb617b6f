//! Compares the exports of the library, the declarations of the headers and the tables of the document.

mod common;

use common::{TestFolder, library, repository};
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Functions of the published interface (nrt 1.1).
const FUNCTIONS: usize = 146;

/// The functions that a header declares: names before a parenthesis.
fn declared(text: &str) -> BTreeSet<String> {
    let name = |text: &str| {
        let start = text.rfind(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        text[start.map_or(0, |at| at + 1)..].to_owned()
    };
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', '*', '/']));
    let code = code.collect::<Vec<_>>().join("\n");
    let names = code.match_indices('(').map(|(at, _)| name(&code[..at]));
    names
        .filter(|name| {
            ["nrt_", "nrta_", "nec_", "tenon_nrt_"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .collect()
}

fn headers() -> BTreeSet<String> {
    let folder = repository().join("include/nrt");
    let texts = fs::read_dir(folder).unwrap();
    texts
        .flat_map(|entry| declared(&fs::read_to_string(entry.unwrap().path()).unwrap()))
        .collect()
}

/// The functions of Tenon's own header.
fn extensions() -> BTreeSet<String> {
    declared(&fs::read_to_string(repository().join("include/tenon/nrt.h")).unwrap())
}

fn exported() -> BTreeSet<String> {
    let bytes = fs::read(library()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect()
}

#[test]
fn no_other_symbol_is_exported() {
    let exported = exported();
    let has_other_prefix = |name: &&String| {
        !["nrt_", "nrta_", "nec_", "tenon_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let others: Vec<_> = exported.iter().filter(has_other_prefix).collect();
    assert!(others.is_empty(), "{others:?}");
    let own: BTreeSet<_> = exported
        .iter()
        .filter(|name| name.starts_with("tenon_"))
        .collect();
    assert_eq!(own.len() + FUNCTIONS, exported.len());
}

#[test]
fn every_declared_function_is_exported_and_found_by_name() {
    let headers = headers();
    assert_eq!(headers.len(), FUNCTIONS);
    let exported = exported();
    let missing: Vec<_> = headers.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let extensions = extensions();
    assert_eq!(extensions.len(), 2);
    let missing: Vec<_> = extensions.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let folder = TestFolder::new();
    let program = folder.build("by_name");
    let names: Vec<&str> = headers.iter().map(String::as_str).collect();
    folder.run(&program, &names, &[]).assert_success();
}

/// Functions that return a status.
fn status_functions() -> BTreeSet<String> {
    let folder = repository().join("include/nrt");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("NRT_STATUS "));
        found.extend(lines.filter_map(|line| Some(line.split_once('(')?.0.to_owned())));
    }
    found
}

/// A golden file has the status of every function for zero arguments in each state of the process.
#[test]
fn every_function_accepts_null() {
    let statuses = status_functions();
    let mut headers = headers();
    // It would close the runtime before the other calls.
    assert!(headers.remove("nrt_close"));
    let name = |name: &String| {
        if statuses.contains(name) {
            name.clone()
        } else {
            format!("-{name}")
        }
    };
    let names: Vec<String> = headers.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = TestFolder::new();
    let program = folder.build("nothing");
    let ran = folder.run(&program, &names, &[]).assert_success();
    tenon_test_data::golden("crates/frontends/nrt/tests/data/nothing.txt", &ran.out);
}

#[test]
fn the_library_has_its_soname_and_no_symbol_versions() {
    let bytes = fs::read(library()).unwrap();
    let text = |needle: &[u8]| bytes.windows(needle.len()).any(|part| part == needle);
    assert!(text(b"\0libnrt.so.1\0"));
    let file = object::File::parse(&*bytes).unwrap();
    use object::ObjectSection;
    let sections: Vec<&str> = file
        .sections()
        .filter_map(|section| section.name().ok())
        .collect();
    // Clients linked against other symbol versions would not load the library.
    assert!(!sections.contains(&".gnu.version_d"), "{sections:?}");
}

/// Rows of the document: function, status, test.
fn document() -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(repository().join("docs/nrt.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
        let [_, status, _, test] = cells[..] else {
            return None;
        };
        Some((
            name.to_owned(),
            (status.to_owned(), test.trim_matches('`').to_owned()),
        ))
    };
    text.lines()
        .filter(|line| line.starts_with('|'))
        .filter_map(row)
        .collect()
}

#[test]
fn the_document_lists_every_function_with_its_test() {
    let document = document();
    let listed: BTreeSet<String> = document.keys().cloned().collect();
    assert_eq!(listed, &headers() | &extensions());
    for (name, (status, test)) in &document {
        assert!(
            ["real", "answered", "not applicable"].contains(&status.as_str()),
            "{name}: {status}"
        );
        let path = repository().join("crates/frontends/nrt/tests").join(test);
        let source = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name}: no {test}"));
        assert!(
            source.contains(&format!("{name}(")),
            "{test} does not call {name}"
        );
    }
}

/// Names and values of the statuses of the header, without `NRT_SUCCESS`.
fn statuses() -> BTreeMap<String, String> {
    let header = repository().join("include/nrt/nrt_status.h");
    let text = fs::read_to_string(header).unwrap();
    let status = |line: &str| {
        let (name, number) = line.trim().strip_prefix("NRT_")?.split_once(" = ")?;
        let digits = number.split(|char: char| !char.is_ascii_digit()).next()?;
        Some((format!("NRT_{name}"), digits.to_owned()))
    };
    let mut all: BTreeMap<_, _> = text.lines().filter_map(status).collect();
    assert_eq!(all.remove("NRT_SUCCESS").as_deref(), Some("0"));
    all
}

#[test]
fn the_document_lists_every_status_with_its_test_or_why_there_is_none() {
    let text = fs::read_to_string(repository().join("docs/nrt.md")).unwrap();
    let (_, text) = text.split_once("\n## Statuses\n").unwrap();
    let (text, _) = text.split_once("\n## ").unwrap();
    let mut listed = BTreeSet::new();
    let statuses = statuses();
    for row in text.lines().filter(|line| line.starts_with("| `NRT_")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let named = cells[0].split(", ").map(|name| name.trim_matches('`'));
        let named: Vec<&str> = named.collect();
        if let [_, _, test] = cells[..] {
            let path = repository().join("crates/frontends/nrt/tests");
            let source = fs::read_to_string(path.join(test.trim_matches('`'))).unwrap();
            for name in &named {
                let number = format!("\"{}\"", statuses[*name]);
                let is_tested = source.contains(name) || source.contains(&number);
                assert!(is_tested, "{test} has no {name}");
            }
        }
        listed.extend(named.into_iter().map(str::to_owned));
    }
    assert_eq!(listed, statuses.into_keys().collect());
}
