//! Signatures, names and errors.

use crate::data::cases;
use tenon_base::Control;
use tenon_litert::{Model, is_model};

fn open(name: &str) -> Model {
    Model::from_bytes(cases()[name].model.clone(), &Control::new()).unwrap()
}

#[test]
fn signatures_are_chosen_by_name() {
    let model = open("signatures");
    assert_eq!(model.signatures(), ["double", "square"]);
    let operators = |name| {
        let onnx = model.to_onnx(name, &Control::new()).unwrap();
        let graph = onnx.graph.unwrap();
        assert_eq!(
            (graph.input[0].name.as_str(), graph.output[0].name.as_str()),
            ("x", "y")
        );
        graph
            .node
            .iter()
            .map(|node| node.op_type.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(operators(None), ["Add"]);
    assert_eq!(operators(Some("square")), ["Mul"]);
    let error = model.to_onnx(Some("cube"), &Control::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model has no signature 'cube'; it has double, square"
    );
}

#[test]
fn a_symbolic_batch_stays_symbolic() {
    let onnx = open("signatures").to_onnx(None, &Control::new()).unwrap();
    let model = tenon_onnx::Model::from_proto(onnx).unwrap();
    assert_eq!(model.signature().inputs[0].to_string(), "f32[?, 3]");
}

#[test]
fn values_have_the_names_of_tensors() {
    let onnx = open("mobilenet_i8").to_onnx(None, &Control::new()).unwrap();
    let graph = onnx.graph.unwrap();
    let outputs: Vec<&str> = graph
        .node
        .iter()
        .flat_map(|node| &node.output)
        .map(String::as_str)
        .collect();
    for name in ["conv", "dw", "pw", "sum", "mean", "logits", "probabilities"] {
        assert!(outputs.contains(&name), "{name}");
    }
}

#[test]
fn images_between_convolutions_are_not_transposed() {
    let onnx = open("mobilenet_i8").to_onnx(None, &Control::new()).unwrap();
    let graph = onnx.graph.unwrap();
    let convolution = graph
        .node
        .iter()
        .rfind(|node| node.op_type == "Conv")
        .unwrap();
    let producer = |name: &str| {
        let node = graph
            .node
            .iter()
            .find(|node| node.output.iter().any(|it| it == name));
        node.unwrap()
    };
    let dequantise = producer(&convolution.input[0]);
    assert_eq!(dequantise.op_type, "DequantizeLinear");
    assert_eq!(producer(&dequantise.input[0]).op_type, "QuantizeLinear");
}

#[test]
fn the_identifier_decides_the_format() {
    assert!(is_model(&cases()["add"].model.clone()));
    assert!(!is_model(b"\x08\x07ONNXTFL3"));
}
