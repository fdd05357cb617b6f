//! The small variants of the model families (models/export.py) against onnxruntime's outputs, on the
//! fast backend and on the reference one.

mod common;

use common::named;
use std::path::PathBuf;
use tenon::compare::{CompareOptions, Difference, compare_backends};
use tenon::{Compiler, LoadOptions, Model, Result};
use tenon_test_data::repository;

fn folder() -> PathBuf {
    repository("models/small")
}

/// Compiles, runs, and compares every output: at most `tolerance` relative error, same top.
fn check(name: &str, backends: &[&'static str], tolerance: f64) -> Result<Model> {
    let compiler = Compiler::new().backends(backends.iter().copied());
    let path = folder().join(name);
    let compiled = compiler.compile_file(path.with_extension("onnx"))?;
    let model = compiled.load(&LoadOptions::new())?;
    let arrays = path.with_extension("npz");
    let inputs = tenon::inputs::read_npz_inputs(&arrays)?;
    let inputs = named(&inputs);
    let expected = tenon::inputs::read_npz_outputs(&arrays)?;
    // Twice: the second run uses the memory of the first.
    for _ in 0..2 {
        let outputs = model.run(&inputs)?;
        assert_eq!(outputs.len(), expected.len());
        for (signature, output) in model.outputs().iter().zip(&outputs) {
            let reference = expected.iter().find(|(name, _)| *name == signature.name);
            let (_, reference) =
                reference.unwrap_or_else(|| panic!("no output {}", signature.name));
            let difference = Difference::between(output, reference)?;
            assert!(
                difference.relative <= tolerance && difference.same_top,
                "{name}: output {}: {difference:?}",
                signature.name
            );
        }
    }
    Ok(model)
}

macro_rules! families {
    ($($test:ident: $file:literal, $tolerance:literal;)*) => {$(
        mod $test {
            #[test]
            fn fast() {
                super::check($file, &["CpuAcc", "CpuRef"], $tolerance).unwrap();
            }

            #[test]
            fn reference() {
                super::check($file, &["CpuRef"], $tolerance).unwrap();
            }
        }
    )*};
}

families! {
    resnet50: "resnet50", 1e-3;
    mobilenetv2: "mobilenetv2", 1e-3;
    efficientnet_b0: "efficientnet-b0", 1e-3;
    detector: "detector", 1e-3;
    bert: "bert", 1e-3;
    gpt2: "gpt2", 1e-3;
    lstm: "lstm", 1e-3;
    mlp: "mlp", 1e-3;
    // The results of each operator are rounded to f16, by onnxruntime in other places than by Tenon, which fuses. Its
    // results for MobileNetV2 in f16 differ by 6e-2 from those in f32.
    mobilenetv2_f16: "mobilenetv2-f16", 5e-2;
    bert_f16: "bert-f16", 1e-2;
    // A value on the border of two int8 steps may round either way after a sum in another order: one
    // step of the last quantised layer is 1/127 of the range.
    // One step of the quantised logits, by which onnxruntime's products of integers differ from those in f32, too.
    resnet50_int8: "resnet50-int8", 3.2e-2;
    bert_int8: "bert-int8", 1e-3;
    gpt2_int4: "gpt2-int4", 1e-3;
}

#[test]
fn convolutional_networks_run_on_the_fast_backend_alone() {
    for name in ["resnet50", "mobilenetv2", "efficientnet-b0", "mlp"] {
        let model = check(name, &["CpuAcc", "CpuRef"], 1e-3).unwrap();
        let elsewhere: Vec<_> = model
            .placement()
            .nodes
            .iter()
            .filter(|node| node.backend == "CpuRef")
            .map(|node| format!("{} ({})", node.node, node.operator))
            .collect();
        assert!(elsewhere.is_empty(), "{name}: on CpuRef: {elsewhere:?}");
    }
}

#[test]
fn packages_are_as_large_as_their_models_and_outputs_do_not_depend_on_it() {
    let path = folder().join("resnet50");
    let inputs = tenon::inputs::read_npz_inputs(&path.with_extension("npz")).unwrap();
    let inputs = named(&inputs);
    let [(whole, expected), (small, found)] = [true, false].map(|keep_plain| {
        let compiler = Compiler::new().keep_plain_constants(keep_plain);
        let compiled = compiler.compile_file(path.with_extension("onnx")).unwrap();
        let size = compiled.to_bytes().unwrap().len();
        let model = compiled.load(&LoadOptions::new()).unwrap();
        (size, model.run(&inputs).unwrap())
    });
    assert_eq!(found, expected);
    let ratio = small as f64 / whole as f64;
    assert!((0.4..0.65).contains(&ratio), "{small} of {whole} bytes");
}

#[test]
fn packages_are_hardly_larger_than_their_models() {
    // The small variants of the other families have fewer channels than a vector has lanes: padding is
    // a larger share than at full size.
    for name in ["resnet50", "bert", "gpt2", "lstm", "mlp"] {
        let path = folder().join(name).with_extension("onnx");
        let model = std::fs::metadata(&path).unwrap().len() as f64;
        let compiled = Compiler::new().compile_file(&path).unwrap();
        let package = compiled.to_bytes().unwrap().len() as f64;
        assert!(
            package <= 1.05 * model + 65536.0,
            "{name}: {package} of {model} bytes"
        );
    }
}

#[test]
fn nodes_whose_constants_are_prepared_are_compared() {
    let path = folder().join("gpt2");
    let inputs = tenon::inputs::read_npz_inputs(&path.with_extension("npz")).unwrap();
    let inputs = named(&inputs);
    let model = path.with_extension("onnx");
    let compiled = Compiler::new().compile_file(model).unwrap();
    let fused_nodes = compiled.fused_nodes();
    let package = compiled.to_neff().unwrap();
    let options = CompareOptions::new("CpuAcc", "CpuRef").fused_nodes(fused_nodes);
    let compared = compare_backends(&package, &inputs, &options).unwrap();
    assert!(compared.divergence.is_none());
    assert!(compared.skipped.is_empty(), "{:?}", compared.skipped);
    let products = compared.compared.iter();
    assert!(
        products
            .filter(|node| node.operator == "tenon.MatMul")
            .count()
            > 8
    );
}
