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
    let layers = std::fs::read_dir(root().join("crates")).unwrap();
    let folders = layers.flat_map(|layer| std::fs::read_dir(layer.unwrap().path()).unwrap());
    let folders = folders.map(|folder| folder.unwrap().path());
    for folder in folders.chain([root().join("python")]) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = manifest.split('"').nth(1).unwrap().to_owned();
        let row = listed.get(&name);
        let row = row.unwrap_or_else(|| panic!("`{name}` has no row in ARCHITECTURE.md"));
        assert!(folder.ends_with(&row.folder), "{name}: {}", row.folder);
        found.insert(name);
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

/// SECURITY.md, "No network, no telemetry".
#[test]
fn only_servers_use_sockets() {
    const FORMS: [&str; 6] = [
        "std::net",
        "tokio::net",
        "hyper::",
        "reqwest",
        "ureq::",
        "libc::socket",
    ];
    let folders = ["crates", "python/src"].map(|folder| root().join(folder));
    let mut users = BTreeSet::new();
    for path in folders.iter().flat_map(|folder| sources(folder)) {
        let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().map(|line| line.split("//").next().unwrap());
        if !path.iter().any(is_test)
            && lines.any(|line| FORMS.iter().any(|form| line.contains(form)))
        {
            let path = path.strip_prefix(root()).unwrap();
            // The whole crate is a server, which `tenon serve` starts.
            if !path.starts_with("crates/frontends/serve") {
                users.insert(path.display().to_string());
            }
        }
    }
    let expected =
        ["http.rs", "http_absent.rs"].map(|file| format!("crates/run/monitor/src/{file}"));
    assert_eq!(users, BTreeSet::from(expected));
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

/// The code of a source file: without comments and without its module of tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that follow `prefix::` in paths and in `use` lists.
fn names_in(code: &str, prefix: &str) -> BTreeSet<String> {
    let prefix = format!("{prefix}::");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(&prefix) {
        let is_start = |before: char| !before.is_alphanumeric() && !"_:".contains(before);
        if !code[..at].chars().next_back().is_none_or(is_start) {
            continue;
        }
        let path = &code[at + prefix.len()..];
        let list = path.strip_prefix('{').map(|list| {
            let list = list.split(';').next().unwrap();
            let mut depth = 0;
            list.split(move |c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            })
        });
        let items: Vec<&str> = list.map_or_else(|| vec![path], Iterator::collect);
        for item in items {
            let name = item
                .trim()
                .split(|c: char| !c.is_alphanumeric() && c != '_');
            found.extend(
                name.take(1)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
            );
        }
    }
    found
}

/// A graph of modules: each with the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The modules that use one another, directly or through others; empty without a cycle.
fn modules_in_cycles(mut uses: Uses) -> Vec<String> {
    // Kahn's order: modules that use no others are removed until none is left.
    loop {
        let is_leaf = |used: &BTreeSet<String>| used.is_empty();
        let leaves: Vec<String> = uses
            .iter()
            .filter(|(_, used)| is_leaf(used))
            .map(|(name, _)| name.clone())
            .collect();
        if leaves.is_empty() {
            return uses.into_keys().collect();
        }
        for leaf in leaves {
            uses.remove(&leaf);
            for used in uses.values_mut() {
                used.remove(&leaf);
            }
        }
    }
}

/// The modules of `tenon-bef` (text, bytes, verifier, syntax, ...) with the modules that they use.
fn modules_of_bef(folder: &Path) -> Uses {
    let lib = std::fs::read_to_string(folder.join("lib.rs")).unwrap();
    let modules = lib.lines().filter_map(|line| line.strip_prefix("mod "));
    let modules: BTreeSet<String> = modules.map(|name| name.replace(';', "")).collect();
    // The names that the root exports, each with its module.
    let mut exports = BTreeMap::new();
    for export in lib.split("pub use ").skip(1) {
        let (module, _) = export.split_once("::").unwrap();
        for name in names_in(export, module) {
            exports.insert(name, module.to_owned());
        }
    }
    let mut uses = Uses::new();
    for path in sources(folder) {
        let file = path.strip_prefix(folder).unwrap().to_str().unwrap();
        let module = file.split(['/', '.']).next().unwrap();
        if ["lib", "arbitrary"].contains(&module) || file.ends_with("tests.rs") {
            continue;
        }
        let code = code(&std::fs::read_to_string(&path).unwrap());
        let used = names_in(&code, "crate").into_iter().filter_map(|name| {
            let is_module = modules.contains(&name);
            is_module
                .then(|| name.clone())
                .or_else(|| exports.get(&name).cloned())
        });
        let entry = uses.entry(module.to_owned()).or_default();
        entry.extend(used.filter(|used| used != module));
    }
    uses
}

/// The files of a folder with the siblings that they use; `mod.rs`, which uses all, left out.
fn siblings(folder: &Path) -> Uses {
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let files: BTreeMap<String, PathBuf> = files
        .map(|path| (stem(&path), path))
        .filter(|(name, path)| path.is_file() && !["mod", "tests"].contains(&name.as_str()))
        .collect();
    let used = |name: &String, path: &PathBuf| {
        let code = code(&std::fs::read_to_string(path).unwrap());
        let names = names_in(&code, "super").into_iter();
        names
            .filter(|used| files.contains_key(used) && used != name)
            .collect()
    };
    files
        .iter()
        .map(|(name, path)| (name.clone(), used(name, path)))
        .collect()
}

/// The verifier is below the parser of the text form, which calls it, and the lexical layer below both.
#[test]
fn the_modules_of_bef_have_no_cycles() {
    let folder = root().join("crates/formats/bef/src");
    let modules = modules_of_bef(&folder);
    assert!(modules["text"].contains("verify") && modules["verify"].contains("syntax"));
    assert_eq!(modules_in_cycles(modules), Vec::<String>::new());
    for name in ["bytes", "rewrite", "streams", "syntax", "text", "verify"] {
        let files = siblings(&folder.join(name));
        assert!(!files.is_empty());
        assert_eq!(modules_in_cycles(files), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn modules_that_use_each_other_are_found() {
    let text = "use crate::{a, b::{c, d}, e};\nlet x = crate::f::g();\nmycrate::h();";
    let found = names_in(text, "crate");
    assert_eq!(found.into_iter().collect::<String>(), "abef");
    let uses = |list: &[&str]| list.iter().map(|name| name.to_string()).collect();
    let graph = [
        ("text", uses(&["verify"])),
        ("verify", uses(&["text"])),
        ("name", uses(&[])),
    ];
    let graph = graph.map(|(name, used)| (name.to_owned(), used));
    assert_eq!(modules_in_cycles(BTreeMap::from(graph)), ["text", "verify"]);
}
