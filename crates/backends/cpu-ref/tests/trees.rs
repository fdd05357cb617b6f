//! Tree ensembles and tables of keys, with results computed by hand.

use tenon_backend::evaluate;
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, infer};
use tenon_tensor::{Tensor, TensorType};

fn run(name: &str, attributes: &Attributes, inputs: &[Tensor]) -> Tensor {
    let op = operator(name).unwrap();
    let inputs: Vec<_> = inputs.iter().map(Some).collect();
    let types: Vec<Option<&TensorType>> = inputs.iter().map(|i| i.map(Tensor::ty)).collect();
    let outputs = infer(op, attributes, &types, &inputs, 1).unwrap();
    let outputs: Vec<_> = outputs.into_iter().map(Some).collect();
    let mut found = evaluate(&CpuRef, op, attributes, &inputs, &outputs).unwrap();
    found.remove(0).unwrap()
}

/// Tree 0: x0 <= 0.5 (NaN passes), then x1 in {4, 5}; tree 1: x1 > 1. Leaves 0 to 4; leaf 2 has two entries, leaf 1 none.
fn scores(aggregate: &str, x: &[f32]) -> Vec<f32> {
    let ints = |shape: &[usize], elements: &[i32]| Tensor::from_slice(shape, elements).unwrap();
    let floats = |elements: &[f32]| Tensor::from_slice([elements.len()], elements).unwrap();
    let inputs = [
        Tensor::from_slice([x.len() / 2, 2], x).unwrap(),
        ints(&[3], &[0, 1, 1]),
        floats(&[0.5, 0.0, 1.0]),
        Tensor::from_slice([3], &[8u8, 6, 3]).unwrap(),
        ints(&[3, 2], &[1, -1, -2, -3, -4, -5]),
        ints(&[2], &[0, 2]),
        ints(&[6], &[0, 1, 1, 3, 4, 5]),
        ints(&[5], &[0, 0, 1, 1, 0]),
        floats(&[1.0, 2.0, 3.0, 4.0, 5.0]),
        floats(&[4.0, 5.0]),
        ints(&[2], &[0, 2]),
    ];
    let attributes = Attributes::new()
        .with("targets", Attribute::Int(2))
        .with("aggregate", Attribute::String(aggregate.into()));
    let scores = run("tenon.TreeEnsemble", &attributes, &inputs);
    scores.as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn weights_of_the_leaves_of_all_trees_make_the_scores() {
    // Leaves 0 and 3, 1 and 3, 2 and 4, 2 and 4.
    let x = [0.75, 2.0, 0.5, 4.0, f32::NAN, 1.0, 0.0, f32::NAN];
    assert_eq!(scores("SUM", &x), [1.0, 4.0, 0.0, 4.0, 7.0, 3.0, 7.0, 3.0]);
    assert_eq!(
        scores("AVERAGE", &x),
        [0.5, 2.0, 0.0, 2.0, 3.5, 1.5, 3.5, 1.5]
    );
    assert_eq!(scores("MIN", &x), [1.0, 4.0, 0.0, 4.0, 2.0, 3.0, 2.0, 3.0]);
    assert_eq!(scores("MAX", &x), [1.0, 4.0, 0.0, 4.0, 5.0, 3.0, 5.0, 3.0]);
}

#[test]
fn keys_are_looked_up_and_nan_equals_nan() {
    let floats = |elements: &[f32]| Tensor::from_slice([elements.len()], elements).unwrap();
    let inputs = [
        floats(&[-0.0, 2.0, f32::NAN, 3.0]),
        floats(&[0.0, f32::NAN, 2.0]),
        Tensor::from_slice([3], &[10i64, 20, 30]).unwrap(),
        Tensor::scalar(-1i64).unwrap(),
    ];
    let found = run("tenon.LookUp", &Attributes::new(), &inputs);
    assert_eq!(found.as_slice::<i64>().unwrap(), [10, 30, 20, -1]);
}
