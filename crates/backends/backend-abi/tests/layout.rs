//! Structs and constants of the bindings against those that a C compiler reads from the header.

use std::fmt::Write;
use tenon_backend_abi::{
    LAYOUTS, MAJOR, MINOR, NO_VALUE, TYPES, cpu, import, kind, reason, scope, status, value,
};

/// The versions before this one. Their headers are never changed.
const PUBLISHED: [&str; 3] = ["1.0", "1.1", "1.2"];

/// A C file of static assertions that all layouts and constants are those of a header; members and constants that the
/// header lacks are left out if it is of an older version.
fn assertions(older: Option<&str>) -> String {
    let mut text = String::from("#include <tenon/backend.h>\n");
    let mut assert = |left: String, relation: &str, right: i64| {
        writeln!(
            text,
            "_Static_assert({left} {relation} {right}, \"{left} {relation} {right} does not hold\");"
        )
        .unwrap();
    };
    if let Some(header) = older {
        let has = |text: &str, name: &str| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            text.split(|c: char| !is_word(c)).any(|word| word == name)
        };
        for layout in LAYOUTS {
            let Some((_, body)) = header.split_once(&format!("typedef struct {} {{", layout.name))
            else {
                continue;
            };
            let body = body.split_once(&format!("}} {};", layout.name)).unwrap().0;
            assert(format!("sizeof({})", layout.name), "<=", layout.size as i64);
            for (member, offset) in layout.members {
                if has(body, member) {
                    let member = format!("offsetof({}, {member})", layout.name);
                    assert(member, "==", *offset as i64);
                }
            }
        }
        for (name, value) in constants() {
            if has(header, &name) && name != "TENON_BACKEND_MINOR" {
                assert(name, "==", value);
            }
        }
        return text;
    }
    for layout in LAYOUTS {
        assert(format!("sizeof({})", layout.name), "==", layout.size as i64);
        for (member, offset) in layout.members {
            let member = format!("offsetof({}, {member})", layout.name);
            assert(member, "==", *offset as i64);
        }
    }
    for (name, value) in constants() {
        assert(name, "==", value);
    }
    text
}

/// Every constant and its value.
fn constants() -> Vec<(String, i64)> {
    let types = TYPES.iter().enumerate().map(|(index, name)| {
        let name = format!("TENON_TYPE_{}", name.to_uppercase());
        (name, index as i64 + 1)
    });
    let others = [
        ("BACKEND_MAJOR", i64::from(MAJOR)),
        ("BACKEND_MINOR", i64::from(MINOR)),
        ("NO_VALUE", i64::from(NO_VALUE)),
        ("STATUS_FAILED", status::FAILED.into()),
        ("STATUS_UNSUPPORTED", status::UNSUPPORTED.into()),
        ("STATUS_INVALID", status::INVALID.into()),
        ("STATUS_OUT_OF_MEMORY", status::OUT_OF_MEMORY.into()),
        ("STATUS_UNAVAILABLE", status::UNAVAILABLE.into()),
        ("STATUS_STOPPED", status::STOPPED.into()),
        ("STATUS_DEVICE_LOST", status::DEVICE_LOST.into()),
        ("REASON_OTHER", reason::OTHER.into()),
        ("REASON_UNKNOWN_OPERATOR", reason::UNKNOWN_OPERATOR.into()),
        ("REASON_INPUT_TYPE", reason::INPUT_TYPE.into()),
        ("REASON_INPUT_RANK", reason::INPUT_RANK.into()),
        ("REASON_ATTRIBUTE_VALUE", reason::ATTRIBUTE_VALUE.into()),
        ("REASON_NOT_CONSTANT", reason::NOT_CONSTANT.into()),
        ("KIND_INT", kind::INT.into()),
        ("KIND_FLOAT", kind::FLOAT.into()),
        ("KIND_STRING", kind::STRING.into()),
        ("KIND_INTS", kind::INTS.into()),
        ("KIND_FLOATS", kind::FLOATS.into()),
        ("KIND_STRINGS", kind::STRINGS.into()),
        ("KIND_TENSOR", kind::TENSOR.into()),
        ("VALUE_BOOL", value::BOOL.into()),
        ("VALUE_INT", value::INT.into()),
        ("VALUE_UNSIGNED", value::UNSIGNED.into()),
        ("VALUE_FLOAT", value::FLOAT.into()),
        ("VALUE_STRING", value::STRING.into()),
        ("SCOPE_MODEL", scope::MODEL.into()),
        ("SCOPE_CREATION", scope::CREATION.into()),
        ("IMPORT_LONG_LIVED", import::LONG_LIVED.into()),
        ("IMPORT_READ_ONLY", import::READ_ONLY.into()),
        ("CPU_BASELINE", cpu::BASELINE.into()),
        ("CPU_AVX2", cpu::AVX2.into()),
        ("CPU_AVX512", cpu::AVX512.into()),
    ];
    let others = others.map(|(name, value): (&str, i64)| (format!("TENON_{name}"), value));
    types.chain(others).collect()
}

#[test]
fn the_bindings_match_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, assertions(None)).unwrap();
    for standard in ["c11", "c17"] {
        tenon_test_libraries::check_syntax(&source, "c", standard);
    }
}

#[test]
fn every_struct_of_the_header_has_a_binding() {
    let header = include_str!("../../../../include/tenon/backend.h");
    let declared: Vec<&str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("} ")?.strip_suffix(';'))
        .collect();
    let known: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
    assert_eq!(declared, known);
}

#[test]
fn published_versions_keep_their_layout() {
    let folder = tempfile::tempdir().unwrap();
    for version in PUBLISHED {
        let headers = tenon_test_libraries::published_header(version);
        let header = std::fs::read_to_string(headers.join("tenon/backend.h")).unwrap();
        let text = assertions(Some(&header));
        assert!(text.contains("offsetof(tenon_backend, import_tensor)"));
        let source = folder.path().join("published.c");
        std::fs::write(&source, text).unwrap();
        tenon_test_libraries::check_syntax_with(&headers, &source, "c", "c11");
    }
}

#[test]
fn libraries_export_the_same_symbols_in_every_version() {
    let current = include_str!("../../../../include/tenon/backend.h").to_owned();
    let published = PUBLISHED.map(|version| {
        let headers = tenon_test_libraries::published_header(version);
        std::fs::read_to_string(headers.join("tenon/backend.h")).unwrap()
    });
    for header in published.iter().chain([&current]) {
        let exports: Vec<&str> = header
            .lines()
            .filter_map(|line| line.strip_prefix("TENON_EXPORT "))
            .collect();
        assert_eq!(
            exports,
            [
                "const char *GetBackendId(void);",
                "void GetVersion(uint32_t *major, uint32_t *minor);",
                "void *BackendFactory(void);"
            ]
        );
    }
}
