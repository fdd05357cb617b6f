//! Signatures of models.

use crate::build::*;
use tenon_base::Control;
use tenon_onnx::Model;
use tenon_onnx::proto::*;

#[test]
fn a_signature_has_inputs_outputs_and_counts() {
    let mut build = model(17)
        .opset("com.example", 2)
        .input("x", &["batch", "3", ""])
        .input("w", &["2"])
        .floats("w", &[2], &[1.0, 2.0])
        .node(node("Relu", &["x"], &["a"], &[]))
        .node(node("Relu", &["a"], &["b"], &[]))
        .node(within("com.example", node("Magic", &["b"], &["y"], &[])))
        .output("y");
    let sequence = Some(TypeValue::Sequence(ElementTypeProto::default()));
    build.graph().output.push(ValueInfoProto {
        name: "s".into(),
        r#type: Some(Box::new(TypeProto { value: sequence })),
    });
    build.0.producer_name = "exporter".into();
    build.0.producer_version = "1.2".into();
    let model = Model::from_bytes(build.bytes(), &Control::new()).unwrap();
    let signature = model.signature();
    let values = |list: &[tenon_onnx::ValueSignature]| {
        list.iter()
            .map(|value| format!("{}: {value}", value.name))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&signature.inputs), ["x: f32[batch, 3, ?]"]);
    assert_eq!(
        values(&signature.outputs),
        ["y: ?[...]", "s: sequence of ?[...]"]
    );
    assert_eq!(signature.name, "test");
    assert_eq!(signature.producer, "exporter 1.2");
    assert_eq!(signature.opsets["ai.onnx"], 17);
    assert_eq!(signature.opsets["com.example"], 2);
    assert_eq!(signature.nodes, 3);
    assert_eq!(signature.operators["Relu"], 2);
    assert_eq!(signature.operators["com.example.Magic"], 1);
    assert_eq!(signature.initialisers[0].1.to_string(), "f32[2]");
    assert_eq!(signature.initialiser_bytes(), 8);
}

#[test]
fn a_size_that_overflows_is_refused_at_once() {
    let build = model(17)
        .floats("w", &[i64::MAX, i64::MAX], &[])
        .output("w");
    let error = Model::from_bytes(build.bytes(), &Control::new())
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("initialiser 'w': a tensor of type f32"),
        "{error}"
    );
}
