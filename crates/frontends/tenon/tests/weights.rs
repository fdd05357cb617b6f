//! Weights from safetensors and `.npz` files: their values reach the model, and misfits are refused.

use prost::Message;
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::path::{Path, PathBuf};
use tenon::tensor::{BufferMut, npy};
use tenon::{Compiler, ErrorKind, LoadOptions, OpenOptions, Tensor, Weights};
use tenon_onnx::proto::{
    DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, TypeValue,
    ValueInfoProto, data_type,
};

fn tensor_value(name: &str) -> ValueInfoProto {
    let shape = TensorShapeProto {
        dim: vec![DimensionProto {
            value: Some(DimensionValue::Value(2)),
        }],
    };
    let tensor = TensorTypeProto {
        elem_type: data_type::FLOAT,
        shape: Some(shape),
    };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(TypeProto {
            value: Some(TypeValue::Tensor(tensor)),
        })),
    }
}

/// `y = x * scale + offset` of two elements: `scale` is an initialiser in a file that does not exist, `offset` an input.
fn model(folder: &Path) -> PathBuf {
    let node = |operator: &str, inputs: [&str; 2], output: &str| NodeProto {
        op_type: operator.into(),
        input: inputs.map(String::from).to_vec(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    let entry = StringStringEntryProto {
        key: "location".into(),
        value: "absent.bin".into(),
    };
    let scale = TensorProto {
        name: "scale".into(),
        dims: vec![2],
        data_type: data_type::FLOAT,
        data_location: tenon_onnx::proto::EXTERNAL,
        external_data: vec![entry],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![
            node("Mul", ["x", "scale"], "product"),
            node("Add", ["product", "offset"], "y"),
        ],
        initializer: vec![scale],
        input: vec![tensor_value("x"), tensor_value("offset")],
        output: vec![tensor_value("y")],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            version: 21,
            ..OperatorSetIdProto::default()
        }],
        graph: Some(Box::new(graph)),
        ..ModelProto::default()
    };
    let path = folder.join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    path
}

fn safetensors(tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
    let views = tensors.iter().map(|&(name, dtype, shape, bytes)| {
        (name, TensorView::new(dtype, shape.to_vec(), bytes).unwrap())
    });
    serialize(views, None).unwrap()
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// 2 and 3 as bf16, 0.5 and -1 as f32.
const SCALE: &[u8] = &[0x00, 0x40, 0x40, 0x40];
const OFFSET: &[u8] = &[0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf];

fn run(folder: &Path, weights: Weights) -> Vec<f32> {
    let compiler = Compiler::new().weights(weights);
    let package = compiler.compile_file(model(folder)).unwrap();
    let model = package.load(&LoadOptions::new()).unwrap();
    assert_eq!(
        model.inputs().len(),
        1,
        "an input with weights is a constant"
    );
    let x = Tensor::from_slice([2], &[1.0f32, 10.0]).unwrap();
    let outputs = model.run(&[("x", &x)]).unwrap();
    outputs[0].as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn values_come_from_each_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let both = safetensors(&[
        ("scale", Dtype::BF16, &[2], SCALE),
        ("offset", Dtype::F32, &[2], OFFSET),
        ("other", Dtype::F6_E2M3, &[4], &[0; 3]),
    ]);
    let expected = [2.5, 29.0];
    let weights = Weights::read(written(folder, "both.safetensors", &both)).unwrap();
    let opened = OpenOptions::new().weights(weights.clone());
    let onnx = opened.open_model(model(folder)).unwrap();
    assert_eq!(weights.unused(&onnx), ["other"]);
    assert_eq!(
        weights.unused_note(&onnx).unwrap(),
        "1 of 3 tensors of the weights have no initialiser or input of their name: other"
    );
    assert_eq!(run(folder, weights), expected);

    // Two files and their index.
    let scale = safetensors(&[("scale", Dtype::BF16, &[2], SCALE)]);
    let offset = safetensors(&[("offset", Dtype::F32, &[2], OFFSET)]);
    written(folder, "a.safetensors", &scale);
    written(folder, "b.safetensors", &offset);
    let index = r#"{"weight_map": {"scale": "a.safetensors", "offset": "b.safetensors"}}"#;
    let weights = Weights::read(written(folder, "index.json", index.as_bytes())).unwrap();
    assert_eq!(run(folder, weights), expected);

    let path = folder.join("both.npz");
    let tensor = |values: [f32; 2]| Tensor::from_slice([2], &values).unwrap();
    let (scale, offset) = (tensor([2.0, 3.0]), tensor([0.5, -1.0]));
    npy::write_npz(&path, &[("scale", &scale), ("offset", &offset)]).unwrap();
    assert_eq!(run(folder, Weights::read(&path).unwrap()), expected);
}

#[test]
fn a_self_contained_model_has_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = safetensors(&[("scale", Dtype::BF16, &[2], SCALE)]);
    let bytes = BufferMut::copy_of(&bytes).unwrap().freeze();
    let weights = Weights::from_safetensors(&bytes).unwrap();
    let opened = OpenOptions::new()
        .weights(weights)
        .open_model(model(folder))
        .unwrap();
    let proto = opened.self_contained(&[]).unwrap();
    let constant = &proto.graph.unwrap().initializer[0];
    assert_eq!(
        tenon_onnx::tensor(constant)
            .unwrap()
            .as_slice::<f32>()
            .unwrap(),
        [2.0, 3.0]
    );
}

fn refused(folder: &Path, bytes: &[u8]) -> String {
    let weights = Weights::read(written(folder, "w.safetensors", bytes)).unwrap();
    let error = Compiler::new().weights(weights).compile_file(model(folder));
    error.err().unwrap().to_string()
}

#[test]
fn weights_that_do_not_fit_are_refused_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = refused(
        folder,
        &safetensors(&[
            ("scale", Dtype::F32, &[1, 2], OFFSET),
            ("offset", Dtype::F64, &[2], &[0; 16]),
        ]),
    );
    assert!(
        text.contains("initialiser 'scale'") && text.contains("expected f32[2], found f32[1, 2]"),
        "{text}"
    );
    assert!(
        text.contains("input 'offset'") && text.contains("expected f32, found f64"),
        "{text}"
    );
    let text = refused(
        folder,
        &safetensors(&[("scale", Dtype::F6_E2M3, &[4], &[0; 3])]),
    );
    assert!(
        text.contains("weights of type F6_E2M3 are not supported"),
        "{text}"
    );
    let text = refused(
        folder,
        &safetensors(&[("model.scale", Dtype::F32, &[2], OFFSET)]),
    );
    assert!(
        text.contains("expected offset, scale, x, found model.scale"),
        "{text}"
    );
}

#[test]
fn malformed_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let good = safetensors(&[("scale", Dtype::F32, &[2], OFFSET)]);
    for length in 0..good.len() {
        let path = written(folder, "cut.safetensors", &good[..length]);
        let error = Weights::read(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidModel, "{length}: {error}");
    }
    for (name, text, expected) in [
        (
            "index.json",
            r#"{"weight_map": {"a": "../x.safetensors"}}"#,
            "files beside it only",
        ),
        (
            "index.json",
            r#"{"weight_map": {"a": "index.json"}}"#,
            "expected safetensors files",
        ),
        ("index.json", "{}", "without 'weight_map'"),
        ("index.json", "{", "not an index of weights"),
        (
            "weights.bin",
            "",
            "weights of unknown kind: expected .safetensors",
        ),
    ] {
        let error = Weights::read(written(folder, name, text.as_bytes()))
            .err()
            .unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let path = written(folder, "good.safetensors", &good);
    let mut weights = Weights::read(&path).unwrap();
    let error = weights.add(Weights::read(&path).unwrap()).unwrap_err();
    assert!(error.to_string().contains("two tensors 'scale'"), "{error}");
}

#[test]
fn a_package_takes_no_weights() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = safetensors(&[
        ("scale", Dtype::BF16, &[2], SCALE),
        ("offset", Dtype::F32, &[2], OFFSET),
    ]);
    let weights = Weights::read(written(folder, "w.safetensors", &bytes)).unwrap();
    let package = folder.join("model.neff");
    let compiled = Compiler::new()
        .weights(weights.clone())
        .compile_file(model(folder));
    compiled.unwrap().write(&package).unwrap();
    let error = OpenOptions::new()
        .weights(weights)
        .open(&package)
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Usage);
}
