//! The models of `tests/data/operators.npz`, with inputs and expected outputs.

use std::collections::BTreeMap;
use tenon_tensor::Tensor;
use tenon_tensor::npy::read_npz;

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
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/operators.npz");
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
    assert!(cases.len() > 200, "only {} cases", cases.len());
    cases
}

pub fn case(name: &str) -> Case {
    cases().remove(name).unwrap()
}
