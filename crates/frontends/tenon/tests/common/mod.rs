//! Models that scripts make, and tensors by name.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use tempfile::TempDir;
use tenon::Tensor;
use tenon_test_data::{Answer, python};

/// The folder in which a script of these tests has made models, and their names; `None` without Python.
pub fn made_by(script: &str) -> Option<(TempDir, Vec<String>)> {
    let mut python = python(Path::new("crates/frontends/tenon/tests").join(script))?;
    let folder = tempfile::tempdir().unwrap();
    Answer::text(python.arg(folder.path()));
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let names = entries.filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        Some(name.strip_suffix(".onnx")?.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Some((folder, names))
}

/// The tensors as inputs of a model.
pub fn named(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// The tensors whose names have a prefix, without it.
pub fn with_prefix(tensors: &[(String, Tensor)], prefix: &str) -> Vec<(String, Tensor)> {
    let tensors = tensors.iter();
    let named = tensors
        .filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone())));
    named.collect()
}

/// Two tensors of f32 that are equal but for rounding.
#[track_caller]
pub fn assert_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.ty(), expected.ty());
    let pairs = found.as_slice::<f32>().unwrap().iter();
    for (a, b) in pairs.zip(expected.as_slice::<f32>().unwrap()) {
        assert!(
            (a - b).abs() <= 1e-4 * (1.0 + b.abs()),
            "{a} instead of {b}"
        );
    }
}
