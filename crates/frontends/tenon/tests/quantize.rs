//! Quantised models: their accuracy in Tenon and in onnxruntime is that of the report.

mod common;

use common::named;
use std::path::{Path, PathBuf};
use tenon::inputs::ImageOptions;
use tenon::quantize::{
    Calibration, QuantizedModel, Quantizer, Sample, Scheme, read_samples, split_samples,
};
use tenon::tensor::npy;
use tenon::{Compiler, Control, LoadOptions, Model, OnnxModel, Pattern, Tensor};
use tenon_test_data::{Answer, python};

fn models() -> PathBuf {
    tenon_test_data::repository("models/digits")
}

fn open(name: &str) -> (OnnxModel, Model) {
    let onnx = OnnxModel::open(models().join(name), &Control::new()).unwrap();
    let package = Compiler::new().compile_model(&onnx).unwrap();
    (onnx, package.load(&LoadOptions::new()).unwrap())
}

/// Images that a formula makes, for tests without the data set.
fn images(count: usize) -> Tensor {
    let pixels: Vec<f32> = (0..count * 64)
        .map(|at| ((at * at + at * 7) % 23) as f32 / 22.0)
        .collect();
    Tensor::from_slice([count, 1, 8, 8], &pixels).unwrap()
}

fn samples(model: &Model, count: usize) -> Vec<Sample> {
    split_samples(vec![("image".into(), images(count))], model).unwrap()
}

fn quantize(quantizer: &Quantizer, onnx: &OnnxModel, samples: &[Sample]) -> QuantizedModel {
    quantizer.quantize(onnx, samples).unwrap()
}

#[test]
fn every_method_stays_close_to_f32() {
    let (onnx, model) = open("digits.onnx");
    let samples = samples(&model, 40);
    for (calibration, limit) in [
        (Calibration::MinMax, 0.02),
        (Calibration::Percentile(99.99), 0.02),
        (Calibration::Entropy, 0.1),
    ] {
        let quantizer = Quantizer::new(Scheme::Int8).calibration(calibration);
        let quantized = quantize(&quantizer, &onnx, &samples);
        let report = quantized.report();
        assert_eq!(report.quantized().count(), 5, "{report}");
        assert!(
            report.worst().unwrap().error.unwrap() < limit,
            "{calibration:?}: {report}"
        );
        assert!(
            report.outputs[0].agreement.unwrap() > 0.9,
            "{calibration:?}: {report}"
        );
    }
}

#[test]
fn nodes_with_large_errors_stay_in_f32() {
    let (onnx, model) = open("digits.onnx");
    let quantizer = Quantizer::new(Scheme::Int4 { block: 32 }).max_node_error(0.0);
    let error = quantizer
        .quantize(&onnx, &samples(&model, 4))
        .err()
        .unwrap();
    assert!(error.to_string().contains("is above 0"), "{error}");
    let quantizer = Quantizer::new(Scheme::Int8).exclude(Pattern::new("dense*"));
    let quantized = quantize(&quantizer, &onnx, &samples(&model, 4));
    let text = quantized.report().to_string();
    assert!(
        text.contains("in f32: dense1 (Gemm): excluded by name"),
        "{text}"
    );
    assert!(text.contains("which are few"), "{text}");
}

#[test]
fn calibration_data_is_checked() {
    let (onnx, model) = open("digits.onnx");
    let split = |name: &str, tensor| split_samples(vec![(name.into(), tensor)], &model);
    let wrong = Tensor::from_slice([4, 64], &[0.0f32; 256]).unwrap();
    let error = split("image", wrong).unwrap_err().to_string();
    assert!(
        error.contains("does not fit") && error.contains("f32[4, 64]"),
        "{error}"
    );
    let error = split("picture", images(1)).unwrap_err().to_string();
    assert!(
        error.contains("without this input") && error.contains("image"),
        "{error}"
    );
    let error = Quantizer::new(Scheme::Int8)
        .quantize(&onnx, &[])
        .err()
        .unwrap();
    assert!(error.to_string().contains("no samples"), "{error}");
    let mut bad = samples(&model, 2);
    bad[1][0].1 = Tensor::from_slice([1, 1, 8, 8], &[f32::NAN; 64]).unwrap();
    let error = Quantizer::new(Scheme::Int8)
        .quantize(&onnx, &bad)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("sample 1") && error.contains("not finite"),
        "{error}"
    );
    let quantizer = Quantizer::new(Scheme::Int8).labels(vec![1, 2, 3]);
    let error = quantizer
        .quantize(&onnx, &samples(&model, 2))
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("labels") && error.contains("found 3"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &Path| read_samples(path, &model, &ImageOptions::default());
    assert!(
        read(folder.path())
            .unwrap_err()
            .to_string()
            .contains("without calibration data")
    );
    npy::write_npy(folder.path().join("b.npy"), &images(3)).unwrap();
    std::fs::copy(models().join("seven.png"), folder.path().join("a.png")).unwrap();
    assert_eq!(read(folder.path()).unwrap().len(), 4);
}

/// The share of images whose class is right, image by image.
fn accuracy(model: &Model, images: &[Sample], labels: &[i64]) -> f64 {
    let right = images.iter().zip(labels).filter(|(sample, label)| {
        let inputs = named(sample);
        let outputs = model.run(&inputs).unwrap();
        let scores = outputs[0].as_slice::<f32>().unwrap();
        let greatest = scores.iter().copied().fold(f32::MIN, f32::max);
        scores.iter().position(|&score| score == greatest) == Some(**label as usize)
    });
    right.count() as f64 / labels.len() as f64
}

#[test]
fn accuracy_is_that_of_the_report() {
    let Some(mut train) = python("models/digits/train.py") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("unseen.npz");
    Answer::text(train.arg("--test-images").arg(&data));
    let arrays = npy::read_npz(&data).unwrap();
    let array = |name: &str| arrays.iter().find(|it| it.0 == name).unwrap().1.clone();
    let labels = array("labels").to_i64s().unwrap();
    for (name, scheme, allowed) in [
        ("digits.onnx", Scheme::Int8, 0.005),
        ("digits.onnx", Scheme::Int4 { block: 32 }, 0.01),
        ("digits.onnx", Scheme::F16, 0.002),
        ("transformer.onnx", Scheme::F16, 0.002),
        ("transformer.onnx", Scheme::Int8, 0.005),
        ("transformer.onnx", Scheme::Int4 { block: 32 }, 0.01),
    ] {
        let (onnx, model) = open(name);
        let samples = split_samples(vec![("image".into(), array("images"))], &model).unwrap();
        let quantizer = Quantizer::new(scheme).labels(labels.clone());
        let quantized = quantize(&quantizer, &onnx, &samples);
        let [before, after] = quantized.report().accuracy.unwrap();
        assert!(after >= before - allowed, "{name}: {}", quantized.report());
        let file = folder.path().join(name);
        quantized.write(&file).unwrap();
        let package = Compiler::new().compile_file(&file).unwrap();
        let model = package.load(&LoadOptions::new()).unwrap();
        assert!(
            (accuracy(&model, &samples, &labels) - after).abs() < 1e-9,
            "{name}"
        );
        let script = python("crates/frontends/tenon/tests/quantize.py");
        let found = Answer::text(script.unwrap().args([&file, &data]));
        let found: f64 = found.trim().parse().unwrap();
        // A score may round to the other side of a tie of two classes.
        assert!(
            (found - after).abs() <= 1.5 / labels.len() as f64,
            "{name}: {found} {after}"
        );
    }
}
