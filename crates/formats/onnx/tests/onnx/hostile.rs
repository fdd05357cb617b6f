//! Arbitrary bytes, and truncated and modified models: an error or a graph, never a panic, within the
//! memory limit for the length of the file.

use crate::build::*;
use proptest::prelude::*;
use tenon_base::Control;
use tenon_onnx::proto::*;
use tenon_onnx::{ImportOptions, Model};

/// A model with most features.
fn rich() -> Build {
    let branch = GraphProto {
        node: vec![node("Add", &["h", "w"], &["r"], &[])],
        output: vec![info("r", data_type::FLOAT, &["2"])],
        ..Default::default()
    };
    let function = FunctionProto {
        name: "F".into(),
        domain: "local".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        attribute_proto: vec![float("slope", 0.5)],
        node: vec![node(
            "LeakyRelu",
            &["a"],
            &["b"],
            &[reference("alpha", attribute_type::FLOAT, "slope")],
        )],
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 12,
        }],
        ..Default::default()
    };
    let mut build = model(11)
        .opset("local", 1)
        .opset("com.microsoft", 1)
        .input("x", &["2", "2"])
        .floats("w", &[2], &[1.0, 2.0])
        .node(node("Unsqueeze", &["x"], &["u"], &[ints("axes", &[0])]))
        .node(node("Softmax", &["u"], &["s"], &[int("axis", 1)]))
        .node(node("Slice", &["s", "at", "at"], &["t"], &[]))
        .node(node("Constant", &[], &["at"], &[ints("value_ints", &[1])]))
        .node(within("local", node("F", &["s"], &["h"], &[])))
        .node(node(
            "If",
            &["cond"],
            &["i"],
            &[graph("then_branch", branch)],
        ))
        .node(within(
            "com.microsoft",
            node("FastGelu", &["i"], &["y"], &[]),
        ))
        .output("y");
    build.graph().initializer.push(bools("cond", &[], &[1]));
    build.0.functions.push(function);
    build
}

/// Opens and imports; missing dimensions are added and the import repeated.
fn survives(bytes: &[u8]) {
    let control = Control::new();
    let Ok(model) = Model::from_bytes(bytes, &control) else {
        return;
    };
    let mut options = ImportOptions::default();
    for input in &model.signature().inputs {
        for dimension in input.shape.iter().flatten() {
            if let tenon_onnx::Dimension::Named(name) = dimension {
                options.dims.insert(name.clone(), 1);
            }
        }
    }
    if let Ok(graph) = model.graph(&options, &control) {
        // The graph verifies, except for types.
        for node in &graph.nodes {
            for value in node.inputs.iter().chain(&node.outputs).flatten() {
                assert!(value.index() < graph.values.len());
            }
        }
    }
}

#[test]
fn the_model_imports() {
    rich().import().unwrap();
}

#[test]
fn no_truncation_panics() {
    let bytes = rich().bytes();
    (0..bytes.len()).for_each(|length| survives(&bytes[..length]));
}

#[test]
fn no_modified_byte_panics() {
    let bytes = rich().bytes();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff, bytes[at]] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            survives(&bytes);
        }
    }
}

/// The digits model of this repository.
fn digits() -> Vec<u8> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../models/digits/digits.onnx"
    );
    std::fs::read(path).unwrap()
}

/// The number at a position (varint), and the position after it.
fn varint(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        value |= usize::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return (value, at);
        }
    }
}

/// The bytes before the entries of metadata (field 14), which end the file: without some of them it is a model too.
fn length_without_metadata(bytes: &[u8]) -> usize {
    let mut start = 0;
    loop {
        let (tag, at) = varint(bytes, start);
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 14 {
            return start;
        }
        let (value, at) = varint(bytes, at);
        start = if wire_type == 2 { at + value } else { at };
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        survives(&bytes);
    }

    #[test]
    fn several_changes_are_survived(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        for mut bytes in [rich().bytes(), digits()] {
            for &(at, value) in &changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            survives(&bytes);
        }
    }

    #[test]
    fn a_real_model_cut_anywhere_is_refused(cut in 0.0..1.0f64) {
        let bytes = digits();
        let length = (length_without_metadata(&bytes) as f64 * cut) as usize;
        survives(&bytes[..length]);
        prop_assert!(Model::from_bytes(&bytes[..length], &Control::new()).is_err());
    }
}
