//! ONNX models: quantised to 4 bits and f16 without data, and to 8 bits for random inputs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::inputs::random_tensor;
use tenon::quantize::{Quantizer, Sample, Scheme};
use tenon::{Compiler, Control, LoadOptions, OnnxModel};

/// Most elements of an input.
const MAX_ELEMENTS: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Ok(onnx) = OnnxModel::from_bytes(bytes, &Control::new()) else {
        return;
    };
    let _ = Quantizer::new(Scheme::Int4 { block: 16 }).quantize(&onnx, &[]);
    let _ = Quantizer::new(Scheme::F16).quantize(&onnx, &[]);
    let package = Compiler::new().compile_model(&onnx);
    let Ok(model) = package.and_then(|package| package.load(&LoadOptions::new().threads(1))) else {
        return;
    };
    let mut sample = Sample::new();
    for input in model.inputs() {
        match random_tensor(&input.ty, 1) {
            Ok(tensor) if input.ty.elements() <= MAX_ELEMENTS => {
                sample.push((input.name.clone(), tensor));
            }
            _ => return,
        }
    }
    if let Ok(quantized) = Quantizer::new(Scheme::Int8).quantize(&onnx, &[sample]) {
        let _ = Compiler::new().compile_model(&quantized.onnx().expect("a model"));
    }
});
