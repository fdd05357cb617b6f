//! At every CPU level: operators that onnxruntime lacks or treats in another way, and products, convolutions and
//! elements of integers, f16 and lower precision, compared with onnx's reference evaluator; operators of com.microsoft, compared with
//! onnxruntime. The models are made by `reference.py`.

mod common;

use common::made_by;
use std::path::Path;
use tenon::backends::CpuLevel;
use tenon::tensor::{convert, npy};
use tenon::{Compiler, DataType, LoadOptions, Model, Precision, Tensor};

/// The outputs of a model that are not those of the reference.
fn differences(folder: &Path, name: &str) -> Vec<String> {
    let precision = match name.split('-').next() {
        Some("f16") => Precision::F16,
        Some("bf16") => Precision::Bf16,
        _ => Precision::F32,
    };
    let load = || -> tenon::Result<Model> {
        let compiler = Compiler::new().precision(precision);
        let compiled = compiler.compile_file(folder.join(format!("{name}.onnx")))?;
        Model::from_package(&compiled.to_neff()?, &LoadOptions::default())
    };
    let arrays = npy::read_npz(folder.join(format!("{name}.npz"))).unwrap();
    let with = |prefix: &'static str| {
        let named = arrays.iter();
        named.filter_map(move |(name, tensor)| Some((name.strip_prefix(prefix)?, tensor)))
    };
    let inputs: Vec<(&str, &Tensor)> = with("in.").collect();
    let model = match load() {
        Ok(model) => model,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let outputs = match model.run(&inputs) {
        Ok(outputs) => outputs,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let mut found = Vec::new();
    let is_product = ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"]
        .iter()
        .any(|operator| name.starts_with(operator));
    let mut nodes = model.placement().nodes.iter();
    if is_product && !nodes.any(|node| node.operator == "tenon.QuantizedMatMul") {
        found.push(format!("{name}: no product of integers"));
    }
    for (output, expected) in with("out.") {
        let result = outputs.tensor(output).unwrap();
        // The reference may round a quantised element to the other side, and rounds sums of f16 at each step.
        // Weights of 16 bits are rounded to 11 or 8 bits, with bf16 the other operand too.
        let (relative, absolute) = match result.dtype() {
            _ if precision == Precision::F16 => (2e-3, 2e-3),
            _ if precision == Precision::Bf16 => (2e-2, 2e-2),
            DataType::F16 => (2e-3, 2e-3),
            dtype if dtype.bits() == 8 => (0.0, 1.0),
            DataType::I32 => (0.0, 0.0),
            // onnxruntime quantises X and the hidden states to u8.
            _ if name.starts_with("lstm") => (0.0, 0.02),
            _ => (1e-5, 1e-5),
        };
        let close = |(a, b): (&f64, &f64)| {
            a == b || (a - b).abs() <= absolute + relative * b.abs() || a.is_nan() && b.is_nan()
        };
        let wide = |tensor: &Tensor| convert(tensor, DataType::F64).unwrap();
        let (wide, of_reference) = (wide(result), wide(expected));
        let pairs = wide.as_slice::<f64>().zip(of_reference.as_slice::<f64>());
        let differs = pairs.and_then(|(a, b)| a.iter().zip(b).find(|pair| !close(*pair)));
        if result.ty() != expected.ty() || pairs.is_none() || differs.is_some() {
            found.push(format!("{name}, {output}: {} {differs:?}", result.ty()));
        }
    }
    found
}

#[test]
fn models_equal_the_reference() {
    let Some((folder, names)) = made_by("reference.py") else {
        return;
    };
    assert_eq!(names.len(), 265);
    for level in CpuLevel::ALL {
        // The only test of this process.
        let level = level.limit_to();
        let found = names.iter();
        let found: Vec<String> = found
            .flat_map(|name| differences(folder.path(), name))
            .collect();
        assert!(found.is_empty(), "{level}:\n{}", found.join("\n"));
    }
}
