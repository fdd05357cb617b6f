//! Every conversion of every value of up to 16 bits, and of many binary32 values, against NumPy and
//! ml_dtypes. Skipped with a message unless `TENON_PYTHON` names an interpreter.
#![allow(clippy::print_stderr, reason = "a skipped test reports it")]

use std::path::Path;
use std::process::Command;
use tenon_tensor::{BufferMut, DataType, E8m0Rounding, Tensor, TensorType, convert, converter};

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
    "f8e8m0fnu",
    "f4e2m1fn",
    "i2",
    "i4",
    "i8",
    "i16",
    "u2",
    "u4",
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
    "f8e8m0fnu",
    "f4e2m1fn",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "bool",
];

#[test]
fn conversions_equal_those_of_numpy() {
    let Some(folder) = tables() else {
        return;
    };
    let mut pairs = 0;
    for from in FROM {
        let source = std::fs::read(folder.path().join(format!("{from}.bin"))).unwrap();
        for to in TO.iter().filter(|to| *to != from) {
            compare(from, to, &source, folder.path());
            pairs += 1;
        }
    }
    assert_eq!(pairs, 19 * 24);
}

#[test]
fn roundings_to_exponents_equal_those_of_onnx() {
    let Some(folder) = tables() else {
        return;
    };
    let source = std::fs::read(folder.path().join("f32.bin")).unwrap();
    for mode in ["up", "down", "nearest"] {
        let rounding: E8m0Rounding = mode.parse().unwrap();
        for saturate in [false, true] {
            let name = format!("onnx-{mode}-{}.bin", u8::from(saturate));
            let expected = std::fs::read(folder.path().join(name)).unwrap();
            assert_eq!(expected.len(), source.len() / 4);
            for (bytes, &expected) in source.as_chunks().0.iter().zip(&expected) {
                let value = f32::from_le_bytes(*bytes);
                let found = rounding.code(value, saturate);
                assert_eq!(found, expected, "{value} {mode} {saturate}");
            }
        }
    }
}

/// The folder of the tables; `None` without Python.
fn tables() -> Option<tempfile::TempDir> {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/convert_tables.py");
    let status = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    Some(folder)
}

fn compare(from: &str, to: &str, source: &[u8], folder: &Path) {
    let (from_type, to_type): (DataType, DataType) = (from.parse().unwrap(), to.parse().unwrap());
    let expected = std::fs::read(folder.join(format!("{from}-{to}.bin"))).unwrap();
    if from_type.bits() < 8 || to_type.bits() < 8 {
        return compare_packed(from_type, to_type, source, &expected);
    }
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

/// The same where several elements are in a byte.
fn compare_packed(from: DataType, to: DataType, source: &[u8], expected: &[u8]) {
    let ty = TensorType::new(from, [source.len() * 8 / from.bits()]).unwrap();
    let bytes = BufferMut::copy_of(source).unwrap();
    let found = convert(&Tensor::new(ty, bytes.freeze()).unwrap(), to).unwrap();
    assert_eq!(found.bytes().len(), expected.len(), "{from} to {to}");
    if found.bytes() != expected {
        let mut pairs = found.bytes().iter().zip(expected);
        let at = pairs.position(|(found, expected)| found != expected);
        panic!("{from} to {to}: byte {at:?} differs");
    }
}

fn is_nan(dtype: DataType, bytes: &[u8]) -> bool {
    let mut wide = [0; 8];
    if let (true, Some(convert)) = (dtype.is_float(), converter(dtype, DataType::F64)) {
        convert(bytes, &mut wide);
    }
    f64::from_le_bytes(wide).is_nan()
}
