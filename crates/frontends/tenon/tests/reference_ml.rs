//! Models of `ai.onnx.ml`, which `reference_ml.py` makes, compared with onnxruntime.

mod common;

use common::made_by;
use std::collections::HashMap;
use std::path::Path;
use tenon::tensor::{convert, npy};
use tenon::{Compiler, DataType, LoadOptions, Model, ModelValue, RunOptions, Tensor};

/// The outputs of a model that are not those of the reference.
fn differences(folder: &Path, name: &str) -> Vec<String> {
    let load = || -> tenon::Result<Model> {
        let compiled = Compiler::new().compile_file(folder.join(format!("{name}.onnx")))?;
        Model::from_package(&compiled.to_neff()?, &LoadOptions::default())
    };
    let model = match load() {
        Ok(model) => model,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let arrays = npy::read_npz(folder.join(format!("{name}.npz"))).unwrap();
    let arrays: HashMap<String, Tensor> = arrays.into_iter().collect();
    let named = |prefix: &str| -> Vec<(String, Tensor)> {
        let named = arrays.iter().filter_map(|(name, tensor)| {
            let (kind, name) = name.strip_prefix(prefix)?.split_once('.')?;
            let tensor = match kind {
                "" => tensor.clone(),
                "str" => strings(tensor, &arrays[&format!("{prefix}shape.{name}")]),
                _ => return None,
            };
            Some((name.to_owned(), tensor))
        });
        named.collect()
    };
    let inputs: Vec<(String, ModelValue)> = named("in")
        .into_iter()
        .map(|(name, tensor)| (name, tensor.into()))
        .collect();
    let inputs: Vec<(&str, &ModelValue)> = inputs
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let outputs = match model.run_values(&inputs, RunOptions::new()) {
        Ok(outputs) => outputs,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let names = model.outputs().iter().map(|output| output.name.clone());
    let outputs: HashMap<String, ModelValue> = names.zip(outputs).collect();
    let expected = named("out").into_iter();
    expected
        .filter_map(|(output, expected)| {
            let text = difference(&outputs[&output], &expected)?;
            Some(format!("{name}, {output}: {text}"))
        })
        .collect()
}

/// Strings of a shape that are separated by line feeds.
fn strings(text: &Tensor, shape: &Tensor) -> Tensor {
    let text = std::str::from_utf8(text.bytes()).unwrap();
    let shape = shape.to_i64s().unwrap().into_iter();
    let shape: Vec<usize> = shape.map(|extent| extent as usize).collect();
    // No strings and one that is empty are the same text.
    let count = shape.iter().product::<usize>();
    let strings: Vec<&str> = text.split('\n').take(count).collect();
    Tensor::from_strings(shape, &strings).unwrap()
}

fn difference(found: &ModelValue, expected: &Tensor) -> Option<String> {
    let ModelValue::Tensor(found) = found else {
        return Some(found.description());
    };
    if found.ty() != expected.ty() {
        return Some(format!("{} instead of {}", found.ty(), expected.ty()));
    }
    if let (Some(found), Some(expected)) = (found.strings(), expected.strings()) {
        let [found, expected] = [found.collect::<Vec<_>>(), expected.collect()];
        return (found != expected).then(|| format!("{found:?} instead of {expected:?}"));
    }
    let [found, expected] = [found, expected].map(|tensor| convert(tensor, DataType::F64).unwrap());
    let (found, expected) = (found.as_slice::<f64>()?, expected.as_slice::<f64>()?);
    let is_close = |(a, b): (&f64, &f64)| {
        a == b || (a - b).abs() <= 2e-5 * (1.0 + b.abs()) || a.is_nan() && b.is_nan()
    };
    let mut pairs = found.iter().zip(expected);
    let at = pairs.position(|pair| !is_close(pair))?;
    Some(format!(
        "element {at}: {} instead of {}",
        found[at], expected[at]
    ))
}

#[test]
fn models_equal_onnxruntime() {
    let Some((folder, names)) = made_by("reference_ml.py") else {
        return;
    };
    assert!(names.len() > 200, "{}", names.len());
    let found = names
        .iter()
        .flat_map(|name| differences(folder.path(), name));
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
