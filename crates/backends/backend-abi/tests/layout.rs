//! Structs and constants of the bindings against those that a C compiler reads from the header.

use std::fmt::Write;
use tenon_backend_abi::{
    LAYOUTS, MAJOR, MINOR, NO_VALUE, TYPES, cpu, kind, reason, scope, status, value,
};

/// A C file of static assertions that all layouts and constants are equal.
fn assertions() -> String {
    let mut text = String::from("#include <tenon/backend.h>\n");
    let mut equal = |left: String, right: i64| {
        writeln!(
            text,
            "_Static_assert({left} == {right}, \"{left} is not {right}\");"
        )
        .unwrap();
    };
    for layout in LAYOUTS {
        equal(format!("sizeof({})", layout.name), layout.size as i64);
        for (member, offset) in layout.members {
            equal(
                format!("offsetof({}, {member})", layout.name),
                *offset as i64,
            );
        }
    }
    for (index, name) in TYPES.iter().enumerate() {
        equal(
            format!("TENON_TYPE_{}", name.to_uppercase()),
            index as i64 + 1,
        );
    }
    for (name, value) in [
        ("BACKEND_MAJOR", i64::from(MAJOR)),
        ("BACKEND_MINOR", i64::from(MINOR)),
        ("NO_VALUE", i64::from(NO_VALUE)),
        ("STATUS_FAILED", status::FAILED.into()),
        ("STATUS_UNSUPPORTED", status::UNSUPPORTED.into()),
        ("STATUS_INVALID", status::INVALID.into()),
        ("STATUS_OUT_OF_MEMORY", status::OUT_OF_MEMORY.into()),
        ("STATUS_UNAVAILABLE", status::UNAVAILABLE.into()),
        ("STATUS_STOPPED", status::STOPPED.into()),
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
        ("CPU_BASELINE", cpu::BASELINE.into()),
        ("CPU_AVX2", cpu::AVX2.into()),
        ("CPU_AVX512", cpu::AVX512.into()),
    ] {
        equal(format!("TENON_{name}"), value);
    }
    text
}

#[test]
fn the_bindings_match_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, assertions()).unwrap();
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
