//! The models of `tests/data/operators.npz`, with inputs and expected outputs. The tests of the crate `tenon` use them too.

use std::collections::BTreeMap;
use std::path::Path;
use tenon_tensor::npy::read_npz;
use tenon_tensor::{DataType, Tensor, convert};

/// A model with inputs, the outputs of LiteRT's interpreter, and the greatest difference that is accepted.
#[derive(Default)]
pub struct Case {
    pub model: Vec<u8>,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    pub tolerance: f32,
}

/// All cases by name.
pub fn cases() -> BTreeMap<String, Case> {
    // Below crates/formats or crates/frontends.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = crates.join("formats/litert/tests/data/operators.npz");
    let mut cases = BTreeMap::<String, Case>::new();
    for (entry, array) in read_npz(path).unwrap() {
        let (name, part) = entry.split_once('/').unwrap();
        let case = cases.entry(name.to_owned()).or_default();
        match part {
            "model" => case.model = array.as_slice::<u8>().unwrap().to_vec(),
            "tolerance" => case.tolerance = array.as_slice::<f32>().unwrap()[0],
            // In the order of their index.
            part if part.starts_with("input/") => case.inputs.push(array),
            _ => case.outputs.push(array),
        }
    }
    assert!(cases.len() > 340, "only {} cases", cases.len());
    cases
}

/// The difference between tensors, if it is too large.
pub fn difference(found: &Tensor, expected: &Tensor, tolerance: f32) -> Option<String> {
    if found.ty() != expected.ty() {
        return Some(format!("{} in place of {}", found.ty(), expected.ty()));
    }
    let wide = |tensor: &Tensor| convert(tensor, DataType::F64).unwrap();
    let (found, expected) = (wide(found), wide(expected));
    let (found, expected) = (
        found.as_slice::<f64>().unwrap(),
        expected.as_slice::<f64>().unwrap(),
    );
    let greatest = expected
        .iter()
        .fold(1.0f64, |greatest, value| greatest.max(value.abs()));
    let differences = found
        .iter()
        .zip(expected)
        .map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    let worst = differences.fold(0.0, f64::max);
    let scale = if expected.iter().all(|value| value.fract() == 0.0) {
        1.0
    } else {
        greatest
    };
    (worst.is_nan() || worst > f64::from(tolerance) * scale).then(|| format!("differs by {worst}"))
}
