//! CSV tables as model inputs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::inputs::{ImageOptions, read_input};
use tenon::{DataType, TensorType};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::Builder::new()
        .suffix(".csv")
        .tempfile()
        .expect("a file");
    std::fs::write(&file, bytes).expect("written");
    let ty = TensorType::new(DataType::I32, [2, 3]).expect("a type");
    if let Ok(tensor) = read_input(file.path(), &ty, &ImageOptions::default()) {
        assert_eq!(*tensor.ty(), ty);
    }
});
