//! Models that the onnx package wrote and checked, at many operator sets: imported, compared with
//! the text in `models.txt`, and their shapes inferred. Needs a Python with `onnx`, named by the
//! environment variable `TENON_PYTHON`. `TENON_BLESS=1` rewrites `models.txt`.

use crate::build::body;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_base::Control;
use tenon_graph::{Graph, infer_node};
use tenon_onnx::{Dimension, ImportOptions, Model, NEWEST};
use tenon_tensor::Tensor;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx");

#[test]
#[allow(clippy::print_stderr, reason = "says that it is skipped")]
fn models_of_the_onnx_package_import() {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(FOLDER).join("models.py");
    let output = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let newest: i64 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(
        newest >= NEWEST,
        "the onnx package is older than the importer"
    );

    let mut text = String::new();
    for path in models(folder.path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (model, mut graph) = import(&path);
        if name.starts_with("types-") {
            check_types(&graph);
        } else {
            writeln!(text, "== {name}\n{}\n", body(&graph)).unwrap();
        }
        infer(&mut graph);
        check_outputs(&name, &model, &graph);
    }
    let golden = Path::new(FOLDER).join("models.txt");
    if std::env::var_os("TENON_BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(text == expected, "{text}\nset TENON_BLESS=1 to accept");
}

/// Constants `raw_TYPE` and `typed_TYPE` are both 0 1 1 of that type.
fn check_types(graph: &Graph) {
    assert_eq!(graph.values.len(), 40);
    for pair in graph.values.chunks(2) {
        let [raw, typed] = [0, 1].map(|index| pair[index].constant.as_ref().unwrap());
        assert_eq!(raw, typed, "{}", pair[0].name);
        assert_eq!(pair[0].name, format!("raw_{}", raw.dtype()));
        assert_eq!(pair[1].name, format!("typed_{}", raw.dtype()));
        let (bytes, size) = (raw.bytes(), raw.bytes().len() / 3);
        match raw.dtype().bits() {
            4 => assert_eq!(bytes, [0x10, 0x01]),
            _ => {
                assert!(bytes[..size].iter().all(|&byte| byte == 0));
                assert_eq!(bytes[size..2 * size], bytes[2 * size..]);
                assert_ne!(bytes[..size], bytes[size..2 * size]);
            }
        }
    }
}

fn models(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut models: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    models
}

fn import(path: &Path) -> (Model, Graph) {
    let control = Control::new();
    let model = Model::open(path, &control).unwrap();
    let dims = BTreeMap::from([("batch".to_owned(), 2)]);
    let named = model
        .signature()
        .inputs
        .iter()
        .flat_map(|input| input.shape.iter().flatten());
    let has_names = named
        .into_iter()
        .any(|dim| matches!(dim, Dimension::Named(_)));
    let options = if has_names {
        ImportOptions {
            dims,
            ..Default::default()
        }
    } else {
        ImportOptions::default()
    };
    let graph = model.graph(&options, &control).unwrap();
    (model, graph)
}

/// Infers all types; shapes that Shape nodes read become constants, as the compiler would do.
fn infer(graph: &mut Graph) {
    for id in graph.ids() {
        let types = infer_node(graph, id).unwrap();
        let node = graph.node(id).clone();
        for (output, ty) in node.outputs.iter().zip(types) {
            let Some(output) = *output else { continue };
            graph.value_mut(output).ty = Some(ty);
            if node.op.name == "Shape" {
                let input = graph.value(node.inputs[0].unwrap()).ty.clone().unwrap();
                let dims: Vec<i64> = input.shape().iter().map(|&dim| dim as i64).collect();
                let shape = Tensor::from_slice([dims.len()], &dims).unwrap();
                graph.value_mut(output).constant = Some(shape);
            }
        }
    }
}

/// Compares the outputs with those that the onnx package inferred.
fn check_outputs(name: &str, model: &Model, graph: &Graph) {
    assert_eq!(
        graph.outputs.len(),
        model.signature().outputs.len(),
        "{name}"
    );
    for (&output, declared) in graph.outputs.iter().zip(&model.signature().outputs) {
        let value = graph.value(output);
        let ty = value.ty.as_ref().unwrap();
        assert_eq!(value.name, declared.name, "{name}");
        assert_eq!(Some(ty.dtype()), declared.dtype, "{name}: {}", value.name);
        let shape = ty.shape().iter().zip(declared.shape.as_ref().unwrap());
        for (&extent, dimension) in shape {
            let expected = if let Dimension::Fixed(fixed) = dimension {
                *fixed
            } else {
                2
            };
            assert_eq!(extent, expected, "{name}: {}", value.name);
        }
    }
}
