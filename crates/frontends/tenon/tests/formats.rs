//! A package of every format that was ever written. Each must load in every later version: these files are never compiled again.
//! Both are `formats.onnx` of the tests of `tenon-cli`: `y = concat(x · w, x)`, with w of four rows and three columns,
//! the integers from 0 to 11.

use tenon::neff::Limits;
use tenon::neff::Package;
use tenon::tensor::BufferMut;
use tenon::{Control, LoadOptions, Model, Tensor};

fn load(bytes: &[u8]) -> Model {
    let buffer = BufferMut::copy_of(bytes).unwrap().freeze();
    let package = Package::from_buffer(buffer, &Limits::default(), &Control::new()).unwrap();
    Model::from_package(&package, &LoadOptions::default()).unwrap()
}

fn check(model: &Model, batch: usize) {
    let x: Vec<f32> = (0..batch * 4).map(|at| (at % 5) as f32 - 1.5).collect();
    let rows = x.chunks(4).flat_map(|row| {
        let column = |column| {
            let products = row.iter().enumerate();
            products.map(|(at, x)| x * (at * 3 + column) as f32).sum()
        };
        let product: Vec<f32> = (0..3).map(column).collect();
        [product, row.to_vec()].concat()
    });
    let expected: Vec<f32> = rows.collect();
    let x = Tensor::from_slice(vec![batch, 4], &x).unwrap();
    let outputs = model.run(&[("x", &x)]).unwrap();
    assert_eq!(outputs[0].shape().to_vec(), [batch, 7]);
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), expected);
}

#[test]
fn format_1_has_fixed_sizes() {
    let model = load(include_bytes!("data/formats/1.neff"));
    assert!(model.symbols().is_empty());
    check(&model, 2);
}

/// `positive.onnx` of the same tests: the negatives of the positive elements.
#[test]
fn format_1_of_host_functions() {
    let model = load(include_bytes!("data/formats/host-1.neff"));
    for x in [&[1.0f32, -2.0, 3.0][..], &[-1.0], &[0.5, 0.25]] {
        let expected: Vec<f32> = x.iter().filter(|x| **x > 0.0).map(|x| -x).collect();
        let x = Tensor::from_slice(vec![x.len()], x).unwrap();
        let outputs = model.run(&[("x", &x)]).unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), expected);
    }
}

#[test]
fn format_2_has_symbols() {
    let model = load(include_bytes!("data/formats/2.neff"));
    for batch in [1, 2, 17] {
        check(&model, batch);
    }
}
