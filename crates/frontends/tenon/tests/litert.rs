//! LiteRT models of each operator, compiled for the default backends and for CpuRef, compared with LiteRT's interpreter,
//! whose outputs `crates/formats/litert/tests/data/make.py` wrote.

#[path = "../../../formats/litert/tests/litert/data.rs"]
mod data;

use data::{Case, cases, difference};
use tenon::{Compiler, LoadOptions, OpenOptions, Tensor};

/// Runs a case; the error is a description of what differs.
fn check(case: &Case, compiler: &Compiler) -> Result<(), String> {
    let text = |error: tenon::Error| error.to_string();
    let package = compiler.compile_bytes(case.model.clone()).map_err(text)?;
    let model = package.load(&LoadOptions::new().threads(1)).map_err(text)?;
    let names: Vec<String> = model
        .inputs()
        .iter()
        .map(|input| input.name.clone())
        .collect();
    let inputs: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&case.inputs).collect();
    let outputs = model.run(&inputs).map_err(text)?;
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} outputs", outputs.len()));
    }
    let mut pairs = outputs.iter().zip(&case.outputs);
    let found = pairs.find_map(|(found, expected)| difference(found, expected, case.tolerance));
    found.map_or(Ok(()), Err)
}

fn check_all(compiler: &Compiler) {
    let cases = cases();
    let wrong = cases.iter().filter_map(|(name, case)| {
        let error = check(case, compiler).err()?;
        Some(format!("{name}: {error}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_default_backends_compute_what_the_interpreter_does() {
    check_all(&Compiler::new());
}

#[test]
fn the_reference_backend_computes_what_the_interpreter_does() {
    check_all(&Compiler::new().backend("CpuRef"));
}

#[test]
fn convolutions_of_bytes_are_computed_in_integers() {
    let case = &cases()["mobilenet_i8"];
    let package = Compiler::new().compile_bytes(case.model.clone()).unwrap();
    let graph = package.graph_text();
    // CpuAcc computes depthwise convolutions of eight channels in f32.
    assert_eq!(graph.matches("= tenon.QuantizedConv").count(), 2, "{graph}");
    assert_eq!(
        graph.matches("= tenon.QuantizedMatMul").count(),
        1,
        "{graph}"
    );
    assert_eq!(graph.matches("= Transpose").count(), 0, "{graph}");
}

#[test]
fn a_signature_is_chosen_by_name_and_its_batch_is_symbolic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.tflite");
    std::fs::write(&path, &cases()["signatures"].model).unwrap();
    let package = Compiler::new()
        .signature("square")
        .compile_file(&path)
        .unwrap();
    let model = package.load(&LoadOptions::new().threads(1)).unwrap();
    for rows in [1, 4] {
        let x = Tensor::from_slice([rows, 3], &vec![3.0f32; rows * 3]).unwrap();
        let outputs = model.run(&[("x", &x)]).unwrap();
        assert_eq!(
            outputs[0].as_slice::<f32>().unwrap(),
            vec![9.0f32; rows * 3]
        );
    }
    let error = Compiler::new()
        .signature("cube")
        .compile_file(&path)
        .err()
        .unwrap();
    let text = "model.tflite: the model has no signature 'cube'; it has double, square";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn a_model_of_onnx_has_no_signatures() {
    let path = tenon_test_data::repository("models/digits/digits.onnx");
    let error = OpenOptions::new()
        .signature("a")
        .open_model(path)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .ends_with("only LiteRT models have signatures"),
        "{error}"
    );
}
