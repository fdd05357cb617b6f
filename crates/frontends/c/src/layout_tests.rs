//! Structs, constants and functions are those of the header, and those of the versions that were published.

use crate::status::code;
use crate::structs::LAYOUTS;
use crate::table::{Functions, MAJOR, MINOR, NAMES};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tenon::ErrorKind;
use tenon_backend_abi::TYPES;

const HEADER: &str = include_str!("../../../../include/tenon/tenon.h");

/// The name of a member in C.
fn member_in_c(member: &str) -> &str {
    match member {
        "dtype" => "type",
        other => other,
    }
}

/// The offset of each function in the table.
fn function_offsets() -> impl Iterator<Item = (&'static str, usize)> {
    let first = std::mem::offset_of!(Functions, version);
    let offset = move |at: usize| first + at * size_of::<fn()>();
    NAMES
        .iter()
        .enumerate()
        .map(move |(at, name)| (*name, offset(at)))
}

/// Every constant of the header, with its value here.
fn constants() -> Vec<(String, i64)> {
    use ErrorKind::*;
    let kinds = [
        ("USAGE", Usage),
        ("INVALID_ARGUMENT", InvalidArgument),
        ("INVALID_MODEL", InvalidModel),
        ("INVALID_PACKAGE", InvalidPackage),
        ("INVALID_PROGRAM", InvalidProgram),
        ("UNSUPPORTED_VERSION", UnsupportedVersion),
        ("UNSUPPORTED", Unsupported),
        ("NOT_FOUND", NotFound),
        ("OUT_OF_BOUNDS", OutOfBounds),
        ("IO", Io),
        ("OUT_OF_MEMORY", OutOfMemory),
        ("INVALID_HANDLE", InvalidHandle),
        ("QUEUE_FULL", QueueFull),
        ("CLOSED", Closed),
        ("BAD_INPUT", BadInput),
        ("NOT_A_NUMBER", NotANumber),
        ("CANCELLED", Cancelled),
        ("DEADLINE_EXCEEDED", DeadlineExceeded),
        ("EXECUTION_FAILED", ExecutionFailed),
        ("DEVICE_LOST", DeviceLost),
        ("INTERNAL", Internal),
    ];
    let codes = kinds.map(|(name, kind)| (name.to_owned(), i64::from(code(kind))));
    let types = TYPES.iter().enumerate();
    let types = types.map(|(at, name)| (name.to_uppercase(), at as i64 + 1));
    // Of other backends alone.
    let types = types.filter(|(name, _)| name != "F32R" && name != "TF32");
    let others = [
        ("OK", 0),
        ("API_MAJOR", i64::from(MAJOR)),
        ("API_MINOR", i64::from(MINOR)),
        ("TENSOR", 1),
        ("OTHER_KIND", 2),
        ("PART_PLACE", 1),
        ("PART_MESSAGE", 2),
        ("PART_EXPECTED", 3),
        ("PART_FOUND", 4),
        ("PART_HELP", 5),
        ("STATES_NONE", 0),
        ("STATES_AUTOMATIC", 1),
        ("STATES_LISTED", 2),
        ("CALIBRATION_MINMAX", 0),
        ("CALIBRATION_PERCENTILE", 1),
        ("CALIBRATION_ENTROPY", 2),
        ("PRIORITY_NORMAL", 0),
        ("PRIORITY_HIGH", 1),
        ("PRIORITY_LOW", 2),
    ];
    let others = others.map(|(name, value)| (name.to_owned(), value));
    let all = codes.into_iter().chain(types).chain(others);
    all.map(|(name, value)| (format!("TENON_{name}"), value))
        .collect()
}

/// Structs, functions and constants as text, one a line.
fn description() -> String {
    let mut text = String::new();
    for (name, size, members) in LAYOUTS {
        writeln!(text, "struct {name} {size}").unwrap();
        for (member, offset) in *members {
            writeln!(text, "member {name}.{} {offset}", member_in_c(member)).unwrap();
        }
    }
    for (name, offset) in function_offsets() {
        writeln!(text, "function {name} {offset}").unwrap();
    }
    for (name, value) in constants() {
        writeln!(text, "constant {name} {value}").unwrap();
    }
    text
}

#[test]
fn the_declarations_are_those_of_the_header() {
    let mut text = String::from("#include <tenon/tenon.h>\n#include <tenon/backend.h>\n");
    let mut assert = |left: String, right: i64| {
        writeln!(text, "CHECK({left} == {right}, \"{left}\");").unwrap();
    };
    for (name, size, members) in LAYOUTS {
        assert(format!("sizeof({name})"), *size as i64);
        for (member, offset) in *members {
            assert(
                format!("offsetof({name}, {})", member_in_c(member)),
                *offset as i64,
            );
        }
    }
    assert(
        "sizeof(tenon_functions)".into(),
        size_of::<Functions>() as i64,
    );
    for (name, offset) in function_offsets() {
        assert(format!("offsetof(tenon_functions, {name})"), offset as i64);
    }
    for (name, value) in constants() {
        assert(name, value);
    }
    let folder = tempfile::tempdir().unwrap();
    for (language, standard, keyword) in [
        ("c", "c11", "_Static_assert"),
        ("c", "c17", "_Static_assert"),
        ("c++", "c++17", "static_assert"),
    ] {
        let source = folder.path().join("layout.c");
        std::fs::write(&source, format!("#define CHECK {keyword}\n{text}")).unwrap();
        tenon_test_libraries::check_syntax(&source, language, standard);
    }
}

#[test]
fn the_header_has_nothing_else() {
    let structs: Vec<&str> = HEADER
        .split("typedef struct ")
        .skip(1)
        .filter_map(|text| text.split_once(" {")?.0.lines().next())
        .filter(|name| !name.contains(['*', ' ', ';']))
        .collect();
    let mut known: Vec<&str> = LAYOUTS.iter().map(|(name, ..)| *name).collect();
    known.push("tenon_functions");
    assert_eq!(structs, known);
    let functions: Vec<&str> = HEADER
        .split_once("typedef struct tenon_functions {")
        .unwrap()
        .1
        .split("(*")
        .skip(1)
        .filter_map(|text| Some(text.split_once(')')?.0))
        .collect();
    assert_eq!(functions, NAMES);
    let names = HEADER.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let known: Vec<String> = constants().into_iter().map(|(name, _)| name).collect();
    let not_constants = ["TENON_TENON_H", "TENON_INIT", "TENON_BACKEND_PATH"];
    for name in names.filter(|name| name.starts_with("TENON_")) {
        let is_known = known.iter().any(|known| known == name) || not_constants.contains(&name);
        assert!(is_known, "{name}");
    }
}

#[test]
fn the_page_has_every_function() {
    let page = include_str!("../../../../docs/c.md");
    for name in NAMES {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

fn published(version: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published");
    folder.join(format!("{version}.txt"))
}

/// All versions of the major version that were published; each later one keeps what they have.
const PUBLISHED: &[&str] = &["1.0", "1.1"];

/// The file of the current version is a golden file; `TENON_BLESS=1` rewrites it.
#[test]
fn published_versions_are_kept() {
    let current = format!("{MAJOR}.{MINOR}");
    assert_eq!(PUBLISHED.last(), Some(&current.as_str()));
    let found = description();
    if std::env::var_os("TENON_BLESS").is_some() {
        std::fs::create_dir_all(published(&current).parent().unwrap()).unwrap();
        std::fs::write(published(&current), &found).unwrap();
    }
    // Structs with a size may have grown.
    let may_grow = |line: &str| {
        let mut sized = LAYOUTS
            .iter()
            .filter(|(_, _, members)| members.first().is_some_and(|(member, _)| *member == "size"));
        sized.any(|(name, ..)| line.starts_with(&format!("struct {name} ")))
    };
    for version in PUBLISHED {
        let before = std::fs::read_to_string(published(version)).unwrap();
        for line in before.lines() {
            let is_kept = found.lines().any(|found| found == line);
            let is_minor = line.starts_with("constant TENON_API_MINOR");
            assert!(
                is_kept || *version != current && (may_grow(line) || is_minor),
                "version {version} has \"{line}\""
            );
        }
    }
    let before = std::fs::read_to_string(published(&current)).unwrap();
    assert_eq!(before, found, "a new minor version is needed for additions");
}
