//! LiteRT models: reads, converts, imports and compiles them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::{Compiler, Control, OpenOptions};

fuzz_target!(|bytes: &[u8]| {
    let control = Control::new();
    // Others are the input of the target `onnx`.
    if bytes.get(4..8) == Some(b"TFL3")
        && let Ok(model) = OpenOptions::new().control(control.clone()).model_from_bytes(bytes)
    {
        let _ = Compiler::new().control(control).compile_model(&model);
    }
});
