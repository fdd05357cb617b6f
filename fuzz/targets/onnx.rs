//! ONNX models: reads, imports and compiles them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::{Compiler, Control, OnnxModel};

fuzz_target!(|bytes: &[u8]| {
    let control = Control::new();
    if let Ok(model) = OnnxModel::from_bytes(bytes, &control) {
        let _ = Compiler::new().control(control).compile_model(&model);
    }
});
