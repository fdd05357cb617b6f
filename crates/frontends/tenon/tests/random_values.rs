//! Mean, variance and frequencies of random values, on both backends: 5 standard errors from what they are by definition.

use tenon::neff::{Limits, Package};
use tenon::tensor::convert;
use tenon::{BackendId, Control, DataType, LoadOptions, Model, Tensor};
use tenon_compiler::Options;
use tenon_graph::Graph;

const COUNT: f64 = 40_000.0;
const BACKENDS: [&[&str]; 2] = [&["CpuAcc", "CpuRef"], &["CpuRef"]];

/// The elements that an operator without inputs, or with these, computes.
fn values(node: &str, input: Option<(&str, &Tensor)>, backends: &[&'static str]) -> Vec<f64> {
    let text = match input {
        None => format!("graph \"random\" () -> (%y) {{\n  %y = {node}\n}}\n"),
        Some((name, tensor)) => {
            let ty = tensor.ty();
            format!("graph \"random\" (%{name}: {ty}) -> (%y) {{\n  %y = {node}\n}}\n")
        }
    };
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    let registry = tenon::backends::built_in();
    let mut options = Options::new(&registry);
    options.backends = backends.iter().map(|&id| BackendId::new(id)).collect();
    let compiled = tenon_compiler::compile(graph, &options).unwrap();
    let control = Control::new();
    let bytes = compiled.contents.to_bytes(Default::default(), &control);
    let package = Package::from_buffer(bytes.unwrap(), &Limits::default(), &control).unwrap();
    let model = Model::from_package(&package, &LoadOptions::default()).unwrap();
    let outputs = model.run(input.as_slice()).unwrap();
    let wide = convert(outputs.tensor("y").unwrap(), DataType::F64).unwrap();
    wide.as_slice::<f64>().unwrap().to_vec()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn check(what: &str, values: &[f64], expected_mean: f64, variance: f64, fourth_moment: f64) {
    let count = values.len() as f64;
    let error = (mean(values) - expected_mean).abs();
    assert!(
        error <= 5.0 * (variance / count).sqrt(),
        "{what}: mean {error}"
    );
    let squares: Vec<f64> = values.iter().map(|x| (x - expected_mean).powi(2)).collect();
    let error = (mean(&squares) - variance).abs();
    let deviation = ((fourth_moment - variance * variance) / count).sqrt();
    assert!(error <= 5.0 * deviation, "{what}: variance {error}");
}

#[test]
fn normal_values_have_their_mean_and_variance() {
    let like = Tensor::from_slice([200, 200], &[0f32; 40_000]).unwrap();
    for backends in BACKENDS {
        let attributes = "{mean = 3.0, scale = 2.0, seed = 5.0}";
        for values in [
            values(
                "RandomNormal() {mean = 3.0, scale = 2.0, seed = 5.0, shape = [200, 200]}",
                None,
                backends,
            ),
            values(
                &format!("RandomNormalLike(%x) {attributes}"),
                Some(("x", &like)),
                backends,
            ),
        ] {
            assert_eq!(values.len() as f64, COUNT);
            check("normal", &values, 3.0, 4.0, 3.0 * 16.0);
            // Of a normal distribution 68.27 % are within one deviation.
            let near = values.iter().filter(|&&x| (x - 3.0).abs() < 2.0).count();
            assert!((near as f64 / COUNT - 0.6827).abs() < 0.012, "{near}");
        }
    }
}

#[test]
fn uniform_values_are_in_their_range() {
    let like = Tensor::from_slice([200, 200], &[0f32; 40_000]).unwrap();
    for backends in BACKENDS {
        for values in [
            values(
                "RandomUniform() {low = -1.0, high = 5.0, seed = 2.0, shape = [200, 200]}",
                None,
                backends,
            ),
            values(
                "RandomUniformLike(%x) {low = -1.0, high = 5.0, seed = 2.0}",
                Some(("x", &like)),
                backends,
            ),
        ] {
            assert!(values.iter().all(|x| (-1.0..=5.0).contains(x)));
            // 6^2 / 12 and 6^4 / 80.
            check("uniform", &values, 2.0, 3.0, 1296.0 / 80.0);
        }
    }
}

#[test]
fn choices_have_their_probabilities() {
    let probability = Tensor::from_slice([COUNT as usize], &vec![0.3f32; COUNT as usize]).unwrap();
    // Unnormalised logarithms of 1, 2, 5 and 0.
    let logarithms = [1f32.ln(), 2f32.ln(), 5f32.ln(), f32::NEG_INFINITY];
    let logarithms = Tensor::from_slice([1, 4], &logarithms).unwrap();
    for backends in BACKENDS {
        let flips = values(
            "Bernoulli(%x) {seed = 4.0}",
            Some(("x", &probability)),
            backends,
        );
        assert!(flips.iter().all(|&x| x == 0.0 || x == 1.0));
        assert!((mean(&flips) - 0.3).abs() < 0.012, "{}", mean(&flips));
        let node = "Multinomial(%x) {seed = 1.0, sample_size = 40000}";
        let drawn = values(node, Some(("x", &logarithms)), backends);
        for (class, expected) in [0.125, 0.25, 0.625, 0.0].into_iter().enumerate() {
            let count = drawn.iter().filter(|&&x| x == class as f64).count();
            let share = count as f64 / COUNT;
            assert!(
                (share - expected).abs() <= 5.0 * (expected / COUNT).sqrt(),
                "{class}: {share}"
            );
        }
    }
}
