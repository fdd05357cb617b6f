//! Every conversion of every 8-bit and 16-bit value, and of many binary32 values, against NumPy and
//! ml_dtypes. Skipped with a message unless `TENON_PYTHON` names an interpreter.
#![allow(clippy::print_stderr, reason = "a skipped test reports it")]

use std::path::Path;
use std::process::Command;
use tenon_tensor::{DataType, converter};

const FROM: &[&str] = &[
    "f32",
    "f16",
    "bf16",
    "f8e3m4",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "i8",
    "i16",
    "u8",
    "u16",
];

const TO: &[&str] = &[
    "f32",
    "f64",
    "f16",
    "bf16",
    "f8e3m4",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "bool",
];

#[test]
fn conversions_equal_those_of_numpy() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/convert_tables.py");
    let status = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let mut pairs = 0;
    for from in FROM {
        let source = std::fs::read(folder.path().join(format!("{from}.bin"))).unwrap();
        for to in TO.iter().filter(|to| *to != from) {
            compare(from, to, &source, folder.path());
            pairs += 1;
        }
    }
    assert_eq!(pairs, 13 * 18);
}

fn compare(from: &str, to: &str, source: &[u8], folder: &Path) {
    let (from_type, to_type): (DataType, DataType) = (from.parse().unwrap(), to.parse().unwrap());
    let expected = std::fs::read(folder.join(format!("{from}-{to}.bin"))).unwrap();
    let mut found = vec![0; expected.len()];
    converter(from_type, to_type).unwrap()(source, &mut found);
    let (size, from_size) = (to_type.bits() / 8, from_type.bits() / 8);
    assert_eq!(
        expected.len() / size,
        source.len() / from_size,
        "{from} to {to}"
    );
    if expected == found {
        return;
    }
    let elements = expected
        .chunks(size)
        .zip(found.chunks(size))
        .zip(source.chunks(from_size));
    for ((expected, found), source) in elements {
        // All NaNs are considered equal.
        let same = expected == found || is_nan(to_type, expected) && is_nan(to_type, found);
        assert!(
            same,
            "{from} {source:02x?} to {to}: expected {expected:02x?}, found {found:02x?}"
        );
    }
}

fn is_nan(dtype: DataType, bytes: &[u8]) -> bool {
    let mut wide = [0; 8];
    if let (true, Some(convert)) = (dtype.is_float(), converter(dtype, DataType::F64)) {
        convert(bytes, &mut wide);
    }
    f64::from_le_bytes(wide).is_nan()
}
