//! The digits model: its accuracy over all unseen images, measured by Tenon.

#![allow(clippy::print_stdout, reason = "a test prints its measurements")]

use tenon::outputs::{class_labels, top_classes};
use tenon::{Compiler, LoadOptions, Model, Tensor};
use tenon_test_data::{Answer, python, repository};

fn model() -> Model {
    let compiled = Compiler::new().compile_file(repository("models/digits/digits.onnx"));
    let compiled = compiled.unwrap();
    compiled.load(&LoadOptions::new()).unwrap()
}

#[test]
fn the_picture_is_a_seven() {
    let model = model();
    let options = tenon::inputs::ImageOptions::from_metadata(model.metadata()).unwrap();
    let picture = repository("models/digits/seven.png");
    let image = tenon::inputs::read_input(&picture, &model.inputs()[0].ty, &options).unwrap();
    let outputs = model.run(&[("image", &image)]).unwrap();
    let labels = class_labels(model.metadata()).unwrap();
    let top = top_classes(&outputs[0], Some(&labels), 1).unwrap().unwrap();
    assert_eq!(top[0].label, "seven");
    let score: f64 = top[0].value.to_string().parse().unwrap();
    assert!(score > 0.9, "{top:?}");
}

#[test]
fn unseen_images_are_recognised() {
    let Some(mut python) = python("models/digits/train.py") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unseen.npz");
    Answer::text(python.arg("--test-images").arg(&file));
    let arrays = tenon::tensor::npy::read_npz(&file).unwrap();
    let array = |name: &str| &arrays.iter().find(|(known, _)| known == name).unwrap().1;
    let (images, labels) = (array("images"), array("labels"));
    let (pixels, labels) = (
        images.as_slice::<f32>().unwrap(),
        labels.as_slice::<i64>().unwrap(),
    );
    let model = model();
    let mut right = 0;
    for (pixels, &label) in pixels.chunks_exact(64).zip(labels) {
        let image = Tensor::from_slice([1, 1, 8, 8], pixels).unwrap();
        let outputs = model.run(&[("image", &image)]).unwrap();
        let top = top_classes(&outputs[0], None, 1).unwrap().unwrap();
        right += usize::from(top[0].index as i64 == label);
    }
    println!("{right} of {} right", labels.len());
    assert_eq!(labels.len(), 599);
    assert!(
        right as f64 / labels.len() as f64 >= 0.97,
        "{right} of {}",
        labels.len()
    );
}
