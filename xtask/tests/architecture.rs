//! Every manifest against the crate table of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A row of the table.
struct Row {
    folder: String,
    imports: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The full name of a crate that the table's last column abbreviates.
fn package(name: &str) -> String {
    if name == "tenon" {
        name.to_owned()
    } else {
        format!("tenon-{name}")
    }
}

/// A section of ARCHITECTURE.md.
fn section(title: &str) -> String {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = page.split_once(&format!("\n## {title}\n")).unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

/// The rows of the crate table in their order.
fn rows() -> Vec<(String, Row)> {
    let section = section("Crates");
    let rows = section.lines().filter(|line| line.starts_with("| `tenon"));
    let rows: Vec<_> = rows
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, folder, _, imports] = cells.as_slice() else {
                panic!("a row of four cells: {line}");
            };
            let imports = imports.split(", ").filter(|&import| import != "–");
            let row = Row {
                folder: folder.to_string(),
                imports: imports.map(package).collect(),
            };
            (name.trim_matches('`').to_owned(), row)
        })
        .collect();
    assert!(rows.len() > 25, "only {} rows were found", rows.len());
    rows
}

/// The dependencies of a manifest that are crates of the project, those of tests left out.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut in_dependencies = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line == "[dependencies]" || line.ends_with(".dependencies]");
        } else if in_dependencies && line.starts_with("tenon") {
            found.insert(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn the_crate_table_lists_every_crate_and_its_folder() {
    let listed: BTreeMap<_, _> = rows().into_iter().collect();
    let mut found = BTreeSet::new();
    for layer in std::fs::read_dir(root().join("crates")).unwrap() {
        for folder in std::fs::read_dir(layer.unwrap().path()).unwrap() {
            let folder = folder.unwrap().path();
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let name = manifest.split('"').nth(1).unwrap().to_owned();
            let row = listed.get(&name);
            let row = row.unwrap_or_else(|| panic!("`{name}` has no row in ARCHITECTURE.md"));
            assert!(folder.ends_with(&row.folder), "{name}: {}", row.folder);
            found.insert(name);
        }
    }
    let without_folder = listed.keys().filter(|name| !found.contains(*name));
    assert_eq!(without_folder.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn each_manifest_imports_only_what_its_row_names() {
    let mut reachable: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, row) in rows() {
        let mut allowed = BTreeSet::from(["tenon-base".to_owned()]);
        for import in &row.imports {
            let Some(below) = reachable.get(import) else {
                wrong.push(format!("{name}: `{import}` is not above it in the table"));
                continue;
            };
            allowed.extend(below.iter().cloned().chain([import.clone()]));
        }
        let manifest = root().join(&row.folder).join("Cargo.toml");
        let used = dependencies(&std::fs::read_to_string(manifest).unwrap());
        let outside: Vec<_> = used.difference(&allowed).collect();
        if !outside.is_empty() {
            wrong.push(format!("{name}: its row does not allow {outside:?}"));
        }
        let is_used = |import: &&String| used.contains(*import);
        let unused: Vec<_> = row.imports.iter().filter(|name| !is_used(name)).collect();
        if !unused.is_empty() {
            wrong.push(format!("{name}: its manifest does not use {unused:?}"));
        }
        reachable.insert(name, allowed);
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The rows of the table of unsafe code: a crate, and its files and folders below `src`.
fn rows_of_unsafe_code() -> Vec<(String, Vec<String>)> {
    let section = section("Unsafe code");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let words: Vec<_> = line.split('`').skip(1).step_by(2).collect();
        let (name, files) = words.split_first().unwrap();
        let all = line.contains("| all |").then(String::new);
        let files = files.iter().map(|file| file.to_string()).chain(all);
        (name.to_string(), files.collect())
    })
    .collect()
}

/// Every Rust source below `folder`, relative to it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|name| name == "rs") {
            found.push(path);
        }
    }
    found
}

/// Whether a source has unsafe code, comments left out.
fn has_unsafe_code(text: &str) -> bool {
    const FORMS: [&str; 6] = [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "unsafe trait",
        "#[unsafe(",
    ];
    let code = text.lines().map(|line| line.split("//").next().unwrap());
    code.into_iter()
        .any(|line| FORMS.iter().any(|form| line.contains(form)))
}

#[test]
fn unsafe_code_is_only_where_the_table_names_it() {
    let table = rows_of_unsafe_code();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, row) in rows() {
        let folder = root().join(row.folder).join("src");
        let allowed: Vec<&String> = table
            .iter()
            .filter(|(of, _)| *of == name)
            .flat_map(|(_, files)| files)
            .collect();
        let mut crate_has_unsafe_code = false;
        for path in sources(&folder) {
            let text = std::fs::read_to_string(&path).unwrap();
            if !has_unsafe_code(&text) {
                continue;
            }
            crate_has_unsafe_code = true;
            let file = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            let is_test = file.contains("tests");
            let place = allowed
                .iter()
                .find(|place| file.starts_with(place.as_str()));
            match place {
                Some(place) => drop(used.insert((name.clone(), place.to_string()))),
                None if is_test => {}
                None => wrong.push(format!("{name}: {file} has no row")),
            }
        }
        let root_file = ["lib.rs", "main.rs"].map(|file| folder.join(file));
        let root_file = root_file.iter().find(|path| path.exists()).unwrap();
        let forbids = std::fs::read_to_string(root_file).unwrap();
        if !crate_has_unsafe_code && !forbids.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{name}: has no unsafe code and does not forbid it"));
        }
    }
    for (name, files) in table {
        for file in files {
            if !used.contains(&(name.clone(), file.clone())) {
                wrong.push(format!("{name}: {file} has no unsafe code"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The runtime opens packages without the readers of other formats and without the compiler.
#[test]
fn the_runtime_depends_on_no_source_format() {
    let rows: BTreeMap<_, _> = rows().into_iter().collect();
    let mut reached = BTreeSet::new();
    let mut next = vec!["tenon-nrt".to_owned(), "tenon-monitor".to_owned()];
    while let Some(name) = next.pop() {
        let manifest = root().join(&rows[&name].folder).join("Cargo.toml");
        let used = dependencies(&std::fs::read_to_string(manifest).unwrap());
        next.extend(used.into_iter().filter(|name| reached.insert(name.clone())));
    }
    for name in ["tenon-onnx", "tenon-netlist", "tenon-compiler"] {
        assert!(!reached.contains(name), "`tenon-nrt` depends on `{name}`");
    }
}
